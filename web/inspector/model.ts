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
  StoryLine,
} from '../../protocol/inspection.ts'

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
}

export const createModel = (): Model => ({
  actors: new Map(),
  histories: new Map(),
  lastN: 0,
  lost: 0,
  isComplete: false,
})

export function applyFrame(model: Model, frame: InspectFrame): void {
  switch (frame.type) {
    case 'inspect-hello':
      // Numbers begin anew with each host.
      Object.assign(model, { lastN: 0, lost: 0, isComplete: false })
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
    ticket: idOf('ticketId'),
    lease: idOf('leaseId'),
    worker: idOf('workerId'),
  }
  const own = namesOf(id)
  const named = Object.fromEntries(Object.entries(owners).filter(([, value]) => value !== undefined))
  const itself = own.kind in owners ? { [own.kind]: own.key } : {}
  model.actors.set(id, { ...own, id, state: after, since: at, ...named, ...itself })
}
