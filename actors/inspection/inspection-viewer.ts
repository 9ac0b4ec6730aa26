/**
 * InspectionViewer sends the news of actors to one viewer, and no more than the viewer reads: what has changed is
 * collected for a moment, and while too much waits to be sent, records are left out and counted.
 */

import type { Cancel } from '../../core/ports/clock.ts'
import type { InspectionReceiver } from '../../core/ports/connections.ts'
import type { InspectedActor, InspectRequest } from '../../protocol/inspection.ts'
import {
  INSPECT_ACTOR_FRAME_MAX,
  INSPECT_BACKLOG_BYTES_MAX,
  INSPECT_COLLECT_MS,
  INSPECT_RECORD_FRAME_MAX,
} from '../../protocol/limits.ts'
import type { HostContext } from '../host-context.ts'
import type { LiveActor } from '../runtime/live-actor.ts'
import {
  type ActorRecorder,
  actorIdOf,
  describeActor,
  describeInDetail,
  type RecordedFact,
  showFact,
} from './actor-recorder.ts'

/** The records that wait for the next frame to one viewer. */
export const INSPECT_QUEUED_MAX = 10_000

export interface InspectionViewerPorts extends Pick<HostContext, 'clock' | 'system' | 'version'> {
  readonly receiver: InspectionReceiver
  readonly recorder: ActorRecorder
}

export class InspectionViewer {
  readonly #ports: InspectionViewerPorts
  readonly #changed = new Map<string, LiveActor>()
  readonly #gone = new Set<string>()
  /** Changed actors of workers. */
  readonly #shared = new Map<string, InspectedActor>()
  /** The last description of each actor as it was sent. */
  readonly #sent = new Map<string, InspectedActor>()
  #followed = new Set<string>()
  #followsAll = false
  #facts: RecordedFact[] = []
  #lost = 0
  #cancelFlush: Cancel | undefined

  constructor(ports: InspectionViewerPorts) {
    this.#ports = ports
  }

  /** @param shared the actors of workers that share theirs */
  start(shared: Iterable<InspectedActor>): void {
    const { clock, system, version, receiver } = this.#ports
    const actors = [...system.liveActors()]
    receiver.send({ type: 'inspect-hello', version, now: clock.now(), actors: actors.length })
    for (const actor of actors) this.#changed.set(actorIdOf(actor), actor)
    for (const actor of shared) this.#shared.set(actor.id, actor)
    this.#sendActors(true)
  }

  onShared(changed: readonly InspectedActor[], gone: readonly string[]): void {
    for (const id of gone) {
      this.#shared.delete(id)
      this.#gone.add(id)
    }
    for (const actor of changed) {
      this.#gone.delete(actor.id)
      this.#shared.set(actor.id, actor)
    }
    this.#scheduleFlush()
  }

  stop(): void {
    this.#cancelFlush?.()
    this.#facts = []
  }

  onFact(fact: RecordedFact, actor: LiveActor): void {
    if (fact.is === 'ended') {
      this.#changed.delete(fact.actor)
      this.#gone.add(fact.actor)
    } else if (fact.after !== undefined) {
      this.#gone.delete(fact.actor)
      this.#changed.set(fact.actor, actor)
    }
    if (this.#followsAll || this.#followed.has(fact.actor)) this.#queue(fact)
    if (this.#ports.receiver.isImmediate === true) this.#flush()
    else this.#scheduleFlush()
  }

  follow({ actors, all = false, details = false }: InspectRequest): void {
    this.#flush()
    const before = this.#followed
    this.#followed = new Set(actors)
    this.#followsAll = all
    for (const id of this.#followed) if (!before.has(id)) this.#sendDetail(id)
    if (all && details) for (const actor of this.#ports.system.liveActors()) this.#sendDetailOf(actor, [])
  }

  onDrained(): void {
    const waiting = this.#facts.length + this.#changed.size + this.#shared.size + this.#gone.size
    if (waiting > 0) this.#scheduleFlush()
  }

  #queue(fact: RecordedFact): void {
    if (this.#facts.length < INSPECT_QUEUED_MAX) this.#facts.push(fact)
    else {
      // The newest count most; viewers see the gap before them.
      this.#lost += this.#facts.length
      this.#facts = [fact]
    }
  }

  #sendDetail(id: string): void {
    const separator = id.indexOf('/')
    const actor = this.#ports.system.liveActor(id.slice(0, separator), id.slice(separator + 1))
    if (actor !== undefined) this.#sendDetailOf(actor, this.#ports.recorder.recent(id))
  }

  #sendDetailOf(actor: LiveActor, recent: readonly RecordedFact[]): void {
    const detail = describeInDetail(actor, this.#ports.recorder.since(actorIdOf(actor)))
    this.#ports.receiver.send({ type: 'inspect-detail', detail, recent: recent.map(showFact) })
  }

  #scheduleFlush(): void {
    this.#cancelFlush ??= this.#ports.clock.after(INSPECT_COLLECT_MS, () => this.#flush())
  }

  #flush(): void {
    this.#cancelFlush?.()
    this.#cancelFlush = undefined
    // When the viewer has read what waits, `onDrained` goes on.
    if (this.#ports.receiver.backlog() > INSPECT_BACKLOG_BYTES_MAX) return
    this.#sendActors(false)
    this.#sendFacts()
  }

  #sendActors(complete: boolean): void {
    const { receiver, recorder } = this.#ports
    const changed: InspectedActor[] = []
    for (const [id, actor] of this.#changed) {
      const described = describeActor(actor, recorder.since(id))
      if (isSame(this.#sent.get(id), described)) continue
      this.#sent.set(id, described)
      changed.push(described)
    }
    for (const [id, actor] of this.#shared) {
      if (isSame(this.#sent.get(id), actor)) continue
      this.#sent.set(id, actor)
      changed.push(actor)
    }
    this.#shared.clear()
    // An actor that has come and gone meanwhile was never listed.
    const gone = [...this.#gone].filter((id) => this.#sent.delete(id))
    this.#changed.clear()
    this.#gone.clear()
    const frames = Math.ceil(
      Math.max(changed.length, gone.length, complete ? 1 : 0) / INSPECT_ACTOR_FRAME_MAX,
    )
    for (let frame = 0; frame < frames; frame++) {
      const from = frame * INSPECT_ACTOR_FRAME_MAX
      receiver.send({
        type: 'inspect-actors',
        changed: changed.slice(from, from + INSPECT_ACTOR_FRAME_MAX),
        gone: gone.slice(from, from + INSPECT_ACTOR_FRAME_MAX),
        ...(complete && frame === frames - 1 ? { complete } : {}),
      })
    }
  }

  #sendFacts(): void {
    const facts = this.#facts
    this.#facts = []
    for (let from = 0; from < facts.length; from += INSPECT_RECORD_FRAME_MAX) {
      const records = facts.slice(from, from + INSPECT_RECORD_FRAME_MAX).map(showFact)
      this.#ports.receiver.send({
        type: 'inspect-records',
        records,
        ...(this.#lost === 0 ? {} : { lost: this.#lost }),
      })
      this.#lost = 0
    }
  }
}

const isSame = (before: InspectedActor | undefined, after: InspectedActor): boolean =>
  before !== undefined &&
  before.state === after.state &&
  before.since === after.since &&
  before.run === after.run &&
  before.ticket === after.ticket &&
  before.lease === after.lease &&
  before.worker === after.worker
