/** What is outside, looked at while a trial runs inside; with a listener that the trial must not be able to reach. */
import { once } from 'node:events'
import { readlinkSync, statSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { homedir } from 'node:os'
import { NAMESPACES, type Outside } from './trial.ts'

export interface Witness extends Outside {
  close(): void
}

export async function witness(): Promise<Witness> {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const home = homedir()
  const { dev, ino } = statSync(home, { bigint: true })
  const namespaces = NAMESPACES.map((kind) => readlinkSync(`/proc/self/ns/${kind}`))
  return { pid: process.pid, port, home, inode: `${dev}:${ino}`, namespaces, close: () => server.close() }
}
