/**
 * ActorRecorder numbers what happens in an actor system while somebody watches, and remembers the last records of each
 * actor.
 *
 * A record holds references to the states of its actor, which never change. It is converted to what people may see
 * only when it is sent to somebody who follows the actor.
 */
import type { AnyMachineSnapshot, AnyStateNode, EventObject } from 'xstate'
import { changedFields, shortName, showFields, shownWord } from '../../core/inspection/shown-fields.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type {
  ActorDetail,
  GuardResult,
  InspectedActor,
  InspectionRecord,
  InspectionSource,
} from '../../protocol/inspection.ts'
import { INSPECT_FIELDS_MAX, INSPECT_GUARDS_MAX, INSPECT_RECENT_MAX } from '../../protocol/limits.ts'
import type { LiveActor } from '../runtime/live-actor.ts'
import { statePath } from '../runtime/snapshot-codec.ts'
import type { DeadlineChange, Effect, OutsideCause, SystemObserver } from '../runtime/transition-output.ts'

/** The records that are remembered for all actors together. */
const INSPECT_REMEMBERED_MAX = 100_000

/** Leads to a record: its sender, and the record in which it was caused. */
interface Origin {
  readonly source: InspectionSource
  readonly cause?: number
}

export interface RecordedFact {
  readonly n: number
  readonly at: number
  readonly actor: string
  readonly is: InspectionRecord['is']
  readonly name: string
  readonly origin: Origin
  readonly before?: AnyMachineSnapshot
  readonly after?: AnyMachineSnapshot
  readonly due?: number
  /** The event or the effect. */
  readonly payload?: object
}

export interface RecorderPorts {
  readonly clock: Pick<Clock, 'now'>
  readonly onFact: (fact: RecordedFact, actor: LiveActor) => void
}

/** A weak map would cost every collection of garbage more than all other recording. */
const ORIGIN = Symbol('origin')
interface Recorded {
  [ORIGIN]?: Origin
}

function setOrigin(made: object, origin: Origin): void {
  if (Object.isExtensible(made)) (made as Recorded)[ORIGIN] = origin
}

const UNKNOWN: Origin = { source: { is: 'module', name: '' } }

export class ActorRecorder implements SystemObserver {
  readonly #ports: RecorderPorts
  readonly #recent = new Map<string, RecordedFact[]>()
  readonly #since = new Map<string, number>()
  /** The numbers of the records that set a deadline, by actor and name. */
  readonly #deadlines = new Map<string, number>()
  readonly #begun: Origin[] = []
  #current: Origin = UNKNOWN
  #remembered = 0
  #count = 0

  constructor(ports: RecorderPorts) {
    this.#ports = ports
  }

  /** How many records there were. */
  get count(): number {
    return this.#count
  }

  /** When the actor entered its state; undefined when that was before anybody watched. */
  since(actor: string): number | undefined {
    return this.#since.get(actor)
  }

  /** The last records of an actor, oldest first. */
  recent(actor: string): readonly RecordedFact[] {
    return (this.#recent.get(actor) ?? []).slice(-INSPECT_RECENT_MAX)
  }

  // ---- causes ----------------------------------------------------------------------------------------------------

  onRecorded(made: object): void {
    setOrigin(made, this.#current)
  }

  begin(begun: object | OutsideCause): void {
    this.#begun.push(this.#current)
    this.#current = this.#originOf(begun)
  }

  end(): void {
    this.#current = this.#begun.pop() ?? UNKNOWN
  }

  /** A message came from its sender. What an effect leads to came from the effect. */
  #originOf(begun: object): Origin {
    const recorded = (begun as Recorded)[ORIGIN]
    if (isEffect(begun)) return { ...recorded, source: { is: 'effect', name: begun.type } }
    if (isMessage(begun)) return recorded ?? UNKNOWN
    return isOutside(begun) ? { source: { is: begun.is, name: shortName(begun.name) } } : UNKNOWN
  }

  // ---- what happens ----------------------------------------------------------------------------------------------

  onCreated(actor: LiveActor, isRestored: boolean): void {
    const origin = this.#current
    this.#record(actor, { is: isRestored ? 'restored' : 'created', name: '', origin, after: actor.lastGood })
  }

  onTransition(actor: LiveActor, event: EventObject, before: AnyMachineSnapshot): void {
    const { lastGood: after } = actor
    const origin = this.#originOfEvent(actor, event)
    this.#record(actor, { is: 'event', name: event.type, origin, before, after, payload: event })
  }

  onEffect(actor: LiveActor, effect: Effect): void {
    const origin = this.#current
    this.#record(actor, { is: 'effect', name: effect.type, origin, payload: effect })
    // The effect belongs to its own record; what the transition does next belongs to the transition.
    setOrigin(effect, this.#current)
    this.#current = origin
  }

  onDeadline(actor: LiveActor, change: DeadlineChange): void {
    const origin = this.#current
    const key = `${actorIdOf(actor)} ${change.name}`
    this.#record(actor, {
      is: 'deadline',
      name: change.name,
      origin,
      ...(change.is === 'set' ? { due: change.at } : {}),
    })
    if (change.is === 'set') this.#deadlines.set(key, this.#count)
    else this.#deadlines.delete(key)
    this.#current = origin
  }

  onCrashed(actor: LiveActor, event: EventObject): void {
    this.#record(actor, { is: 'crash', name: event.type, origin: this.#current })
  }

  onRestarted(actor: LiveActor): void {
    this.#record(actor, { is: 'restarted', name: '', origin: this.#current })
  }

  onEnded(actor: LiveActor): void {
    const origin = this.#current
    this.#record(actor, { is: 'ended', name: '', origin })
    this.#since.delete(actorIdOf(actor))
    this.#current = origin
  }

  #originOfEvent(actor: LiveActor, { type }: EventObject): Origin {
    const { source, cause } = this.#current
    if (source.is !== 'deadline' || cause !== undefined) return this.#current
    const key = `${actorIdOf(actor)} ${type.slice('deadline.'.length)}`
    const setBy = this.#deadlines.get(key)
    this.#deadlines.delete(key)
    return setBy === undefined ? this.#current : { source, cause: setBy }
  }

  /** Until the current delivery ends, this record is the cause of what is recorded. */
  #record(actor: LiveActor, fact: Omit<RecordedFact, 'n' | 'at' | 'actor'>): void {
    const id = actorIdOf(actor)
    this.#count += 1
    const whole: RecordedFact = { n: this.#count, at: this.#ports.clock.now(), actor: id, ...fact }
    if (hasOtherState(whole)) this.#since.set(id, whole.at)
    if (this.#begun.length > 0) this.#current = { source: { is: 'actor', name: id }, cause: whole.n }
    this.#remember(whole)
    this.#ports.onFact(whole, actor)
  }

  #remember(fact: RecordedFact): void {
    const recent = this.#recent.get(fact.actor)
    this.#remembered += 1
    if (recent === undefined) this.#recent.set(fact.actor, [fact])
    else if (recent.push(fact) >= 2 * INSPECT_RECENT_MAX)
      this.#remembered -= recent.splice(0, INSPECT_RECENT_MAX).length
    if (this.#remembered > INSPECT_REMEMBERED_MAX) this.#forgetOldest()
  }

  /** Forgets actors in the order in which they came, until a tenth of the room is free. */
  #forgetOldest(): void {
    for (const [actor, recent] of this.#recent) {
      if (this.#remembered <= INSPECT_REMEMBERED_MAX * 0.9) return
      this.#recent.delete(actor)
      this.#remembered -= recent.length
    }
  }
}

function hasOtherState({ before, after }: RecordedFact): boolean {
  if (after === undefined || before?.value === after.value) return false
  return before === undefined || statePath(after.value) !== statePath(before.value)
}

const MESSAGES = ['direct', 'event', 'spawn']
const isMessage = (begun: object): boolean => 'is' in begun && MESSAGES.includes(String(begun.is))
const isOutside = (begun: object): begun is OutsideCause => 'is' in begun && 'name' in begun
const isEvent = (payload: object): payload is EventObject =>
  'type' in payload && typeof payload.type === 'string'
const isEffect = (begun: object): begun is Effect => 'type' in begun && typeof begun.type === 'string'

// ---- records and actors, as people may see them ------------------------------------------------------------------

/** A record as people may see it. */
export function showFact(fact: RecordedFact): InspectionRecord {
  const { n, at, actor, is, name, origin, before, after, due, payload } = fact
  const fields = payload === undefined ? {} : showFields(payload).fields
  const context = shownChange(before, after)
  const verdict = is === 'event' && before !== undefined ? verdictOn(before, payload) : undefined
  return {
    n,
    at,
    actor,
    is,
    name: shortName(name),
    from: origin.source,
    ...(origin.cause === undefined ? {} : { cause: origin.cause }),
    ...(before === undefined ? {} : { before: statePath(before.value) }),
    ...(after === undefined ? {} : { after: statePath(after.value) }),
    ...verdict,
    ...(due === undefined ? {} : { due }),
    ...(Object.keys(fields).length === 0 ? {} : { fields }),
    ...(context === undefined ? {} : { context }),
  }
}

function verdictOn(
  before: AnyMachineSnapshot,
  event: object | undefined,
): Pick<InspectionRecord, 'guards' | 'ignored'> {
  if (event === undefined || !isEvent(event)) return {}
  const { guards, isIgnored } = judgeEvent(before, event)
  return {
    ...(guards.length === 0 ? {} : { guards }),
    ...(isIgnored ? { ignored: true } : {}),
  }
}

function shownChange(before: AnyMachineSnapshot | undefined, after: AnyMachineSnapshot | undefined) {
  if (after === undefined || before?.context === after.context) return undefined
  return changedFields(
    before === undefined ? {} : showFields(before.context).fields,
    showFields(after.context).fields,
  )
}

export const actorIdOf = ({ kind, key }: LiveActor): string => shortName(`${kind.name}/${key}`)

/**
 * Describes live actors to people: their state, what they belong to, their pending deadlines, and the fields of their
 * context that may be shown.
 */
export function describeActor(actor: LiveActor, since: number | undefined): InspectedActor {
  const { kind, key, lastGood } = actor
  return {
    id: actorIdOf(actor),
    kind: kind.name,
    key: shortName(key),
    state: statePath(lastGood.value),
    ...(since === undefined ? {} : { since }),
    ...ownersOf(kind.name, key, lastGood.context),
  }
}

export function describeInDetail(actor: LiveActor, since: number | undefined): ActorDetail {
  const { fields, hidden } = showFields(actor.lastGood.context)
  return {
    actor: describeActor(actor, since),
    context: fields,
    hidden,
    deadlines: Object.fromEntries([...(actor.deadlines ?? [])].slice(0, INSPECT_FIELDS_MAX)),
  }
}

const OWN_KINDS: Readonly<Record<string, keyof Owners>> = {
  run: 'run',
  lease: 'lease',
  execution: 'lease',
  worker: 'worker',
}

type Owners = Pick<InspectedActor, 'run' | 'ticket' | 'lease' | 'worker'>

/** Reads the few fields by which contexts name what their actors belong to. A host describes thousands of actors at once. */
function ownersOf(kind: string, key: string, context: unknown): Owners {
  const outer = Object(context) as Record<string, unknown>
  // The ids of a run stand in its record.
  const run = Object(outer.run) as Record<string, unknown>
  const { identifier } = Object(run.ticket) as Record<string, unknown>
  const owners: Record<string, string> = {}
  const add = (name: keyof Owners, ...ids: readonly unknown[]) => {
    const id = ids.find((found) => typeof found === 'string' && found !== '')
    if (typeof id === 'string') owners[name] = shortName(id)
  }
  const own = OWN_KINDS[kind]
  add('run', own === 'run' ? key : undefined, run.runId, outer.runId)
  add('ticket', shownWord(identifier), shownWord(outer.ticketIdentifier), outer.ticketId)
  add('lease', own === 'lease' ? key : undefined, run.leaseId, outer.leaseId)
  add('worker', own === 'worker' ? key : undefined, run.workerId, outer.workerId)
  return owners
}

// ---- how a machine judged an event -------------------------------------------------------------------------------

interface EventVerdict {
  readonly guards: GuardResult[]
  /** No transition took the event, so nothing happened. */
  readonly isIgnored: boolean
}

/**
 * Returns the guards that a machine asked about an event, in its order, and whether a transition took the event.
 *
 * Guards depend on nothing but the context and the event. Both are in the record, so xstate's own choice between the
 * transitions of a state can be repeated when somebody wants to see it.
 */
export function judgeEvent(before: AnyMachineSnapshot, event: EventObject): EventVerdict {
  const [chosen] = before.machine.getTransitionData(before, event)
  const guards: GuardResult[] = []
  for (const transition of nodesFrom(before).flatMap((node) => node.transitions.get(event.type) ?? [])) {
    const holds = transition === chosen
    const name = nameOf(transition.guard)
    if (name !== undefined && guards.length < INSPECT_GUARDS_MAX) guards.push({ name, holds })
    if (holds) break
  }
  return { guards, isIgnored: chosen === undefined }
}

/** The active state and those around it, the innermost first, as xstate asks them. */
function nodesFrom({ machine, value }: AnyMachineSnapshot): AnyStateNode[] {
  const nodes: AnyStateNode[] = [machine.root]
  for (const name of statePath(value).split('.')) {
    const inner: AnyStateNode | undefined = nodes[0]?.states[name]
    if (inner !== undefined) nodes.unshift(inner)
  }
  return nodes
}

function nameOf(guard: unknown): string | undefined {
  if (typeof guard === 'string') return shortName(guard)
  return typeof guard === 'object' && guard !== null && 'type' in guard
    ? shortName(String(guard.type))
    : undefined
}
