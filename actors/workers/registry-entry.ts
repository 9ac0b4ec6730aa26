/** `RegistryEntry` is an enrolled worker in the worker registry. */
import type { WorkerAgents, WorkerState } from '../../protocol/worker.ts'
import type { CurrentConnection, EnrolledWorker } from './enrolled-worker.ts'
import type { Setback } from './setbacks.ts'
import type { WorkerContext } from './worker.machine.ts'

export class RegistryEntry implements EnrolledWorker {
  context: WorkerContext
  state: WorkerState
  readonly leases = new Set<string>()
  connection: CurrentConnection | undefined
  lastSeenAt: number | undefined
  attachSessions = 0
  pausedUntil = 0
  hold?: string
  fullDisk?: string
  lastFrameAt = 0
  acceptedOn: number | undefined
  readonly refusals: { at: number; class: string; detail: string }[] = []
  readonly setbacks = new Map<string, Setback>()
  readonly setbackTries = new Map<string, number>()

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
  get isEnding(): boolean {
    return this.context.ephemeral === true && this.context.capabilities?.ending === true
  }
  get hasEnded(): boolean {
    return this.isEnding && !this.online && this.used === 0
  }
  get max(): number {
    const { capabilities } = this.context
    if (capabilities === null || capabilities.ending === true) return 0
    return capabilities.once === true && this.#hasTakenItsRun ? 0 : capabilities.maxConcurrency
  }
  /** A new connection may belong to a new process, which takes a run of its own. */
  get #hasTakenItsRun(): boolean {
    return this.connection !== undefined && this.connection.number === this.acceptedOn
  }
  get agents(): WorkerAgents | undefined {
    return this.context.capabilities?.agents
  }
  get limitsMemory(): boolean {
    return this.context.capabilities?.limits === 'cgroup'
  }
  get publishes(): boolean {
    return this.context.capabilities?.publish === true
  }
  get continuesSessions(): boolean {
    return this.context.capabilities?.continuesSessions === true
  }
  get holdsKeys(): boolean {
    return this.context.capabilities?.holdsKeys === true
  }
  get used(): number {
    return this.leases.size
  }
}
