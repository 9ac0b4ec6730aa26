/**
 * WorkerActors holds the actors that workers share while somebody inspects this host: kinds, keys and states, nothing
 * else. A worker that shares nothing never answers.
 */
import { shortName } from '../../core/inspection/shown-fields.ts'
import type { HostFrameOf, WorkerFrameOf } from '../../protocol/frames.ts'
import type { InspectedActor } from '../../protocol/inspection.ts'
import { SHARED_ACTORS_MAX } from '../../protocol/limits.ts'

export interface WorkerActorsPorts {
  readonly now: () => number
  readonly onChange: (changed: readonly InspectedActor[], gone: readonly string[]) => void
}

/** Sends to one connected worker. */
type SendToWorker = (workerId: string, frame: HostFrameOf<'watch-actors'>) => void

export class WorkerActors {
  readonly #ports: WorkerActorsPorts
  readonly #actors = new Map<string, Map<string, InspectedActor>>()
  /** The workers that know that they are watched. */
  readonly #asked = new Set<string>()
  #isWatched = false
  #send: SendToWorker = () => {}

  constructor(ports: WorkerActorsPorts) {
    this.#ports = ports
  }

  /** @param send set by the module that knows the connections */
  sendBy(send: SendToWorker): void {
    this.#send = send
  }

  /** Every actor that a worker shares now. */
  *all(): Iterable<InspectedActor> {
    for (const actors of this.#actors.values()) yield* actors.values()
  }

  /** Called with every frame of a registered worker, so it must cost next to nothing while nobody watches. */
  onFrameReceived(workerId: string): void {
    if (!this.#isWatched || this.#asked.has(workerId)) return
    this.#asked.add(workerId)
    this.#send(workerId, { type: 'watch-actors', on: true })
  }

  setWatched(isWatched: boolean): void {
    this.#isWatched = isWatched
    if (isWatched) return
    for (const workerId of this.#asked) this.#send(workerId, { type: 'watch-actors', on: false })
    this.#asked.clear()
    this.#actors.clear()
  }

  onStates(workerId: string, { changed, gone }: WorkerFrameOf<'actor-states'>): void {
    if (!this.#isWatched) return
    const actors = this.#actors.get(workerId) ?? new Map<string, InspectedActor>()
    this.#actors.set(workerId, actors)
    const ended = gone.map((id) => shortName(`${workerId}/${id}`)).filter((id) => actors.delete(id))
    const described = changed.map(({ kind, key, state }): InspectedActor => {
      const id = shortName(`${workerId}/${kind}/${key}`)
      const owner = kind === 'execution' ? { lease: key } : kind === 'booted' ? { run: key } : {}
      return { id, kind, key, state, since: this.#ports.now(), ...owner, worker: workerId, process: workerId }
    })
    for (const actor of described) if (actors.size < SHARED_ACTORS_MAX) actors.set(actor.id, actor)
    this.#ports.onChange(
      described.filter(({ id }) => actors.has(id)),
      ended,
    )
  }

  /** The worker's connection is gone, and with it what was known of its actors. */
  onLost(workerId: string): void {
    this.#asked.delete(workerId)
    const actors = this.#actors.get(workerId)
    if (actors === undefined) return
    this.#actors.delete(workerId)
    this.#ports.onChange([], [...actors.keys()])
  }
}
