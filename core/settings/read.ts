/**
 * What a configuration text means.
 *
 * `stored` is what the person wrote, and all that is ever written back; `effective` is that with every default filled
 * in, and all that the rest of the service sees. No file means every default. A text that is wrong anywhere is wrong
 * as a whole, and the refusal starts with the field to look at.
 */
import { type CompletedConfig, completeConfig } from '../../protocol/config.ts'
import { CONFIG_BYTES_MAX } from '../../protocol/limits.ts'
import { no, type Result, yes } from '../result.ts'
import { checkJsonSafety } from './json-safety.ts'
import { findJsonSyntaxError } from './json-syntax-error.ts'
import { isObject } from './merge.ts'

export function readConfig(text: string | undefined): Result<CompletedConfig> {
  if (text === undefined) return complete({})
  const bytes = Buffer.byteLength(text)
  if (bytes > CONFIG_BYTES_MAX)
    return no('invalid', `/: must have at most ${CONFIG_BYTES_MAX} bytes, not ${bytes}`)
  const parsed = parse(stripByteOrderMark(text))
  return parsed.ok ? complete(parsed.value) : parsed
}

/** From a JSON value of any shape to a configuration, or the first reason why not. */
function complete(value: unknown): Result<CompletedConfig> {
  if (!isObject(value)) return no('invalid', '/: must be an object')
  const sound = checkJsonSafety(value)
  if (!sound.ok) return sound
  const completed = completeConfig(value)
  return completed.ok ? yes(completed.value) : no('invalid', completed.error)
}

function parse(text: string): Result<unknown> {
  try {
    return yes(JSON.parse(text))
  } catch {
    // The error is dropped on purpose: it quotes the text, which holds secrets.
    const fault = findJsonSyntaxError(text)
    if (fault === undefined) return no('invalid', '/: is not JSON')
    return no(
      'invalid',
      `/: is not JSON: line ${fault.line}, column ${fault.column}, expected ${fault.expected}`,
    )
  }
}

/** Some editors put a byte order mark in front. */
function stripByteOrderMark(text: string): string {
  return text.startsWith('\ufeff') ? text.slice(1) : text
}
