/** `RegistryEntry` is an enrolled worker in the worker registry. */
import type { WorkerAgents, WorkerState } from '../../protocol/worker.ts'
import type { Setback } from './setbacks.ts'
import type { WorkerContext } from './worker.machine.ts'
import type { CurrentConnection, EnrolledWorker } from './worker-registry.ts'

export class RegistryEntry implements EnrolledWorker {
  context: WorkerContext
  state: WorkerState
  readonly leases = new Set<string>()
  connection: CurrentConnection | undefined
  lastSeenAt: number | undefined
  attachSessions = 0
  pausedUntil = 0
  hold?: string
  lastFrameAt = 0
  readonly refusals: { at: number; class: string; detail: string }[] = []
  readonly setbacks = new Map<string, Setback>()

  constructor(context: WorkerContext, state: WorkerState) {
    this.context = context
    this.state = state
  }

  get id(): string {
    return this.context.id
  }
  get name(): string {
    return this.context.name
  }
  get online(): boolean {
    return this.connection !== undefined
  }
  get max(): number {
    const { capabilities } = this.context
    return capabilities === null || capabilities.ending === true ? 0 : capabilities.maxConcurrency
  }
  get agents(): WorkerAgents | undefined {
    return this.context.capabilities?.agents
  }
  get used(): number {
    return this.leases.size
  }
}
