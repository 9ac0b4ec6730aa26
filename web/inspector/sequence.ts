/** The sequence view: a lane for each actor, a row for each record, bars while a state lasts. */
import type { InspectionRecord } from '../../protocol/inspection.ts'
import type { ActorHistory } from './model.ts'

export interface SequenceRow {
  readonly record: InspectionRecord
  /** The lane of the actor. */
  readonly to: number
  /** The lane of the sender, where that is among the lanes; -1: another sender; undefined: none is known. */
  readonly from: number | undefined
}

export interface StateSpan {
  readonly lane: number
  readonly state: string
  readonly fromRow: number
  /** The first row that is not in this state any more. */
  readonly toRow: number
}

export interface Sequence {
  readonly rows: readonly SequenceRow[]
  readonly spans: readonly StateSpan[]
}

/** Effects stand only where they lead to another lane. */
const SHOWN: readonly InspectionRecord['is'][] = [
  'created',
  'restored',
  'event',
  'crash',
  'restarted',
  'ended',
]

export function sequenceOf(lanes: readonly string[], histories: ReadonlyMap<string, ActorHistory>): Sequence {
  const laneOf = new Map(lanes.map((id, lane) => [id, lane]))
  const records = lanes.flatMap((id) => histories.get(id)?.records ?? []).sort((a, b) => a.n - b.n)
  const actorOf = new Map(records.map(({ n, actor }) => [n, actor]))
  const rows = records
    .filter(({ is }) => SHOWN.includes(is))
    .map((record) => ({
      record,
      to: laneOf.get(record.actor) ?? 0,
      from: record.from === undefined ? undefined : (laneOf.get(sendingActor(record, actorOf) ?? '') ?? -1),
    }))
  return { rows, spans: lanes.flatMap((id, lane) => spansOf(id, lane, rows, histories)) }
}

/** An effect belongs to the actor whose transition recorded it. */
function sendingActor(
  { from, cause }: InspectionRecord,
  actorOf: ReadonlyMap<number, string>,
): string | undefined {
  if (from?.is === 'actor') return from.name
  return from?.is === 'effect' && cause !== undefined ? actorOf.get(cause) : undefined
}

function spansOf(
  id: string,
  lane: number,
  rows: readonly SequenceRow[],
  histories: ReadonlyMap<string, ActorHistory>,
): StateSpan[] {
  const spans: StateSpan[] = []
  const first = rows.find(({ record }) => record.actor === id)
  let state = first === undefined ? histories.get(id)?.base.actor.state : first.record.before
  let fromRow = 0
  const close = (toRow: number) => {
    if (state !== undefined && toRow > fromRow) spans.push({ lane, state, fromRow, toRow })
  }
  for (const [row, { record }] of rows.entries()) {
    if (record.actor !== id || (record.after === record.before && record.is !== 'ended')) continue
    close(row)
    state = record.is === 'ended' ? undefined : (record.after ?? state)
    fromRow = row
  }
  close(rows.length)
  return spans
}
