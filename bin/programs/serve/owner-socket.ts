/**
 * `openOwnerSocket` listens on a Unix socket in the data directory, and passes its connections on to the management port.
 *
 * Only Linux tells whose program is at the other end of a connection. Elsewhere the folder of the socket is the proof: it
 * lets in its owner alone, so nobody else can listen there when the host is dead. The launch file names the socket.
 */
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream'
import { SOCKET_FOLDER } from '../../../client/find-host.ts'
import type { Log } from '../../../core/ports/log.ts'
import { messageOf } from '../../../protocol/message-of.ts'

export interface OwnerSocket {
  /** In its folder. Each start has another, so a host that was replaced removes nothing of its successor. */
  readonly name: string
  close(): void
}

interface Management {
  readonly host: string
  readonly port: number
}

/** The shortest limit of a kernel, less the final zero. Node cuts longer paths silently. */
const PATH_BYTES_MAX = 103
const EXPOSED = 'so programs of this machine send the token to whatever listens at the port'
const TOO_LONG = `the path of the data directory is too long for a socket, ${EXPOSED}; choose a shorter one with --data-dir`
const NO_SOCKET = `the data directory takes no socket, ${EXPOSED}; choose one on a local disk with --data-dir`

/** Undefined where clients need none, or where there can be none. */
export async function openOwnerSocket(
  dataDir: string,
  management: Management,
  log: Pick<Log, 'warn'>,
  platform: NodeJS.Platform = process.platform,
): Promise<OwnerSocket | undefined> {
  if (platform === 'linux') return undefined
  const name = randomBytes(4).toString('hex')
  const folder = join(dataDir, SOCKET_FOLDER)
  const path = join(folder, name)
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) {
    log.warn({ dataDir }, TOO_LONG)
    return undefined
  }
  const clients = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (client) => {
    clients.add(client)
    client.on('close', () => clients.delete(client))
    const host = management.host.replace(/^\[|\]$/g, '')
    const inner = connect({ host, port: management.port, allowHalfOpen: true })
    // A broken connection is the business of its two ends.
    pipeline(client, inner, client, () => {})
  })
  try {
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { mode: 0o700 })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(path, resolve)
    })
    await chmod(path, 0o600)
  } catch (error) {
    // Some file systems have no sockets, such as exFAT and network shares. Nobody else can reach the folder.
    server.close()
    log.warn({ dataDir, reason: messageOf(error) }, NO_SOCKET)
    return undefined
  }
  server.on('error', () => {})
  return {
    name,
    close: () => {
      server.close()
      for (const client of clients) client.destroy()
    },
  }
}
