/**
 * Reads a Markdown file as a ticket, rewrites its state, and formats a new ticket.
 *
 * Fields come from the front matter, the description is the text below it. `id` and `identifier` default to the file
 * name without `.md`, the title to the identifier, instants to those of the file. Unknown fields are refused, because
 * they are most likely typos; fields that begin with `x-` are ignored.
 */
import type { TrackedTicket } from '../../../core/ports/tracker.ts'
import { steadyTitle } from '../../../core/safe-text.ts'
import { TICKET_ID_BYTES_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { Ticket } from '../../../protocol/run.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import {
  type FrontMatter,
  type FrontMatterEntry,
  type FrontMatterFault,
  type FrontMatterResult,
  readFrontMatter,
} from './front-matter.ts'

/** Closed states, compared without case. */
export const CLOSED_STATES: readonly string[] = [
  'done',
  'closed',
  'completed',
  'canceled',
  'cancelled',
  'merged',
  'duplicate',
  'wontfix',
]

const PRIORITIES: Readonly<Record<string, number>> = { none: 0, urgent: 1, high: 2, medium: 3, low: 4 }
const TEXT_FIELDS = ['id', 'identifier', 'title', 'url', 'state', 'assignee', 'project', 'branchName', 'repo']
const LIST_FIELDS = ['labels', 'blockedBy']
const INSTANT_FIELDS = ['createdAt', 'updatedAt']
const INSTANT = /^(\d{4}-\d{2}-(\d{2}))(?:[Tt ](\d{2}:\d{2})(:\d{2})?(\.\d+)?(Z|[+-]\d{2}:\d{2})?)?$/
/** Plain words that YAML readers do not read as text. */
const YAML_NON_TEXT = /^(y|n|yes|no|on|off|true|false|null)$/i
const PLAIN_TEXT = /^[A-Za-z](?:[A-Za-z0-9 _./-]*[A-Za-z0-9_./-])?$/

/** In commands a dash would begin an option, and what is not visible would turn or hide the words behind it. */
const UNFIT_IDENTIFIER = /^-|[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u
const IDENTIFIER_CURE =
  'must not begin with a dash, nor hold characters that do not print; rename the file, or set another identifier'

/** Facts about the file itself. */
export interface TicketFileFacts {
  readonly name: string
  readonly url: string
  readonly createdAt: string
  readonly updatedAt: string
}

export type TicketReadResult =
  | { readonly ok: true; readonly tracked: TrackedTicket }
  | { readonly ok: false; readonly problem: string }

const checkTicket = createChecker(Ticket)

export function readTicket(bytes: Uint8Array, facts: TicketFileFacts): TicketReadResult {
  const text = decodeUtf8(bytes)
  if (text === undefined) return problemAt(facts.name, undefined, 'is not UTF-8 text; save it as UTF-8')
  if (text.trim() === '')
    return problemAt(facts.name, undefined, 'is empty; write the ticket, or remove the file')
  const head = readFrontMatter(text)
  if (!head.ok) return problemAt(facts.name, head.fault.line, head.fault.message)
  const fields = readFields(head.value)
  if (!fields.ok) return problemAt(facts.name, fields.fault.line, fields.fault.message)
  return toTicket(fields.value, head.value, text, facts)
}

/**
 * Replaces the state and keeps all other bytes, including a comment after it. Undefined when the file has no front
 * matter.
 */
export function replaceState(bytes: Buffer, state: string): Buffer | undefined {
  const start = bytes.indexOf(BOM) === 0 ? BOM.length : 0
  const head = readFrontMatter(bytes.toString('latin1', start))
  if (!head.ok) return undefined
  const { entries, end, newline } = head.value
  const entry = entries.get('state')
  if (entry === undefined)
    return splice(bytes, start + end, start + end, `state: ${formatText(state)}${newline}`)
  const blank = entry.from === entry.to ? ' ' : ''
  return splice(bytes, start + entry.from, start + entry.to, `${blank}${formatText(state)}`)
}

// ---- reading --------------------------------------------------------------------------------------------------------

const BOM = Buffer.from([0xef, 0xbb, 0xbf])

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function readFields(head: FrontMatter): FrontMatterResult<Map<string, unknown>> {
  const fields = new Map<string, unknown>()
  for (const [key, entry] of head.entries) {
    if (key.startsWith('x-') || entry.value === undefined) continue
    const read = readFieldValue(key, entry)
    if ('message' in read) return { ok: false, fault: read }
    fields.set(key, read.value)
  }
  return { ok: true, value: fields }
}

function readFieldValue(
  key: string,
  { value, line }: FrontMatterEntry,
): { readonly value: unknown } | FrontMatterFault {
  if (key === 'description')
    return { line, message: 'description is the text below the second ---; put it there' }
  if (LIST_FIELDS.includes(key)) {
    return Array.isArray(value) ? { value } : { line, message: `${key} must be a list, such as [one, two]` }
  }
  // Unknown keys are left to the schema, which suggests the intended key.
  if (typeof value !== 'string') {
    const isKnown = TEXT_FIELDS.includes(key) || INSTANT_FIELDS.includes(key) || key === 'priority'
    return isKnown ? { line, message: `${key} must be one value, not a list` } : { value }
  }
  if (key === 'priority') return parsePriority(value, line)
  return INSTANT_FIELDS.includes(key) ? parseInstant(key, value, line) : { value }
}

function parsePriority(value: string, line: number): { readonly value: number } | FrontMatterFault {
  const word = value.toLowerCase()
  if (Object.hasOwn(PRIORITIES, word)) return { value: PRIORITIES[word] ?? 0 }
  if (/^[0-4]$/.test(value)) return { value: Number(value) }
  return {
    line,
    message: 'priority must be urgent, high, medium, low or none, or a number from 1 (urgent) to 4 (low)',
  }
}

/** Follows YAML: a day alone means its first moment, and no zone means UTC. */
function parseInstant(
  key: string,
  value: string,
  line: number,
): { readonly value: string } | FrontMatterFault {
  const wrong = { line, message: `${key} must be an instant such as 2026-01-31T12:00:00Z` }
  const match = INSTANT.exec(value)
  if (match === null) return wrong
  const [, date = '', day, minutes = '00:00', seconds = ':00', fraction = '', zone = 'Z'] = match
  // `Date` would turn 31 February into 3 March.
  if (new Date(`${date}T00:00:00Z`).getUTCDate() !== Number(day)) return wrong
  const instant = new Date(`${date}T${minutes}${seconds}${fraction}${zone}`)
  return Number.isNaN(instant.getTime()) ? wrong : { value: instant.toISOString() }
}

function toTicket(
  fields: ReadonlyMap<string, unknown>,
  head: FrontMatter,
  text: string,
  facts: TicketFileFacts,
): TicketReadResult {
  const id = fields.get('id') ?? facts.name.replace(/\.md$/i, '')
  const identifier = fields.get('identifier') ?? facts.name.replace(/\.md$/i, '')
  const checked = checkTicket({
    id,
    identifier,
    title: identifier,
    description: text.slice(head.body).replaceAll('\r\n', '\n').trim(),
    url: facts.url,
    state: '',
    priority: 0,
    labels: [],
    blockedBy: [],
    createdAt: facts.createdAt,
    updatedAt: facts.updatedAt,
    ...Object.fromEntries(fields),
  })
  if (!checked.ok) return invalidTicket(facts.name, checked.error, head)
  if (Buffer.byteLength(checked.value.id) > TICKET_ID_BYTES_MAX)
    return invalidTicket(facts.name, `/id: has more than ${TICKET_ID_BYTES_MAX} bytes; shorten it`, head)
  if (UNFIT_IDENTIFIER.test(checked.value.identifier))
    return invalidTicket(facts.name, `/identifier: ${IDENTIFIER_CURE}`, head)
  const ticket = { ...checked.value, title: steadyTitle(checked.value.title) }
  const closed = CLOSED_STATES.includes(ticket.state.trim().toLowerCase())
  return { ok: true, tracked: { ticket, closed } }
}

/** The schema error begins with the path of the field, whose line is known. */
function invalidTicket(name: string, error: string, head: FrontMatter): TicketReadResult {
  const message = error.replace(/^\//, '')
  const field = /^[^/:]*/.exec(message)?.[0] ?? ''
  return problemAt(name, head.entries.get(field)?.line, message)
}

function problemAt(name: string, line: number | undefined, message: string): TicketReadResult {
  const location = line === undefined ? printable(name) : `${printable(name)}, line ${line}:`
  return { ok: false, problem: `${location} ${message}` }
}

// ---- writing --------------------------------------------------------------------------------------------------------

export type NewTicketFields = Readonly<Record<string, string | number | readonly string[] | undefined>>

/** Formats the text of a new file; fields without a value are left out. */
export function formatTicketFile(fields: NewTicketFields, description: string): Buffer {
  const lines = Object.entries(fields).flatMap(([key, value]) => {
    if (value === undefined) return []
    if (typeof value === 'object')
      return value.length === 0 ? [] : [`${key}: [${value.map(formatText).join(', ')}]`]
    return [`${key}: ${typeof value === 'number' ? value : formatText(value)}`]
  })
  const body = description.trim()
  return Buffer.from(['---', ...lines, '---', ...(body === '' ? [] : [body]), ''].join('\n'))
}

/** Quotes a text that YAML could read as something else. */
function formatText(text: string): string {
  if (PLAIN_TEXT.test(text) && !YAML_NON_TEXT.test(text)) return text
  return JSON.stringify(text).replace(/\p{Cc}/gu, escapeControl)
}

/** JSON allows some control characters that YAML forbids. */
function escapeControl(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function splice(bytes: Buffer, from: number, to: number, text: string): Buffer {
  return Buffer.concat([bytes.subarray(0, from), Buffer.from(text), bytes.subarray(to)])
}
