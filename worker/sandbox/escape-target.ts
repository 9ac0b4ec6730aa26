/** What is outside, looked at while a trial runs inside; with a listener that the trial must not be able to reach. */
import { once } from 'node:events'
import { readlinkSync, statSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { homedir } from 'node:os'
import { type EscapeTarget, NAMESPACES } from './escape-test.ts'

export interface OpenEscapeTarget extends EscapeTarget {
  close(): void
}

export async function openEscapeTarget(): Promise<OpenEscapeTarget> {
  // First, for a listener that nobody closes would keep the process from ending.
  const { home, inode } = homeOrRoot()
  const namespaces = NAMESPACES.map((kind) => readlinkSync(`/proc/self/ns/${kind}`))
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { pid: process.pid, port, home, inode, namespaces, close: () => server.close() }
}

/** Users of services often have no home, or one that is not there; then the host's root is looked for inside. */
function homeOrRoot(): { readonly home: string; readonly inode: string } {
  try {
    return inspectFolder(homedir())
  } catch {
    return inspectFolder('/')
  }
}

function inspectFolder(home: string) {
  const { dev, ino } = statSync(home, { bigint: true })
  return { home, inode: `${dev}:${ino}` }
}
