/**
 * Listens on a Unix socket at a path of any length, with access for one user or for everyone.
 *
 * The kernel limits a socket address to about a hundred characters, and Node truncates longer ones silently. So the
 * socket is created through the open descriptor of its folder (`/proc/self/fd/N`), which is always short.
 */
import { closeSync, constants, openSync } from 'node:fs'
import { chmod, chown, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { basename, dirname } from 'node:path'

export interface SocketOwner {
  readonly uid: number
  readonly gid: number
}

/** Stops accepting, calls `closeConnections`, and resolves when every connection is closed. Call it once. */
export type StopListening = (closeConnections: () => Promise<void>) => Promise<void>

const OWNER_ONLY = 0o600
const ANYONE = 0o666

export function listenOn(
  path: string,
  owner: SocketOwner | undefined,
  onConnection: (client: Socket) => void,
): Promise<StopListening> {
  return listenWith(createServer({ allowHalfOpen: true }, onConnection), path, owner)
}

/** For a server of the caller's own, such as an HTTP server. */
export async function listenWith(
  server: Server,
  path: string,
  owner: SocketOwner | undefined,
): Promise<StopListening> {
  // A killed worker may have left its socket.
  await rm(path, { force: true })
  const folder = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  const stopListening = (closeConnections: () => Promise<void>) =>
    closeServer(server, folder, closeConnections)
  try {
    await listening(server, `/proc/self/fd/${folder}/${basename(path)}`)
    if (owner !== undefined) await chown(path, owner.uid, owner.gid)
    await chmod(path, owner === undefined ? ANYONE : OWNER_ONLY)
  } catch (error) {
    await stopListening(async () => {})
    throw error
  }
  return stopListening
}

function listening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      // From now on an error concerns one connection that could not be accepted; it must not end the worker.
      server.off('error', reject).on('error', () => {})
      resolve()
    })
  })
}

/** Closes the folder last, because the socket's file is removed through it. */
async function closeServer(
  server: Server,
  folder: number,
  closeConnections: () => Promise<void>,
): Promise<void> {
  const serverClosed = new Promise<void>((resolve) => server.close(() => resolve()))
  await Promise.all([serverClosed, closeConnections()])
  closeSync(folder)
}
