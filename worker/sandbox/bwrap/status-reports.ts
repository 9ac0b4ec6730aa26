/**
 * Reads bubblewrap's status reports: JSON lines with the host pid of the sandbox's init, and finally the exit code.
 *
 * No exit code is reported when the command was never started.
 */
import type { Readable } from 'node:stream'

export interface BwrapStatus {
  readonly childPid?: number
  readonly exitCode?: number
}

const STATUS_CHARS_MAX = 64 * 1024

/** Calls `onStatus` with the merged status after each chunk. Resolves with the final status when the stream closes. */
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
