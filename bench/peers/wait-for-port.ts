/** Waits until a process listens on a port of this machine. */
import { createConnection } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchProcess } from '../bench-resources.ts'

const LISTENING_MS_MAX = 90_000
const POLL_EVERY_MS = 50

export async function waitForPort(child: BenchProcess, port: number): Promise<void> {
  const until = performance.now() + LISTENING_MS_MAX
  let exitCode: number | undefined
  void child.ended.then((code) => {
    exitCode = code
  })
  while (!(await isListening(port))) {
    if (exitCode !== undefined) throw new Error(`the server for port ${port} ended with ${exitCode}`)
    if (performance.now() > until)
      throw new Error(`nothing listens on port ${port} after ${LISTENING_MS_MAX} ms`)
    await sleep(POLL_EVERY_MS)
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port }, () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
