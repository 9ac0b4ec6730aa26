/**
 * Finds the place where a text stops being JSON.
 *
 * Called only after `JSON.parse` has failed: its messages quote the text around the fault, which may be a token, and
 * often name no position. This function returns the line, the column and what was expected there, and quotes nothing.
 * The function agrees with `JSON.parse` on every text (a property test), and keeps its own stack, so that a text of a million
 * brackets does not end the process.
 */
export interface JsonSyntaxError {
  readonly line: number
  readonly column: number
  readonly expected: string
}

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
