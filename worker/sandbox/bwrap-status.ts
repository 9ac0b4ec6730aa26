/**
 * What bubblewrap reports about a sandbox: lines of JSON, first the number of its first process as seen from outside,
 * in the end the command's exit code. There is no exit code when the command was never started.
 */
import type { Readable } from 'node:stream'

export interface Status {
  readonly childPid?: number
  readonly exitCode?: number
}

const STATUS_CHARS_MAX = 64 * 1024

/** `told` is called whenever something is new. Resolves with all there was, when there is no more. */
export function readStatus(stream: Readable, told: (status: Status) => void): Promise<Status> {
  return new Promise((resolve) => {
    let text = ''
    let status: Status = {}
    stream.setEncoding('utf8').on('data', (part: string) => {
      const lines = (text + part).slice(0, STATUS_CHARS_MAX).split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) status = { ...status, ...statusOf(line) }
      told(status)
    })
    stream.on('error', () => {}).on('close', () => resolve(status))
  })
}

function statusOf(line: string): Status {
  const childPid = numberIn(line, 'child-pid')
  const exitCode = numberIn(line, 'exit-code')
  return { ...(childPid === undefined ? {} : { childPid }), ...(exitCode === undefined ? {} : { exitCode }) }
}

function numberIn(line: string, name: string): number | undefined {
  const [, digits] = new RegExp(`"${name}"\\s*:\\s*(\\d+)`).exec(line) ?? []
  return digits === undefined ? undefined : Number(digits)
}
