/**
 * Parses a configuration text.
 *
 * `stored` is what the person wrote, and the only form that is written back; `effective` has every default filled in,
 * and is the only form that the service uses. A missing file means every default. A text with any fault is refused as
 * a whole, and the refusal starts with the path of the field.
 */
import { type CompletedConfig, completeConfig } from '../../protocol/config.ts'
import { CONFIG_BYTES_MAX } from '../../protocol/limits.ts'
import { isObject } from '../../protocol/merge-patch.ts'
import { no, type Result, yes } from '../result.ts'
import { checkJsonSafety } from './json-safety.ts'
import { findJsonSyntaxError } from './json-syntax-error.ts'

export function readConfig(text: string | undefined): Result<CompletedConfig> {
  if (text === undefined) return complete({})
  const bytes = Buffer.byteLength(text)
  if (bytes > CONFIG_BYTES_MAX)
    return no('invalid', `/: must have at most ${CONFIG_BYTES_MAX} bytes, not ${bytes}`)
  const parsed = parse(stripByteOrderMark(text))
  return parsed.ok ? complete(parsed.value) : parsed
}

/** Turns a JSON value of any shape into a configuration, or returns the first reason why not. */
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
    // The error is dropped on purpose, because it quotes the text, which contains secrets.
    const fault = findJsonSyntaxError(text)
    if (fault === undefined) return no('invalid', '/: is not JSON')
    return no(
      'invalid',
      `/: is not JSON: line ${fault.line}, column ${fault.column}, expected ${fault.expected}`,
    )
  }
}

/** Some editors write a byte order mark at the start. */
function stripByteOrderMark(text: string): string {
  return text.startsWith('\ufeff') ? text.slice(1) : text
}
