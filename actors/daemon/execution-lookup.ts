/** Reads the current state and fields of executions, including transitions that are not on disk yet, and sends them events. */
import type { ActorSystem } from '../runtime/actor-system.ts'
import { EXECUTION } from './daemon.names.ts'
import type { ExecutionContext, ExecutionEvent } from './execution.machine.ts'

export interface ExecutionView {
  readonly state: string
  readonly fields: ExecutionContext
}

export class ExecutionLookup {
  readonly #system: ActorSystem

  constructor(system: ActorSystem) {
    this.#system = system
  }

  /** The daemon has ended: executions are unknown here, and their ends do not reach the disk. */
  get isStopped(): boolean {
    return this.#system.isStopped
  }

  all(): ExecutionView[] {
    return [...this.#system.keys(EXECUTION)].flatMap((leaseId) => this.find(leaseId) ?? [])
  }

  find(leaseId: string): ExecutionView | undefined {
    const actor = this.#system.peek(EXECUTION, leaseId)
    return actor === undefined ? undefined : { state: String(actor.value), fields: actor.context }
  }

  stateOf(leaseId: string): string | undefined {
    return this.find(leaseId)?.state
  }

  fieldsOf(leaseId: string): ExecutionContext | undefined {
    return this.find(leaseId)?.fields
  }

  send(leaseId: string, event: ExecutionEvent): void {
    this.#system.send(EXECUTION, leaseId, event)
  }
}
