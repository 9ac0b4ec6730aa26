/**
 * TicketEdits sends a run its ticket as the tracker lists it now, while the run follows it (`core/run/follow-ticket.ts`).
 *
 * The check costs one run each: for a ticket that the listing names as changed, and for a run that has changed itself,
 * because its ticket may have been edited while a worker had the run.
 */
import { followTicket, mayFollowTicket } from '../../core/run/follow-ticket.ts'
import type { RunContext, RunMachineEvent } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { RunManager } from '../runs/run-manager.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { TicketIntake } from './ticket-intake.ts'

export interface TicketEditsPorts {
  readonly system: Pick<ActorSystem, 'peek' | 'send'>
  readonly runs: Pick<RunManager, 'activeRunOf'>
  readonly intake: Pick<TicketIntake, 'currentTicket'>
}

export class TicketEdits {
  readonly #ports: TicketEditsPorts

  constructor(ports: TicketEditsPorts) {
    this.#ports = ports
  }

  /** @param ticketIds may hold other names too */
  onTicketsChanged(ticketIds: Iterable<string>): void {
    const { system, runs } = this.#ports
    for (const ticketId of ticketIds) {
      const runId = runs.activeRunOf(ticketId)
      const snapshot = runId === undefined ? undefined : system.peek(RUN, runId)
      if (runId !== undefined && snapshot !== undefined) this.#check(runId, snapshot.context as RunContext)
    }
  }

  onRunChange({ key, after, over }: StateChange): void {
    if (!over) this.#check(key, after.context as RunContext)
  }

  #check(runId: string, context: RunContext): void {
    if (!mayFollowTicket(context)) return
    const ticket = this.#ports.intake.currentTicket(context.run.ticket)
    if (followTicket(context.run, ticket) === context.run) return
    const event: RunMachineEvent = { type: 'ticket edited', ticket }
    this.#ports.system.send(RUN, runId, event)
  }
}
