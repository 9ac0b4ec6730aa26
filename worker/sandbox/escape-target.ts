/** Collects the host facts that an escape test is compared with, and opens a listener that it must not reach. */
import { once } from 'node:events'
import { readlinkSync, statSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { homedir } from 'node:os'
import { type EscapeTarget, NAMESPACES } from './escape-test.ts'

export interface OpenEscapeTarget extends EscapeTarget {
  close(): void
}

export async function openEscapeTarget(): Promise<OpenEscapeTarget> {
  // Collect these before listening: if they throw, an unclosed listener would keep the process alive.
  const { home, inode } = homeOrRoot()
  const namespaces = NAMESPACES.map((kind) => readlinkSync(`/proc/self/ns/${kind}`))
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { pid: process.pid, port, home, inode, namespaces, close: () => server.close() }
}

/** Service users often have no home folder; the test then looks for the host's root folder instead. */
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
