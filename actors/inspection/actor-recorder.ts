/**
 * ActorRecorder numbers what happens in an actor system while somebody watches, and remembers the last records of each
 * actor.
 *
 * A record holds references to the states of its actor, which never change. It is converted to what people may see
 * only when it is sent to somebody who follows the actor.
 */
import type { AnyMachineSnapshot, EventObject } from 'xstate'
import { changedFields, shortName, showFields } from '../../core/inspection/shown-fields.ts'
import type { Clock } from '../../core/ports.ts'
import type { InspectionRecord, InspectionSource } from '../../protocol/inspection.ts'
import { INSPECT_RECENT_MAX, INSPECT_REMEMBERED_MAX } from '../../protocol/limits.ts'
import type { LiveActor } from '../runtime/live-actor.ts'
import { statePath } from '../runtime/snapshot-codec.ts'
import type { OutsideCause, SystemObserver } from '../runtime/system-observer.ts'
import type { DeadlineChange, Effect } from '../runtime/transition-output.ts'
import { actorIdOf } from './inspected-actors.ts'

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
const isEffect = (begun: object): begun is Effect => 'type' in begun && typeof begun.type === 'string'

/** A record as people may see it. */
export function showFact(fact: RecordedFact): InspectionRecord {
  const { n, at, actor, is, name, origin, before, after, due, payload } = fact
  const fields = payload === undefined ? {} : showFields(payload).fields
  const context = shownChange(before, after)
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
    ...(due === undefined ? {} : { due }),
    ...(Object.keys(fields).length === 0 ? {} : { fields }),
    ...(context === undefined ? {} : { context }),
  }
}

function shownChange(before: AnyMachineSnapshot | undefined, after: AnyMachineSnapshot | undefined) {
  if (after === undefined || before?.context === after.context) return undefined
  return changedFields(
    before === undefined ? {} : showFields(before.context).fields,
    showFields(after.context).fields,
  )
}
