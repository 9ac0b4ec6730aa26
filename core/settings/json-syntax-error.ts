/**
 * Where a text stops being JSON.
 *
 * Only asked once `JSON.parse` has refused: its own messages quote the text around the fault, which in a
 * configuration may be somebody's token, and often name no position. This one says the line, the column and what was
 * expected there, and quotes nothing. It agrees with `JSON.parse` on every text (a law in its tests), and keeps its
 * own stack, for a text of a million brackets must not end the process.
 */
export interface SyntaxFault {
  readonly line: number
  readonly column: number
  readonly expected: string
}

export function syntaxFault(text: string): SyntaxFault | undefined {
  const open: Bracket[] = []
  let wanted: Wanted = 'value'
  let offset = 0
  for (;;) {
    const token = tokenAt(text, skipSpace(text, offset))
    if (token.is === 'end' && wanted === 'rest' && open.length === 0) return undefined
    const next = step(wanted, token.is, open)
    if (next === undefined)
      return { ...placeOf(text, token.start), expected: expectation(wanted, token, open, text) }
    wanted = next
    offset = token.end
  }
}

type Bracket = '{' | '['
type Wanted = 'value' | 'first item' | 'first key' | 'key' | 'colon' | 'rest'
type TokenKind = Bracket | '}' | ']' | ':' | ',' | 'string' | 'scalar' | 'broken' | 'end'

interface Token {
  readonly is: TokenKind
  readonly start: number
  readonly end: number
  /** What a broken string wanted where it broke. */
  readonly wanted?: string
}

// ---- the grammar -----------------------------------------------------------------------------------------------

/** What is wanted after this token, or undefined when the token may not stand here. */
function step(wanted: Wanted, token: TokenKind, open: Bracket[]): Wanted | undefined {
  switch (wanted) {
    case 'first item':
      return token === ']' ? close(open) : stepIntoValue(token, open)
    case 'value':
      return stepIntoValue(token, open)
    case 'first key':
      return token === '}' ? close(open) : stepIntoKey(token)
    case 'key':
      return stepIntoKey(token)
    case 'colon':
      return token === ':' ? 'value' : undefined
    case 'rest':
      return stepOn(token, open)
  }
}

function stepIntoValue(token: TokenKind, open: Bracket[]): Wanted | undefined {
  if (token === 'string' || token === 'scalar') return 'rest'
  if (token !== '{' && token !== '[') return undefined
  open.push(token)
  return token === '{' ? 'first key' : 'first item'
}

function stepIntoKey(token: TokenKind): Wanted | undefined {
  return token === 'string' ? 'colon' : undefined
}

function stepOn(token: TokenKind, open: Bracket[]): Wanted | undefined {
  const inside = open.at(-1)
  if (inside === undefined) return undefined
  if (token === ',') return inside === '{' ? 'key' : 'value'
  return token === (inside === '{' ? '}' : ']') ? close(open) : undefined
}

function close(open: Bracket[]): Wanted {
  open.pop()
  return 'rest'
}

// ---- the words -------------------------------------------------------------------------------------------------

const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
/** All but control characters, the quote and the backslash. */
const PLAIN = /[\u0020\u0021\u0023-\u005b\u005d-\uffff]+/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y
const SPACE = /[ \t\n\r]+/y

function tokenAt(text: string, start: number): Token {
  const char = text[start]
  if (char === undefined) return { is: 'end', start, end: start }
  if (isPunctuation(char)) return { is: char, start, end: start + 1 }
  if (char === '"') return stringAt(text, start)
  const end = matchEnd(SCALAR, text, start)
  return end === undefined ? { is: 'broken', start, end: start } : { is: 'scalar', start, end }
}

/** A string that breaks is reported where it breaks, not where it starts. */
function stringAt(text: string, start: number): Token {
  let offset = start + 1
  while (text[offset] !== '"') {
    const end = matchEnd(PLAIN, text, offset) ?? matchEnd(ESCAPE, text, offset)
    if (end === undefined)
      return { is: 'broken', start: offset, end: offset, wanted: wantedInString(text[offset]) }
    offset = end
  }
  return { is: 'string', start, end: offset + 1 }
}

function wantedInString(char: string | undefined): string {
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

// ---- what people read ------------------------------------------------------------------------------------------

function expectation(wanted: Wanted, token: Token, open: readonly Bracket[], text: string): string {
  if (token.wanted !== undefined) return token.wanted
  if (token.is === 'broken' && text[token.start] === '/') return 'no comment (JSON has none)'
  if (token.is === '}' && wanted === 'key') return 'no comma before the closing }'
  if (token.is === ']' && wanted === 'value') return 'no comma before the closing ]'
  return wanted === 'rest' ? expectedAfterValue(open.at(-1)) : EXPECTED[wanted]
}

function expectedAfterValue(inside: Bracket | undefined): string {
  if (inside === undefined) return 'the end of the text'
  return inside === '{' ? 'a comma or }' : 'a comma or ]'
}

const EXPECTED: Readonly<Record<Exclude<Wanted, 'rest'>, string>> = {
  value: 'a value',
  'first item': 'a value or ]',
  'first key': 'a key in double quotes or }',
  key: 'a key in double quotes',
  colon: 'a colon',
}

function placeOf(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset).split(/\r\n|\r|\n/)
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}
