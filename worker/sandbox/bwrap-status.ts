/**
 * What bubblewrap reports about a sandbox: lines of JSON, first the number of its first process as seen from outside,
 * in the end the command's exit code. There is no exit code when the command was never started.
 */
import type { Readable } from 'node:stream'

export interface BwrapStatus {
  readonly childPid?: number
  readonly exitCode?: number
}

const STATUS_CHARS_MAX = 64 * 1024

/** `told` is called whenever something is new. Resolves with all there was, when there is no more. */
export function readBwrapStatus(
  stream: Readable,
  onStatus: (status: BwrapStatus) => void,
): Promise<BwrapStatus> {
  return new Promise((resolve) => {
    let text = ''
    let status: BwrapStatus = {}
    stream.setEncoding('utf8').on('data', (part: string) => {
      const lines = (text + part).slice(0, STATUS_CHARS_MAX).split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) status = { ...status, ...parseStatusLine(line) }
      onStatus(status)
    })
    stream.on('error', () => {}).on('close', () => resolve(status))
  })
}

function parseStatusLine(line: string): BwrapStatus {
  const childPid = findNumber(line, 'child-pid')
  const exitCode = findNumber(line, 'exit-code')
  return { ...(childPid === undefined ? {} : { childPid }), ...(exitCode === undefined ? {} : { exitCode }) }
}

function findNumber(line: string, name: string): number | undefined {
  const [, digits] = new RegExp(`"${name}"\\s*:\\s*(\\d+)`).exec(line) ?? []
  return digits === undefined ? undefined : Number(digits)
}
