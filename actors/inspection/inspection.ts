/**
 * Inspection lets people watch the actors of this process, and those that workers share. The actor system is observed
 * only while somebody does.
 */

import { shortName } from '../../core/inspection/shown-fields.ts'
import type { InspectionReceiver, InspectionSession } from '../../core/ports/connections.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import type { InspectedActor } from '../../protocol/inspection.ts'
import { INSPECT_VIEWERS_MAX, SHARED_ACTORS_MAX } from '../../protocol/limits.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import { observeKind } from '../runtime/module.ts'
import { CONNECTION } from '../workers/worker.machine.ts'
import { ActorRecorder } from './actor-recorder.ts'
import { InspectionViewer } from './inspection-viewer.ts'

export type InspectionPorts = Pick<HostContext, 'clock' | 'system' | 'version' | 'publish'>

export class Inspection {
  readonly #ports: InspectionPorts
  readonly #viewers = new Set<InspectionViewer>()
  #recorder: ActorRecorder | undefined

  constructor(ports: InspectionPorts) {
    this.#ports = ports
    this.workerActors = new WorkerActors({
      publish: ports.publish,
      now: () => ports.clock.now(),
      onChange: (changed, gone) => {
        for (const viewer of this.#viewers) viewer.onShared(changed, gone)
      },
    })
  }

  /** The actors that workers share. */
  readonly workerActors: WorkerActors

  get viewerCount(): number {
    return this.#viewers.size
  }

  open(receiver: InspectionReceiver): Result<InspectionSession> {
    if (this.#viewers.size >= INSPECT_VIEWERS_MAX)
      return no('conflict', `${INSPECT_VIEWERS_MAX} viewers watch already; close one of them`)
    const viewer = new InspectionViewer({ ...this.#ports, receiver, recorder: this.#observe() })
    this.#viewers.add(viewer)
    viewer.start(this.workerActors.all())
    this.workerActors.setWatched(true)
    return yes({
      follow: (request) => viewer.follow(request),
      onDrained: () => viewer.onDrained(),
      close: () => this.#close(viewer),
    })
  }

  stop(): void {
    for (const viewer of [...this.#viewers]) this.#close(viewer)
  }

  #observe(): ActorRecorder {
    if (this.#recorder === undefined) {
      this.#recorder = new ActorRecorder({
        clock: this.#ports.clock,
        onFact: (fact, actor) => {
          for (const viewer of this.#viewers) viewer.onFact(fact, actor)
        },
      })
      this.#ports.system.observe(this.#recorder)
    }
    return this.#recorder
  }

  #close(viewer: InspectionViewer): void {
    viewer.stop()
    this.#viewers.delete(viewer)
    if (this.#viewers.size > 0) return
    this.#ports.system.observe(undefined)
    this.workerActors.setWatched(false)
    this.#recorder = undefined
  }
}

interface WorkerActorsPorts extends Pick<HostContext, 'publish'> {
  readonly now: () => number
  readonly onChange: (changed: readonly InspectedActor[], gone: readonly string[]) => void
}

/**
 * WorkerActors holds the actors that workers share while somebody inspects this host: kinds, keys and states, nothing
 * else. A worker that shares nothing never answers.
 */
class WorkerActors {
  readonly #ports: WorkerActorsPorts
  readonly #actors = new Map<string, Map<string, InspectedActor>>()
  /** The workers that know that they are watched. */
  readonly #asked = new Set<string>()
  #isWatched = false

  constructor(ports: WorkerActorsPorts) {
    this.#ports = ports
  }

  /** Every actor that a worker shares now. */
  *all(): Iterable<InspectedActor> {
    for (const actors of this.#actors.values()) yield* actors.values()
  }

  /** Called with every frame of a registered worker, so it must cost next to nothing while nobody watches. */
  onFrameReceived(workerId: string): void {
    if (!this.#isWatched || this.#asked.has(workerId)) return
    this.#asked.add(workerId)
    this.#ports.publish({ view: 'worker watched', key: workerId, on: true })
  }

  setWatched(isWatched: boolean): void {
    this.#isWatched = isWatched
    if (isWatched) return
    for (const key of this.#asked) this.#ports.publish({ view: 'worker watched', key, on: false })
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

/** The inspection module lets people who inspect the host see the actors of workers that share theirs. */
export const inspectionModule = defineHostModule({
  name: 'inspection',
  create({ inspection }, { workers }) {
    return {
      onViewChange(change) {
        if (change.view === 'worker watched')
          workers.connections.sendToWorker(change.key, { type: 'watch-actors', on: change.on })
      },
      onStateChange: [
        observeKind(CONNECTION, ({ after, over }) => {
          const { workerId } = after.context
          if (over && workerId !== null) inspection.workerActors.onLost(workerId)
        }),
      ],
      stop: () => inspection.stop(),
      sizes: () => ({ inspectionViewers: inspection.viewerCount }),
    }
  },
})
