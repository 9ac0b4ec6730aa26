/** Reads git's output streams: parts of limited size, the search for a text, and the redaction of tokens. */
import type { Readable } from 'node:stream'
import { isNativeError } from 'node:util/types'
import { createRedactor } from '../../core/redact-secrets.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { TOKEN_USER } from './address.ts'
import { isDiskFull } from './disk-full.ts'

const OUTPUT_CHARS_MAX = 256 * 1024
const STDERR_CHARS_MAX = 16 * 1024

export function keepStart(stream: Readable | null, charsMax = OUTPUT_CHARS_MAX): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    if (text.length < charsMax) text = (text + part).slice(0, charsMax)
  })
  return () => text
}

/** A match may span two chunks, so the end of one chunk is searched together with the next. */
export function watchFor(stream: Readable | null, text: string): () => boolean {
  let hasFound = false
  let end = ''
  stream?.on('data', (part: string) => {
    const seen = end + part
    hasFound ||= seen.includes(text)
    end = seen.slice(1 - text.length)
  })
  return () => hasFound
}

/** A reader that fails also ends git, because nobody takes its output any more. */
export async function readWhole(
  output: Readable | null,
  read: ((output: Readable) => Promise<void>) | undefined,
): Promise<Result<void>> {
  if (output === null || read === undefined) return yes(undefined)
  try {
    await read(output)
    return yes(undefined)
  } catch (error) {
    return no(
      isDiskFull(error) ? 'unavailable' : 'failed',
      `git’s output could not be read: ${isNativeError(error) ? error.message : String(error)}`,
    )
  } finally {
    output.destroy()
  }
}

export function keepEnd(stream: Readable | null): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    text = (text + part).slice(-STDERR_CHARS_MAX)
  })
  return () => text
}

/** Git hides passwords in addresses, but the server's response may contain the token. */
export function redactorFor(token: string | undefined): (text: string) => string {
  // Also redact the Basic header: base64 of `user:token` differs from base64 of the token alone.
  return createRedactor([Buffer.from(`${TOKEN_USER}:${token}`).toString('base64'), token])
}
