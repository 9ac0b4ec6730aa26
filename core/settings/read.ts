/**
 * Parses a configuration text.
 *
 * `stored` is what the person wrote, and the only form that is written back; `effective` has every default filled in,
 * and is the only form that the service uses. A missing file means every default. A text with any fault is refused as
 * a whole, and the refusal starts with the path of the field. A text that is not JSON is refused with the place of its
 * fault.
 */
import { type CompletedConfig, completeConfig } from '../../protocol/config.ts'
import { CONFIG_BYTES_MAX } from '../../protocol/limits.ts'
import { isObject } from '../../protocol/merge-patch.ts'
import { no, type Result, yes } from '../result.ts'
import { checkJsonSafety } from './json-values.ts'

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

// ---- the place of a fault in JSON --------------------------------------------------------------------------------

interface JsonSyntaxError {
  readonly line: number
  readonly column: number
  readonly expected: string
}

/**
 * Finds the place where a text stops being JSON.
 *
 * Called only after `JSON.parse` has failed: its messages quote the text around the fault, which may be a token, and
 * often name no position. The returned fault quotes nothing. The function agrees with `JSON.parse` on every text (a
 * property test), and keeps its own stack, so that a text of a million brackets does not end the process.
 */
export function findJsonSyntaxError(text: string): JsonSyntaxError | undefined {
  const open: Bracket[] = []
  let expected: Expected = 'value'
  let offset = 0
  for (;;) {
    const token = readToken(text, skipSpace(text, offset))
    if (token.is === 'end' && expected === 'rest' && open.length === 0) return undefined
    const next = nextExpected(expected, token.is, open)
    if (next === undefined)
      return { ...positionOf(text, token.start), expected: describeExpected(expected, token, open, text) }
    expected = next
    offset = token.end
  }
}

type Bracket = '{' | '['
type Expected = 'value' | 'first item' | 'first key' | 'key' | 'colon' | 'rest'
type JsonTokenKind = Bracket | '}' | ']' | ':' | ',' | 'string' | 'scalar' | 'broken' | 'end'

interface JsonToken {
  readonly is: JsonTokenKind
  readonly start: number
  readonly end: number
  /** The token that was expected where a string breaks. */
  readonly expected?: string
}

// ---- the grammar -----------------------------------------------------------------------------------------------

/** Returns what is expected after this token, or undefined when the token is not allowed here. */
function nextExpected(expected: Expected, token: JsonTokenKind, open: Bracket[]): Expected | undefined {
  switch (expected) {
    case 'first item':
      return token === ']' ? close(open) : afterValueStart(token, open)
    case 'value':
      return afterValueStart(token, open)
    case 'first key':
      return token === '}' ? close(open) : afterKeyStart(token)
    case 'key':
      return afterKeyStart(token)
    case 'colon':
      return token === ':' ? 'value' : undefined
    case 'rest':
      return afterSeparator(token, open)
  }
}

function afterValueStart(token: JsonTokenKind, open: Bracket[]): Expected | undefined {
  if (token === 'string' || token === 'scalar') return 'rest'
  if (token !== '{' && token !== '[') return undefined
  open.push(token)
  return token === '{' ? 'first key' : 'first item'
}

function afterKeyStart(token: JsonTokenKind): Expected | undefined {
  return token === 'string' ? 'colon' : undefined
}

function afterSeparator(token: JsonTokenKind, open: Bracket[]): Expected | undefined {
  const inside = open.at(-1)
  if (inside === undefined) return undefined
  if (token === ',') return inside === '{' ? 'key' : 'value'
  return token === (inside === '{' ? '}' : ']') ? close(open) : undefined
}

function close(open: Bracket[]): Expected {
  open.pop()
  return 'rest'
}

// ---- the tokens ------------------------------------------------------------------------------------------------

const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
/** All characters except control characters, the quote and the backslash. */
const PLAIN = /[\u0020\u0021\u0023-\u005b\u005d-\uffff]+/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y
const SPACE = /[ \t\n\r]+/y

function readToken(text: string, start: number): JsonToken {
  const char = text[start]
  if (char === undefined) return { is: 'end', start, end: start }
  if (isPunctuation(char)) return { is: char, start, end: start + 1 }
  if (char === '"') return readString(text, start)
  const end = matchEnd(SCALAR, text, start)
  return end === undefined ? { is: 'broken', start, end: start } : { is: 'scalar', start, end }
}

/** A broken string is reported where it breaks, not where it starts. */
function readString(text: string, start: number): JsonToken {
  let offset = start + 1
  while (text[offset] !== '"') {
    const end = matchEnd(PLAIN, text, offset) ?? matchEnd(ESCAPE, text, offset)
    if (end === undefined)
      return { is: 'broken', start: offset, end: offset, expected: expectedInString(text[offset]) }
    offset = end
  }
  return { is: 'string', start, end: offset + 1 }
}

function expectedInString(char: string | undefined): string {
  if (char === '\\') return 'a valid escape after the backslash'
  return char === '\t' ? 'a tab written as \\t' : 'the closing quote'
}

function skipSpace(text: string, offset: number): number {
  return matchEnd(SPACE, text, offset) ?? offset
}

function matchEnd(pattern: RegExp, text: string, offset: number): number | undefined {
  pattern.lastIndex = offset
  return pattern.test(text) ? pattern.lastIndex : undefined
}

function isPunctuation(char: string): char is '{' | '[' | '}' | ']' | ':' | ',' {
  return '{[}]:,'.includes(char)
}

// ---- the messages ----------------------------------------------------------------------------------------------

function describeExpected(
  expected: Expected,
  token: JsonToken,
  open: readonly Bracket[],
  text: string,
): string {
  if (token.expected !== undefined) return token.expected
  if (token.is === 'broken' && text[token.start] === '/') return 'no comment (JSON has none)'
  if (token.is === '}' && expected === 'key') return 'no comma before the closing }'
  if (token.is === ']' && expected === 'value') return 'no comma before the closing ]'
  return expected === 'rest' ? expectedAfterValue(open.at(-1)) : EXPECTED_TEXT[expected]
}

function expectedAfterValue(inside: Bracket | undefined): string {
  if (inside === undefined) return 'the end of the text'
  return inside === '{' ? 'a comma or }' : 'a comma or ]'
}

const EXPECTED_TEXT: Readonly<Record<Exclude<Expected, 'rest'>, string>> = {
  value: 'a value',
  'first item': 'a value or ]',
  'first key': 'a key in double quotes or }',
  key: 'a key in double quotes',
  colon: 'a colon',
}

function positionOf(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset).split(/\r\n|\r|\n/)
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}
