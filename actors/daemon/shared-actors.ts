/**
 * SharedActors tells the host which actors this worker has and in which states, while somebody inspects them and the
 * worker's owner allows it. Nothing but kinds, keys and states leaves the worker.
 */
import { shortName } from '../../core/inspection/shown-fields.ts'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { SharedActor, WorkerFrameOf } from '../../protocol/frames.ts'
import { INSPECT_COLLECT_MS, SHARED_ACTORS_MAX } from '../../protocol/limits.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { LiveActor } from '../runtime/live-actor.ts'
import { statePath } from '../runtime/snapshot-codec.ts'
import type { SystemObserver } from '../runtime/transition-output.ts'

export interface SharedActorsPorts {
  readonly clock: Pick<Clock, 'after'>
  readonly system: Pick<ActorSystem, 'liveActors' | 'observe'>
  /** Whether the worker's owner allows it. */
  readonly isAllowed: boolean
  readonly send: (frame: WorkerFrameOf<'actor-states'>) => void
}

export class SharedActors implements SystemObserver {
  readonly #ports: SharedActorsPorts
  readonly #changed = new Set<LiveActor>()
  readonly #gone = new Set<string>()
  #isWatched = false
  #cancelSend: Cancel | undefined

  constructor(ports: SharedActorsPorts) {
    this.#ports = ports
  }

  /** The host asks for the actors, or not any more; each request begins with all of them. */
  onWatch(isWatched: boolean): void {
    if (!this.#ports.isAllowed) return
    this.stop()
    this.#isWatched = isWatched
    if (!isWatched) return
    this.#ports.system.observe(this)
    for (const actor of this.#ports.system.liveActors()) this.#changed.add(actor)
    this.#send()
  }

  /** Without a connection nobody watches; the host asks again. */
  stop(): void {
    this.#cancelSend?.()
    this.#cancelSend = undefined
    if (this.#isWatched) this.#ports.system.observe(undefined)
    this.#isWatched = false
    this.#changed.clear()
    this.#gone.clear()
  }

  onCreated(actor: LiveActor): void {
    this.#add(actor)
  }

  onTransition(actor: LiveActor): void {
    this.#add(actor)
  }

  onEnded(actor: LiveActor): void {
    this.#changed.delete(actor)
    this.#gone.add(idOf(actor))
    this.#schedule()
  }

  // The host learns of states alone.
  onRecorded(): void {}
  begin(): void {}
  end(): void {}
  onEffect(): void {}
  onDeadline(): void {}
  onCrashed(): void {}
  onRestarted(): void {}

  #add(actor: LiveActor): void {
    this.#gone.delete(idOf(actor))
    this.#changed.add(actor)
    this.#schedule()
  }

  #schedule(): void {
    this.#cancelSend ??= this.#ports.clock.after(INSPECT_COLLECT_MS, () => this.#send())
  }

  #send(): void {
    this.#cancelSend = undefined
    const changed = [...this.#changed].slice(0, SHARED_ACTORS_MAX).map(describe)
    const gone = [...this.#gone].slice(0, SHARED_ACTORS_MAX)
    this.#changed.clear()
    this.#gone.clear()
    this.#ports.send({ type: 'actor-states', changed, gone })
  }
}

const idOf = ({ kind, key }: LiveActor): string => shortName(`${kind.name}/${key}`)

const describe = ({ kind, key, lastGood }: LiveActor): SharedActor => ({
  kind: kind.name,
  key: shortName(key),
  state: statePath(lastGood.value),
})
