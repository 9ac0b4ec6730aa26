/** Options whose text may be long: `-` reads it from standard input. */
import { PROSE_CHARS_MAX } from '../../protocol/limits.ts'
import { EXIT, ExitError } from '../exit.ts'

export async function readTextOption(text: string, option: string): Promise<string> {
  if (text !== '-') return text
  if (process.stdin.isTTY === true)
    throw new ExitError(EXIT.usage, `${option} - reads standard input, and that is a terminal`)
  let read = ''
  process.stdin.setEncoding('utf8')
  for await (const part of process.stdin) {
    read += String(part)
    if (read.length > PROSE_CHARS_MAX)
      throw new ExitError(
        EXIT.usage,
        `${option}: standard input is longer than ${PROSE_CHARS_MAX} characters`,
      )
  }
  return read.trimEnd()
}
