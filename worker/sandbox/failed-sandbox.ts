/** A sandbox process for an order that could not be started: no output, and already ended with the reason. */
import { Readable } from 'node:stream'
import type { SandboxProcess } from './sandbox-process.ts'

export function failedSandbox(reason: string): SandboxProcess {
  return {
    stdout: Readable.from([]),
    stderr: Readable.from([]),
    interrupt: () => {},
    kill: () => {},
    ended: Promise.resolve({ startFailure: reason }),
  }
}
