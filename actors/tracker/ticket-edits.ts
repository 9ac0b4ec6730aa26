/**
 * TicketEdits sends a run its ticket as the tracker lists it now, while the run follows it (`core/run/follow-ticket.ts`).
 *
 * The check costs one run each: for a ticket that the listing names as changed, and for a run that has changed itself,
 * because its ticket may have been edited while a worker had the run. Many edits are sent in several turns.
 */
import type { Clock } from '../../core/ports.ts'
import { followTicket, mayFollowTicket } from '../../core/run/follow-ticket.ts'
import type { RunContext, RunMachineEvent } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { RunManager } from '../runs/run-manager.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import { TICKETS_PER_TURN, TicketBacklog } from './ticket-backlog.ts'
import type { TicketIntake } from './ticket-intake.ts'

export interface TicketEditsPorts {
  readonly system: Pick<ActorSystem, 'peek' | 'send'>
  readonly runs: Pick<RunManager, 'activeRunOf'>
  readonly intake: Pick<TicketIntake, 'currentTicket'>
  readonly clock: Pick<Clock, 'after'>
}

export class TicketEdits {
  readonly #ports: TicketEditsPorts
  readonly #backlog: TicketBacklog

  constructor(ports: TicketEditsPorts) {
    this.#ports = ports
    this.#backlog = new TicketBacklog({ clock: ports.clock, handle: (ids) => this.#checkTickets(ids) })
  }

  stop(): void {
    this.#backlog.stop()
  }

  /** @param names ids of tickets, and other names */
  onTicketsChanged(names: Iterable<string>): void {
    const ids = [...names].filter((name) => this.#ports.runs.activeRunOf(name) !== undefined)
    this.#checkTickets(ids.slice(0, TICKETS_PER_TURN))
    if (ids.length > TICKETS_PER_TURN) this.#backlog.add(ids.slice(TICKETS_PER_TURN))
  }

  #checkTickets(ticketIds: readonly string[]): void {
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
