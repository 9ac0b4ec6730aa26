/**
 * `openProven` connects to the host, and proves whose program is at the other end before anything is sent. Without
 * Node's HTTP client, which takes longer to load than one request needs.
 */
import { connect, type Socket } from 'node:net'
import type { HostOwner } from './connection.ts'
import { provePeer } from './peer-owner.ts'

export const HTTP_PORT = 80

export async function openProven(
  { hostname, port }: URL,
  owner: HostOwner | undefined,
  signal?: AbortSignal,
): Promise<Socket> {
  signal?.throwIfAborted()
  const socket = connect(
    owner?.socketPath === undefined
      ? { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || HTTP_PORT) }
      : { path: owner.socketPath },
  )
  const abort = () => void socket.destroy()
  signal?.addEventListener('abort', abort)
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('close', () => reject(new Error('the connection broke')))
      // The listener stays, because an error without one would end the process.
      socket.on('error', reject)
    })
    await provePeer(socket, owner)
    return socket
  } catch (error) {
    socket.destroy()
    throw signal?.aborted === true ? signal.reason : error
  } finally {
    signal?.removeEventListener('abort', abort)
  }
}
