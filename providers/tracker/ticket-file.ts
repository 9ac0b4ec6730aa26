/**
 * One Markdown file as a ticket, and the file with the ticket in another state.
 *
 * The fields are the front matter's, the description is the text below it. `id` and `identifier` default to the file's
 * name without `.md`, the title to the identifier, the instants to the file's own. A field that no ticket has is
 * refused, since it is most likely a typo; fields that begin with `x-` are somebody else's and stay unread.
 */
import type { TrackedTicket } from '../../core/ports.ts'
import { TICKET_ID_BYTES_MAX } from '../../protocol/limits.ts'
import { checker } from '../../protocol/parse.ts'
import { Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { type Entry, type Fault, type FrontMatter, type Read, readFrontMatter } from './front-matter.ts'

/** A ticket in one of these is closed, whatever the case of the letters. */
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
const TEXTS = ['id', 'identifier', 'title', 'url', 'state', 'assignee', 'project', 'branchName', 'repo']
const LISTS = ['labels', 'blockedBy']
const INSTANTS = ['createdAt', 'updatedAt']
const INSTANT = /^(\d{4}-\d{2}-(\d{2}))(?:[Tt ](\d{2}:\d{2})(:\d{2})?(\.\d+)?(Z|[+-]\d{2}:\d{2})?)?$/
/** What YAML readers take for something other than text. */
const NOT_A_TEXT = /^(y|n|yes|no|on|off|true|false|null)$/i
const PLAIN = /^[A-Za-z](?:[A-Za-z0-9 _./-]*[A-Za-z0-9_./-])?$/

/** What the folder says of a file. */
export interface FileFacts {
  readonly name: string
  readonly url: string
  readonly createdAt: string
  readonly updatedAt: string
}

export type TicketRead =
  | { readonly ok: true; readonly tracked: TrackedTicket }
  | { readonly ok: false; readonly problem: string }

const checkTicket = checker(Ticket)

export function readTicket(bytes: Uint8Array, facts: FileFacts): TicketRead {
  const text = decoded(bytes)
  if (text === undefined) return problem(facts.name, undefined, 'is not UTF-8 text; save it as UTF-8')
  if (text.trim() === '')
    return problem(facts.name, undefined, 'is empty; write the ticket, or remove the file')
  const head = readFrontMatter(text)
  if (!head.ok) return problem(facts.name, head.fault.line, head.fault.says)
  const fields = fieldsOf(head.value)
  if (!fields.ok) return problem(facts.name, fields.fault.line, fields.fault.says)
  return asTicket(fields.value, head.value, text, facts)
}

/**
 * The same bytes but for the state, in which a comment behind it stays, too. undefined: it has no front matter to
 * change.
 */
export function withState(bytes: Buffer, state: string): Buffer | undefined {
  const start = bytes.indexOf(BOM) === 0 ? BOM.length : 0
  const head = readFrontMatter(bytes.toString('latin1', start))
  if (!head.ok) return undefined
  const { entries, end, newline } = head.value
  const entry = entries.get('state')
  if (entry === undefined)
    return spliced(bytes, start + end, start + end, `state: ${written(state)}${newline}`)
  const blank = entry.from === entry.to ? ' ' : ''
  return spliced(bytes, start + entry.from, start + entry.to, `${blank}${written(state)}`)
}

// ---- reading -----------------------------------------------------------------------------------------------------

const BOM = Buffer.from([0xef, 0xbb, 0xbf])

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function fieldsOf(head: FrontMatter): Read<Map<string, unknown>> {
  const fields = new Map<string, unknown>()
  for (const [key, entry] of head.entries) {
    if (key.startsWith('x-') || entry.value === undefined) continue
    const read = fieldOf(key, entry)
    if ('says' in read) return { ok: false, fault: read }
    fields.set(key, read.value)
  }
  return { ok: true, value: fields }
}

function fieldOf(key: string, { value, line }: Entry): { readonly value: unknown } | Fault {
  if (key === 'description')
    return { line, says: 'description is the text below the second ---; put it there' }
  if (LISTS.includes(key)) {
    return Array.isArray(value) ? { value } : { line, says: `${key} must be a list, such as [one, two]` }
  }
  // A key that no ticket has is left for the schema to name, with what it was probably meant to be.
  if (typeof value !== 'string') {
    const isKnown = TEXTS.includes(key) || INSTANTS.includes(key) || key === 'priority'
    return isKnown ? { line, says: `${key} must be one value, not a list` } : { value }
  }
  if (key === 'priority') return priorityOf(value, line)
  return INSTANTS.includes(key) ? instantOf(key, value, line) : { value }
}

function priorityOf(value: string, line: number): { readonly value: number } | Fault {
  const word = value.toLowerCase()
  if (Object.hasOwn(PRIORITIES, word)) return { value: PRIORITIES[word] ?? 0 }
  if (/^[0-4]$/.test(value)) return { value: Number(value) }
  return {
    line,
    says: 'priority must be urgent, high, medium, low or none, or a number from 1 (urgent) to 4 (low)',
  }
}

/** As YAML has it: a day alone is its first moment, and what names no zone is UTC. */
function instantOf(key: string, value: string, line: number): { readonly value: string } | Fault {
  const wrong = { line, says: `${key} must be an instant such as 2026-01-31T12:00:00Z` }
  const match = INSTANT.exec(value)
  if (match === null) return wrong
  const [, date = '', day, minutes = '00:00', seconds = ':00', fraction = '', zone = 'Z'] = match
  // Date would make a 3 March of a 31 February.
  if (new Date(`${date}T00:00:00Z`).getUTCDate() !== Number(day)) return wrong
  const instant = new Date(`${date}T${minutes}${seconds}${fraction}${zone}`)
  return Number.isNaN(instant.getTime()) ? wrong : { value: instant.toISOString() }
}

function asTicket(
  fields: ReadonlyMap<string, unknown>,
  head: FrontMatter,
  text: string,
  facts: FileFacts,
): TicketRead {
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
  if (!checked.ok) return misshapen(facts.name, checked.error, head)
  if (Buffer.byteLength(checked.value.id) > TICKET_ID_BYTES_MAX)
    return misshapen(facts.name, `/id: has more than ${TICKET_ID_BYTES_MAX} bytes; shorten it`, head)
  const closed = CLOSED_STATES.includes(checked.value.state.trim().toLowerCase())
  return { ok: true, tracked: { ticket: checked.value, closed } }
}

/** The schema's sentence begins with the path, and so with the field, whose line is known. */
function misshapen(name: string, error: string, head: FrontMatter): TicketRead {
  const says = error.replace(/^\//, '')
  const field = /^[^/:]*/.exec(says)?.[0] ?? ''
  return problem(name, head.entries.get(field)?.line, says)
}

function problem(name: string, line: number | undefined, says: string): TicketRead {
  const where = line === undefined ? printable(name) : `${printable(name)}, line ${line}:`
  return { ok: false, problem: `${where} ${says}` }
}

// ---- writing -----------------------------------------------------------------------------------------------------

/** Quoted where the words alone could mean something else. */
function written(state: string): string {
  if (PLAIN.test(state) && !NOT_A_TEXT.test(state)) return state
  return JSON.stringify(state).replace(/\p{Cc}/gu, escaped)
}

/** JSON lets some of them stand, YAML does not. */
function escaped(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function spliced(bytes: Buffer, from: number, to: number, text: string): Buffer {
  return Buffer.concat([bytes.subarray(0, from), Buffer.from(text), bytes.subarray(to)])
}
