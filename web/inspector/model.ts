/**
 * The actors that the page knows: all of them by state, and the records of those that are followed.
 *
 * The same model is filled by the inspection socket and by a story.
 */

import type {
  ActorDetail,
  InspectedActor,
  InspectFrame,
  InspectionRecord,
  ShownFields,
  StoryLine,
} from '../../protocol/inspection.ts'
import { bisect } from '../bisect.ts'

/** Records kept for each actor; the oldest go first. */
export const KEPT_RECORDS_MAX = 5_000

export interface ActorHistory {
  /** The actor as it was at record `n`. */
  readonly base: ActorDetail
  readonly baseN: number
  /** In the order of their numbers. */
  readonly records: InspectionRecord[]
}

export interface Model {
  readonly actors: Map<string, InspectedActor>
  readonly histories: Map<string, ActorHistory>
  /** The highest number of a record. */
  lastN: number
  /** Records that were left out because the page was too slow. */
  lost: number
  /** Every actor has been listed. */
  isComplete: boolean
  /** How many actors the host began to list. */
  announced: number
}

export const createModel = (): Model => ({
  actors: new Map(),
  histories: new Map(),
  lastN: 0,
  lost: 0,
  isComplete: false,
  announced: 0,
})

export function applyFrame(model: Model, frame: InspectFrame): void {
  switch (frame.type) {
    case 'inspect-hello':
      // Numbers begin anew with each host.
      Object.assign(model, { lastN: 0, lost: 0, isComplete: false, announced: frame.actors })
      model.actors.clear()
      model.histories.clear()
      return
    case 'inspect-actors':
      for (const id of frame.gone) model.actors.delete(id)
      for (const actor of frame.changed) model.actors.set(actor.id, actor)
      if (frame.complete === true) model.isComplete = true
      return
    case 'inspect-detail':
      addDetail(model, frame.detail, frame.recent)
      return
    case 'inspect-records':
      model.lost += frame.lost ?? 0
      for (const record of frame.records) addRecord(model, record)
      return
    default:
    // A newer host may send more.
  }
}

function addDetail(model: Model, base: ActorDetail, recent: readonly InspectionRecord[]): void {
  const baseN = recent.at(-1)?.n ?? model.lastN
  model.lastN = Math.max(model.lastN, baseN)
  model.histories.set(base.actor.id, { base, baseN, records: [...recent] })
}

function addRecord(model: Model, record: InspectionRecord): void {
  model.lastN = Math.max(model.lastN, record.n)
  const { records } = model.histories.get(record.actor) ?? beginHistory(model, record)
  records.push(record)
  if (records.length > KEPT_RECORDS_MAX) records.splice(0, KEPT_RECORDS_MAX / 10)
}

/** The first record of an actor without a detail: one that was created while everything is recorded. */
function beginHistory(model: Model, { actor: id, n, before = '' }: InspectionRecord): ActorHistory {
  const known = model.actors.get(id) ?? { ...namesOf(id), id, state: before }
  const base = { actor: { ...known, state: before }, context: {}, hidden: 0, deadlines: {} }
  const history: ActorHistory = { base, baseN: n - 1, records: [] }
  model.histories.set(id, history)
  return history
}

function namesOf(id: string): { readonly kind: string; readonly key: string } {
  const slash = id.indexOf('/')
  return { kind: id.slice(0, slash), key: id.slice(slash + 1) }
}

/** Fills a model with a whole story. Lines that are neither actors nor records are its head and its end. */
export function modelOfStory(lines: readonly StoryLine[]): Model {
  const model = createModel()
  model.isComplete = true
  for (const line of lines) {
    if ('context' in line && 'deadlines' in line) {
      model.actors.set(line.actor.id, line.actor)
      addDetail(model, line, [])
    } else if ('n' in line) {
      addRecord(model, line)
      if (line.is === 'created' || line.is === 'restored') addCreated(model, line)
    } else if ('lost' in line) model.lost = line.lost
  }
  return model
}

function addCreated(model: Model, { actor: id, after = '', at, context = {} }: InspectionRecord): void {
  const idOf = (field: string) => {
    const value = context[field] ?? context[`run.${field}`]
    return typeof value === 'string' ? value : undefined
  }
  const owners = {
    run: idOf('runId'),
    ticket: idOf('ticket.identifier') ?? idOf('ticketIdentifier') ?? idOf('ticketId'),
    lease: idOf('leaseId'),
    worker: idOf('workerId'),
  }
  const own = namesOf(id)
  const named = Object.fromEntries(Object.entries(owners).filter(([, value]) => value !== undefined))
  const itself = own.kind in owners ? { [own.kind]: own.key } : {}
  model.actors.set(id, { ...own, id, state: after, since: at, ...named, ...itself })
}

// ---- moments -------------------------------------------------------------------------------------------------------

export interface ActorMoment {
  readonly state: string
  /** The record that led to this state, when it is known. */
  readonly entered: InspectionRecord | undefined
  readonly context: ShownFields
  readonly deadlines: Readonly<Record<string, number>>
  readonly isOver: boolean
}

/**
 * An actor at an instant: folds its records from the point at which it is known, forwards or backwards.
 *
 * @param n the last record that counts; undefined: the present
 */
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

/**
 * The actors that exist at an instant of a story, with their states at it. Actors that have ended stay, as they ended.
 *
 * @param n the last record that counts
 */
export function actorsAt({ actors, histories }: Model, n: number): InspectedActor[] {
  const present: InspectedActor[] = []
  for (const actor of actors.values()) {
    const history = histories.get(actor.id)
    const state = history === undefined ? actor.state : stateUntil(history, n)
    if (state !== undefined) present.push(state === actor.state ? actor : { ...actor, state })
  }
  return present
}

/** Undefined: the actor does not exist yet. */
function stateUntil({ base, records }: ActorHistory, n: number): string | undefined {
  for (let index = countUntil(records, n) - 1; index >= 0; index--) {
    const after = records[index]?.after
    if (after !== undefined) return after
  }
  // An actor without a state at its beginning was created later.
  return base.actor.state === '' ? undefined : base.actor.state
}

/** How many of the records count; they are in the order of their numbers, and a story may have very many. */
function countUntil(records: ActorHistory['records'], n: number): number {
  return bisect(records.length, (at) => (records[at]?.n ?? 0) <= n)
}

/** The actor to show first: the run to which something happened last, or else the newest one that goes on. */
export function actorToOpen({ actors, histories }: Model): InspectedActor | undefined {
  const all = [...actors.values()]
  const runs = all.filter(({ kind }) => kind === 'run')
  const lastOf = ({ id }: InspectedActor): number => histories.get(id)?.records.at(-1)?.n ?? 0
  const latest = runs.reduce<InspectedActor | undefined>(
    (best, run) => (lastOf(run) > (best === undefined ? 0 : lastOf(best)) ? run : best),
    undefined,
  )
  return latest ?? runs.findLast(({ state }) => state !== 'queued') ?? runs.at(-1) ?? all[0]
}
