/**
 * Listening on a Unix socket, wherever its folder is and whoever may connect.
 *
 * A socket's address has room for about a hundred characters, and what is longer would be cut in silence. So the
 * folder is opened, and the socket made below that descriptor, which is always short.
 */
import { closeSync, constants, openSync } from 'node:fs'
import { chmod, chown, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { basename, dirname } from 'node:path'

export interface SocketOwner {
  readonly uid: number
  readonly gid: number
}

/** Takes no more, does `cut`, and resolves when every connection is closed. To be called once. */
export type StopListening = (cut: () => Promise<void>) => Promise<void>

const OWNER_ONLY = 0o600
const ANYONE = 0o666

export async function listenOn(
  path: string,
  owner: SocketOwner | undefined,
  onConnection: (client: Socket) => void,
): Promise<StopListening> {
  // Left by a worker that was killed.
  await rm(path, { force: true })
  const folder = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  const server = createServer({ allowHalfOpen: true }, onConnection)
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
      // From now on an error is one connection that could not be taken, and no reason to end the worker.
      server.off('error', reject).on('error', () => {})
      resolve()
    })
  })
}

/** The folder last: the socket's file is removed through it. */
async function closeServer(
  server: Server,
  folder: number,
  closeConnections: () => Promise<void>,
): Promise<void> {
  const serverClosed = new Promise<void>((resolve) => server.close(() => resolve()))
  await Promise.all([serverClosed, closeConnections()])
  closeSync(folder)
}
