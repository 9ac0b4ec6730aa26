/** Cause and effect among the records of the followed actors. */
import type { InspectionRecord } from '../../protocol/inspection.ts'

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

/** The sender and the fields, for the rest of the line. */
export function detailOf({ from, fields = {} }: InspectionRecord): string {
  const sender =
    from === undefined || from.is === 'module' ? '' : `from ${from.name === '' ? from.is : from.name}`
  const shown = Object.entries(fields).map(([name, value]) => `${name} ${value}`)
  return [sender, ...shown].filter(Boolean).join(', ')
}
