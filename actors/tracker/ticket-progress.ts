/**
 * Ticket progress carries what a run does back to its ticket: the state that work has begun or is up for review, the
 * link to the pull request, and the instant at which the run ended. A follow-up leaves its ticket alone.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { Run } from '../../protocol/run.ts'
import type { RunContext } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { PullRequestLinks } from './pull-request-links.ts'
import type { TicketIntake } from './ticket-intake.ts'
import type { TrackerConnection } from './tracker-connection.ts'

export interface TicketProgressPorts {
  readonly config: () => ServiceConfig
  readonly intake: TicketIntake
  readonly trackerConnection: TrackerConnection
  readonly pullRequestLinks: PullRequestLinks
}

export class TicketProgress {
  readonly #ports: TicketProgressPorts

  constructor(ports: TicketProgressPorts) {
    this.#ports = ports
  }

  onRunChange({ before, after, over, restored }: StateChange): void {
    const { run, job } = after.context as RunContext
    if (job !== 'run') return
    const runBefore = (before?.context as RunContext | undefined)?.run
    if (!restored && run.status !== runBefore?.status) this.#moveTicket(run)
    if (over) this.#ports.intake.onRunEnded(run)
  }

  /** The code host confirmed that the pull request is the run's. */
  onPullConfirmed({ prUrl, ticket }: Run): void {
    if (prUrl !== undefined && this.#ports.trackerConnection.linksPulls)
      this.#ports.pullRequestLinks.addLink(ticket, prUrl)
  }

  #moveTicket({ status, ticket }: Run): void {
    const { startedState, reviewState } = this.#ports.config().tracker
    const state = status === 'preparing' ? startedState : status === 'completed' ? reviewState : undefined
    if (state !== undefined) this.#ports.intake.moveTicket(ticket.id, state)
  }
}
