/** An actor at an instant: folds its records from the point at which it is known, forwards or backwards. */
import type { InspectionRecord, ShownFields } from '../../protocol/inspection.ts'
import type { ActorHistory } from './model.ts'

export interface ActorMoment {
  readonly state: string
  /** The record that led to this state, when it is known. */
  readonly entered: InspectionRecord | undefined
  readonly context: ShownFields
  readonly deadlines: Readonly<Record<string, number>>
  readonly isOver: boolean
}

/** @param n the last record that counts; undefined: the present */
export function momentOf(history: ActorHistory, n?: number): ActorMoment {
  const until = n ?? Number.POSITIVE_INFINITY
  const past = history.records.filter((record) => record.n <= until)
  const entered = past.findLast((record) => record.after !== undefined && record.after !== record.before)
  return {
    state: stateAt(history, past, until),
    entered,
    context: contextAt(history, until),
    deadlines: deadlinesAt(history, past, until),
    isOver: past.at(-1)?.is === 'ended',
  }
}

function stateAt(
  { base, baseN, records }: ActorHistory,
  past: readonly InspectionRecord[],
  until: number,
): string {
  const known = past.findLast(({ after }) => after !== undefined)
  if (known?.after !== undefined && (known.n > baseN || until < baseN)) return known.after
  const next = records.find((record) => record.n > until && record.before !== undefined)
  return until < baseN ? (next?.before ?? base.actor.state) : base.actor.state
}

/** Backwards, a field that changed has the value of an earlier change, or is not known. */
function contextAt({ base, baseN, records }: ActorHistory, until: number): ShownFields {
  const context: Record<string, ShownFields[string]> = { ...base.context }
  const apply = (change: ShownFields) => {
    for (const [name, value] of Object.entries(change)) {
      if (value === null) delete context[name]
      else context[name] = value
    }
  }
  if (until >= baseN) {
    for (const { n, context: change } of records)
      if (n > baseN && n <= until && change !== undefined) apply(change)
    return context
  }
  for (const { n, context: change } of records)
    if (n > until && n <= baseN && change !== undefined)
      for (const name of Object.keys(change)) delete context[name]
  for (const { n, context: change } of records) if (n <= until && change !== undefined) apply(change)
  return context
}

const FIRED = 'deadline.'

function deadlinesAt(
  { base, baseN, records }: ActorHistory,
  past: readonly InspectionRecord[],
  until: number,
): Readonly<Record<string, number>> {
  const deadlines: Record<string, number> = { ...base.deadlines }
  if (until < baseN)
    for (const { n, is, name } of records) if (n > until && is === 'deadline') delete deadlines[name]
  for (const { n, is, name, due } of past) {
    if (until >= baseN && n <= baseN) continue
    if (is === 'deadline' && due !== undefined) deadlines[name] = due
    else if (is === 'deadline') delete deadlines[name]
    else if (is === 'event' && name.startsWith(FIRED)) delete deadlines[name.slice(FIRED.length)]
  }
  return deadlines
}
