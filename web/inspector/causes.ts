/** Cause and effect among the records of the followed actors. */
import type { InspectionRecord, ShownFields } from '../../protocol/inspection.ts'

export interface Surroundings {
  readonly cause: number | undefined
  readonly effects: ReadonlySet<number>
}

/** @param n of the chosen record */
export function surroundingsOf(records: readonly InspectionRecord[], n: number | undefined): Surroundings {
  const chosen = records.find((record) => record.n === n)
  return {
    cause: chosen?.cause,
    effects: new Set(records.filter(({ cause }) => n !== undefined && cause === n).map((record) => record.n)),
  }
}

export const RECORD_FILTERS = [
  ['all', 'All'],
  ['state', 'State'],
  ['effects', 'Effects'],
] as const
export type RecordFilter = (typeof RECORD_FILTERS)[number][0]

export const isTransition = ({ before, after }: InspectionRecord): boolean =>
  after !== undefined && before !== undefined && after !== before

export function filterRecords(
  records: readonly InspectionRecord[],
  filter: RecordFilter,
): readonly InspectionRecord[] {
  if (filter === 'all') return records
  if (filter === 'effects') return records.filter(({ is }) => is === 'effect' || is === 'deadline')
  return records.filter(
    (record) => isTransition(record) || !['event', 'effect', 'deadline'].includes(record.is),
  )
}

/** → an event, ⇢ a frame, ◆ a transition, ↗ an effect. */
export function markOf(record: InspectionRecord): string {
  if (record.is === 'effect') return '↗'
  if (record.is === 'deadline') return '◷'
  if (record.is === 'crash') return '✕'
  if (isTransition(record) || record.is === 'created' || record.is === 'restored' || record.is === 'ended')
    return '◆'
  return record.from?.is === 'frame' ? '⇢' : '→'
}

export function titleOf(record: InspectionRecord): string {
  const { is, name, before, after, due } = record
  if (is === 'created' || is === 'restored') return `${is} → ${after ?? ''}`
  if (is === 'deadline') return due === undefined ? `cancels ${name}` : `sets ${name}`
  if (is === 'crash') return `throws on ${name}`
  if (is === 'restarted' || is === 'ended') return is
  return isTransition(record) ? `${before} → ${after} on ${name}` : name
}

/** The sender of an event, in words that are never empty. */
export function senderOf({ actor, from }: InspectionRecord): string {
  if (from === undefined) return 'an unknown sender'
  switch (from.is) {
    case 'actor':
      return from.name === actor ? 'itself' : from.name
    case 'module':
      return 'the host'
    case 'restore':
      return 'the restart'
    default:
      return `${from.is} ${from.name}`.trim()
  }
}

/** Why an event was ignored, or which guard let it through; empty when no guard decided. */
export function verdictOn({ ignored = false, guards = [], before = '' }: InspectionRecord): string {
  const holding = guards.find(({ holds }) => holds)
  if (!ignored) return holding === undefined ? '' : `because ${holding.name} holds`
  if (guards.length === 0) return `ignored because nothing in ${before} takes it`
  const names = guards.map(({ name }) => name).join(', ')
  return `ignored because ${names} ${guards.length === 1 ? 'does' : 'do'} not hold`
}

/** The verdict, the sender and the fields, for the rest of the line. */
export function detailOf(record: InspectionRecord): string {
  const sender = record.from === undefined ? '' : `from ${senderOf(record)}`
  const shown = Object.entries(record.fields ?? {}).map(([name, value]) => `${name} ${value}`)
  return [verdictOn(record), sender, ...shown].filter(Boolean).join(', ')
}

/** `14:07:58.123` in local time. */
export function clockWithMs(at: number): string {
  const date = new Date(at)
  const part = (value: number, digits = 2) => String(value).padStart(digits, '0')
  return `${part(date.getHours())}:${part(date.getMinutes())}:${part(date.getSeconds())}.${part(date.getMilliseconds(), 3)}`
}

const REPLACED = /^\(text, \d+ characters?\)$/

/**
 * How many fields of a context are shown, and how many it has.
 *
 * @param hidden the fields that are left out, or whose texts are replaced by their lengths
 */
export function countFields(context: ShownFields, hidden: number): { shown: number; all: number } {
  const values = Object.values(context)
  const replaced = values.filter((value) => typeof value === 'string' && REPLACED.test(value)).length
  const shown = values.length - replaced
  return { shown, all: shown + Math.max(hidden, replaced) }
}
