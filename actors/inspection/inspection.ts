/**
 * Inspection lets people watch the actors of this process. It observes the actor system only while somebody does.
 */
import type { InspectionReceiver, InspectionSession } from '../../core/connection-ports.ts'
import type { Clock } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { INSPECT_VIEWERS_MAX } from '../../protocol/limits.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { ActorRecorder } from './actor-recorder.ts'
import { InspectionViewer } from './inspection-viewer.ts'
import { WorkerActors } from './worker-actors.ts'

export interface InspectionPorts {
  readonly clock: Clock
  readonly system: Pick<ActorSystem, 'liveActor' | 'liveActors' | 'observe'>
  readonly version: string
}

export class Inspection {
  readonly #ports: InspectionPorts
  readonly #viewers = new Set<InspectionViewer>()
  #recorder: ActorRecorder | undefined

  constructor(ports: InspectionPorts) {
    this.#ports = ports
    this.workerActors = new WorkerActors({
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
