/**
 * The few lines of YAML at the head of a ticket's file.
 *
 * A strict subset: what is read here means the same to every YAML reader, and what could be meant two ways is refused
 * with the way to write it. One line a key; a value is a text (plain or quoted), a list in brackets, or a list of
 * lines that begin with a dash. Everything is text; what is a number or an instant is for others to say.
 *
 * Only ASCII has a meaning here, so the text may as well be bytes read as Latin-1, and `from` and `to` are then
 * places in the bytes. Blanks are therefore spaces and tabs, never whatever else Unicode calls a space.
 */

export interface FrontMatterEntry {
  /** undefined: nothing is there, or `null`. */
  readonly value: string | readonly string[] | undefined
  /** From 1. */
  readonly line: number
  /** Where the value stands in the text; right behind the colon when there is none. */
  readonly from: number
  readonly to: number
}

export interface FrontMatter {
  readonly entries: ReadonlyMap<string, FrontMatterEntry>
  /** Where the closing `---` begins, and where the text behind it does. */
  readonly end: number
  readonly body: number
  /** How the first line ends, and so how a new one should. */
  readonly newline: '\n' | '\r\n'
}

/** What is wrong, and what to write instead; without the line there is nothing to point at. */
export interface FrontMatterFault {
  readonly line: number
  readonly message: string
}

export type FrontMatterResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly fault: FrontMatterFault }

interface FrontMatterLine {
  readonly text: string
  readonly from: number
  /** From 1. */
  readonly number: number
}

const KEY = /^([A-Za-z_][A-Za-z0-9_-]*):(?=[ \t]|$)[ \t]*/
const DASH = /^ *-(?: +|$)/
const FENCE = /^---[ \t]*$/
/** YAML allows none of them; a lone carriage return would even end the line. Above 0x7f it may be half of a letter. */
const CONTROL = /[^\P{Cc}\t\u0080-\u009f]/u
const BLANK_LINE = /^[ \t]*(#|$)/
const NULL_VALUE = /^(~|null|Null|NULL)?$/
const LONE_SURROGATE = /\p{Cs}/u
/** In front of a text they mean something else to YAML. */
const YAML_INDICATOR = /^[[\]{},&*!|>%@`"'#]|^[-?:](?:[ \t]|$)/

export function readFrontMatter(text: string): FrontMatterResult<FrontMatter> {
  const lines = splitLines(text)
  const first = lines.next().value
  if (first === undefined || !FENCE.test(first.text)) {
    return fault(1, 'must be ---, with the fields (title: …) below it and another --- at their end')
  }
  const newline = text[first.from + first.text.length] === '\r' ? '\r\n' : '\n'
  const entries = new Map<string, FrontMatterEntry>()
  let open: OpenList | undefined
  for (const line of lines) {
    if (FENCE.test(line.text)) {
      const body = text.indexOf('\n', line.from) + 1 || text.length
      return { ok: true, value: { entries, end: line.from, body, newline } }
    }
    if (CONTROL.test(line.text)) return fault(line.number, 'holds a control character; remove it')
    if (BLANK_LINE.test(line.text)) continue
    const read = DASH.test(line.text) ? readItem(line, open) : readEntry(line, entries)
    if (!read.ok) return read
    open = read.value
    entries.set(read.value.key, read.value.entry)
  }
  return fault(1, 'opens the fields, and no second --- ends them; put one below the last field')
}

/** Ends with `\n` or `\r\n`, either of which is left out. */
function* splitLines(text: string): Generator<FrontMatterLine, undefined> {
  let from = 0
  for (let number = 1; from < text.length; number++) {
    const at = text.indexOf('\n', from)
    const to = at < 0 ? text.length : at
    const bare = text[to - 1] === '\r' && to > from ? to - 1 : to
    yield { text: text.slice(from, bare), from, number }
    from = to + 1
  }
}

// ---- one line ----------------------------------------------------------------------------------------------------

/** The key read last: a list of lines may follow it. */
interface OpenList {
  readonly key: string
  readonly entry: FrontMatterEntry
  /** The entry's value, once it has an item; it grows in place, since a file may have thousands. */
  readonly items?: string[]
}

function readEntry(
  line: FrontMatterLine,
  entries: ReadonlyMap<string, FrontMatterEntry>,
): FrontMatterResult<OpenList> {
  const match = KEY.exec(line.text)
  const key = match?.[1]
  if (match === null || key === undefined) {
    return fault(
      line.number,
      'must be a field such as "state: Todo", beginning at the start of the line, its value on the same line',
    )
  }
  if (entries.has(key)) return fault(line.number, `${key} is there a second time; leave one of them`)
  const at = match[0].length
  const read = readValue(line, at)
  if (!read.ok) return read
  const { value, to } = read.value
  const from = line.from + (to > at ? at : key.length + 1)
  return ok({ key, entry: { value, line: line.number, from, to: to > at ? line.from + to : from } })
}

function readItem(line: FrontMatterLine, open: OpenList | undefined): FrontMatterResult<OpenList> {
  if (open === undefined || open.entry.to > open.entry.from) {
    return fault(line.number, 'is an item of no list; put it below a field with nothing behind its colon')
  }
  const read = readText(line, DASH.exec(line.text)?.[0].length ?? 0, '')
  if (!read.ok) return read
  const behind = refuseTrailingText(line, read.value.to)
  if (behind !== undefined) return behind
  if (read.value.value === undefined) return fault(line.number, 'is an item with nothing in it; take it out')
  const items = open.items ?? []
  items.push(read.value.value)
  return ok({ key: open.key, entry: { ...open.entry, value: items }, items })
}

interface ParsedPart<T> {
  readonly value: T
  /** Where it ends in the line. */
  readonly to: number
}

function readValue(
  line: FrontMatterLine,
  at: number,
): FrontMatterResult<ParsedPart<FrontMatterEntry['value']>> {
  const read = line.text[at] === '[' ? readList(line, at) : readText(line, at, '')
  if (!read.ok) return read
  return refuseTrailingText(line, read.value.to) ?? read
}

function readList(line: FrontMatterLine, start: number): FrontMatterResult<ParsedPart<readonly string[]>> {
  const items: string[] = []
  let at = skipBlanks(line.text, start + 1)
  while (line.text[at] !== ']') {
    const item = readText(line, at, ',[]{}')
    if (!item.ok) return item
    at = skipBlanks(line.text, item.value.to)
    const isItemEnd = line.text[at] === ',' || line.text[at] === ']'
    if (!isItemEnd)
      return fault(line.number, 'a list must end on its line, such as [bug, ui]; put quotes around odd items')
    if (item.value.value === undefined)
      return fault(line.number, 'is a list with an item that is empty; take it out')
    items.push(item.value.value)
    if (line.text[at] === ',') at = skipBlanks(line.text, at + 1)
  }
  return ok({ value: items, to: at + 1 })
}

/** `stops`: what ends a plain text, besides a comment. */
function readText(
  line: FrontMatterLine,
  at: number,
  stops: string,
): FrontMatterResult<ParsedPart<string | undefined>> {
  const first = line.text[at]
  if (first === '"') return readDouble(line, at)
  if (first === "'") return readSingle(line, at)
  const to = findPlainEnd(line.text, at, stops)
  const value = line.text.slice(at, to)
  if (NULL_VALUE.test(value)) return ok({ value: undefined, to })
  if (YAML_INDICATOR.test(value))
    return fault(line.number, `begins with ${value[0]}, which means something else in YAML; put it in quotes`)
  const ambiguous = /:(?:[ \t]|$)/.test(value)
  if (ambiguous)
    return fault(line.number, 'holds a colon and a space; put the text behind the first colon in quotes')
  return ok({ value, to })
}

function findPlainEnd(text: string, at: number, stops: string): number {
  let end = at
  for (let i = at; i < text.length; i++) {
    const char = text.charAt(i)
    const isComment = char === '#' && (i === at || isBlank(text[i - 1]))
    if (isComment || stops.includes(char)) break
    if (!isBlank(char)) end = i + 1
  }
  return end
}

function readDouble(line: FrontMatterLine, at: number): FrontMatterResult<ParsedPart<string>> {
  const quoted = /^"(?:[^"\\]|\\.)*"/.exec(line.text.slice(at))?.[0]
  const wrong = fault(
    line.number,
    'must end its text with the same double quote, and use no backslash but as in JSON',
  )
  if (quoted === undefined) return wrong
  try {
    const value = String(JSON.parse(quoted))
    // Half a character comes back from no disk as what it was.
    return LONE_SURROGATE.test(value) ? wrong : ok({ value, to: at + quoted.length })
  } catch {
    return wrong
  }
}

function readSingle(line: FrontMatterLine, at: number): FrontMatterResult<ParsedPart<string>> {
  const quoted = /^'(?:[^']|'')*'/.exec(line.text.slice(at))?.[0]
  if (quoted === undefined)
    return fault(line.number, 'must end its text with a single quote, and write one inside it twice')
  return ok({ value: quoted.slice(1, -1).replaceAll("''", "'"), to: at + quoted.length })
}

function refuseTrailingText(line: FrontMatterLine, end: number): FrontMatterResult<never> | undefined {
  const rest = line.text.slice(end)
  const isComment = rest.trimStart().startsWith('#') && (isBlank(rest[0]) || isBlank(line.text[end - 1]))
  if (isComment || skipBlanks(line.text, end) === line.text.length) return undefined
  return fault(line.number, 'has more behind its value; put the whole value in quotes')
}

function skipBlanks(text: string, at: number): number {
  let i = at
  while (isBlank(text[i])) i++
  return i
}

const isBlank = (char: string | undefined): boolean => char === ' ' || char === '\t'

const ok = <T>(value: T): FrontMatterResult<T> => ({ ok: true, value })

const fault = (line: number, message: string): FrontMatterResult<never> => ({
  ok: false,
  fault: { line, message },
})
