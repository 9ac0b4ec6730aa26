/** The executions that there are, as their host sees them now: state and fields, be they on disk or not yet. */
import type { ActorSystem } from '../runtime/actor-system.ts'
import { EXECUTION } from './daemon.names.ts'
import type { ExecutionContext, ExecutionEvent } from './execution.machine.ts'

export interface SeenExecution {
  readonly state: string
  readonly fields: ExecutionContext
}

export class Lives {
  readonly #system: ActorSystem

  constructor(system: ActorSystem) {
    this.#system = system
  }

  all(): SeenExecution[] {
    return [...this.#system.keys(EXECUTION)].flatMap((leaseId) => this.one(leaseId) ?? [])
  }

  one(leaseId: string): SeenExecution | undefined {
    const life = this.#system.peek(EXECUTION, leaseId)
    return life === undefined
      ? undefined
      : { state: String(life.value), fields: life.context as ExecutionContext }
  }

  stateOf(leaseId: string): string | undefined {
    return this.one(leaseId)?.state
  }

  fieldsOf(leaseId: string): ExecutionContext | undefined {
    return this.one(leaseId)?.fields
  }

  tell(leaseId: string, event: ExecutionEvent): void {
    this.#system.send(EXECUTION, leaseId, event)
  }
}
