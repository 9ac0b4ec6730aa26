/** A sandbox that never was: it has said nothing, and it has ended. */
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
