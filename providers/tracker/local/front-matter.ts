/**
 * Parses the YAML front matter of a ticket file: a subset that means the same to every YAML reader. A field takes one
 * line. A value is a text (plain or quoted), a list in brackets, or lines with a dash; ambiguous text is refused.
 *
 * All values are texts. Only ASCII has meaning, so callers may pass bytes as Latin-1; offsets are then byte offsets.
 * The library `yaml` loses examples of `front-matter.test.ts`: it reports `a: "x` and `a: [x` one line below, without
 * the cure. It is 114 kB larger in a bundle, and takes 90 µs for a ticket instead of 10.
 */

export interface FrontMatterEntry {
  /** Undefined for an empty value or `null`. */
  readonly value: string | readonly string[] | undefined
  /** Counted from 1. */
  readonly line: number
  /** Offsets of the value in the text; for an empty value, right after the colon. */
  readonly from: number
  readonly to: number
}

export interface FrontMatter {
  readonly entries: ReadonlyMap<string, FrontMatterEntry>
  /** Offsets of the closing `---` and of the text after it. */
  readonly end: number
  readonly body: number
  /** Line end of the first line, which added lines use too. */
  readonly newline: '\n' | '\r\n'
}

/** The problem and what to write instead, with its line. */
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
  /** Counted from 1. */
  readonly number: number
}

const KEY = /^([A-Za-z_][A-Za-z0-9_-]*):(?=[ \t]|$)[ \t]*/
const DASH = /^ *-(?: +|$)/
const FENCE = /^---[ \t]*$/
/**
 * YAML forbids control characters, and a lone carriage return ends a line. Latin-1 text may hold parts of a letter
 * above 0x7f.
 */
const CONTROL = /[^\P{Cc}\t\u0080-\u009f]/u
const BLANK_LINE = /^[ \t]*(#|$)/
const NULL_VALUE = /^(~|null|Null|NULL)?$/
const LONE_SURROGATE = /\p{Cs}/u
/** YAML gives these a meaning at the beginning of a text. */
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

/** Lines end with `\n` or `\r\n`; `text` excludes the line end. */
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

// ---- one line -------------------------------------------------------------------------------------------------------

/** The key that was read last; list items may follow it. */
interface OpenList {
  readonly key: string
  readonly entry: FrontMatterEntry
  /** Value of the entry once it has an item. The array grows in place, because a file may have thousands of items. */
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
  if (entries.has(key)) return fault(line.number, `${key} is there a second time; remove one of them`)
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
  /** End offset in the line. */
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

/** `stops`: characters that end a plain text, as a comment does. */
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
    // A lone surrogate cannot be written to a file.
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
