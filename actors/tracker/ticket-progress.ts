/**
 * Ticket progress carries what a run does back to its ticket: the state that work has begun, is up for review, is merged
 * or was given up, the link to the pull request, that nothing was changed, and the instant at which the run ended. A
 * follow-up leaves its ticket alone.
 */
import type { PullLink, TicketComment } from '../../core/ports/tracker.ts'
import { type RefusalKind, yes } from '../../core/result.ts'
import { isSameName } from '../../core/tickets/names.ts'
import {
  endHold,
  holdsTickets,
  holdTicket,
  nextTicketStep,
  releaseTicket,
  stateOfStep,
  type TicketObservation,
  unchangedRunComment,
  unchangedRunText,
} from '../../core/tickets/run-progress.ts'
import { changedNothing } from '../../protocol/changed-nothing.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { RunContext } from '../runs/run.machine.ts'
import type { RunManager } from '../runs/run-manager.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { type DurableTaskPorts, DurableTasks } from '../runtime/durable-tasks.ts'
import type { StoredCollection } from '../runtime/stored-collection.ts'
import type { TicketIntake } from './ticket-intake.ts'
import type { TrackerConnection } from './tracker-connection.ts'

export interface TicketProgressPorts {
  readonly config: () => ServiceConfig
  readonly intake: Pick<TicketIntake, 'moveTicket' | 'onRunEnded'>
  readonly observations: StoredCollection<TicketObservation>
  readonly runs: Pick<RunManager, 'activeRunOf'>
  readonly trackerConnection: Pick<TrackerConnection, 'linksPulls' | 'hasComments'>
  readonly notes: TicketNotes
  readonly appendToRunLog: (runId: string, text: string) => void
}

export class TicketProgress {
  readonly #ports: TicketProgressPorts

  constructor(ports: TicketProgressPorts) {
    this.#ports = ports
  }

  onRunChange({ before, after, over, restored }: StateChange<RunContext>): void {
    const { run, job } = after.context
    const runBefore = before?.context.run
    if (job !== 'run') {
      if (runBefore !== undefined && isMerge(runBefore, run)) this.onPullMerged(run)
      return
    }
    if (runBefore === undefined && !restored) this.#hold(run)
    if (!restored && run.status !== runBefore?.status) this.#followRun(run)
    if (over) this.#ports.intake.onRunEnded(run)
  }

  /** The record of a run without an actor has changed: perhaps its actor was given up, and the run has failed. */
  onFinishedRunChange(run: Run): void {
    const { status, id, ticket } = run
    const active = this.#ports.runs.activeRunOf(ticket.id)
    if (status === 'failed' && (active === undefined || active === id)) this.#release(run)
  }

  /** The code host confirmed that the pull request is the run's. */
  onPullConfirmed({ prUrl, ticket }: Run): void {
    if (prUrl !== undefined && this.#ports.trackerConnection.linksPulls)
      this.#ports.notes.links.addLink(ticket, prUrl)
  }

  /** The pull request of a finished run, or of a follow-up, was merged. A new run of the ticket decides at its end. */
  onPullMerged({ id, ticket }: Run): void {
    const { config, intake, runs } = this.#ports
    const { doneState } = config().tracker
    const active = runs.activeRunOf(ticket.id)
    if (doneState === undefined || (active !== undefined && active !== id)) return
    intake.moveTicket(ticket.id, doneState, { isDone: true })
  }

  #followRun(run: Run): void {
    const step = nextTicketStep(run)
    if (step === undefined) return
    if (step === 'released') {
      const { trackerConnection, notes } = this.#ports
      if (changedNothing(run) && trackerConnection.hasComments) notes.comments.addUnchanged(run)
      this.#release(run)
      return
    }
    const { config, intake, observations } = this.#ports
    if (step !== 'started') {
      const known = observations.get(run.ticket.id)
      if (known !== undefined) this.#endHold(run, known)
    }
    const state = stateOfStep(step, config().tracker)
    if (state === undefined) return
    // A run that starts again takes the ticket from where a person has put it since.
    if (step === 'started') this.#hold(run)
    intake.moveTicket(run.ticket.id, state)
  }

  // ---- held tickets ------------------------------------------------------------------------------------------------

  #hold(run: Run): void {
    const { observations, config } = this.#ports
    const { tracker } = config()
    if (!holdsTickets(tracker)) return
    const known = observations.get(run.ticket.id)
    const held = known === undefined ? undefined : holdTicket(known, run, tracker)
    if (held !== undefined && held !== known) observations.set(run.ticket.id, held)
  }

  #endHold({ ticket }: Run, known: TicketObservation): void {
    const free = endHold(known)
    if (free !== known) this.#ports.observations.set(ticket.id, free)
  }

  #release(run: Run): void {
    const { config, intake, observations, appendToRunLog } = this.#ports
    const { id, identifier } = run.ticket
    const known = observations.get(id)
    if (known === undefined) return
    const release = releaseTicket(known, run, config().tracker)
    this.#endHold(run, known)
    if (release === undefined || isSameName(release.state, known.state)) return
    if (run.status === 'completed') appendToRunLog(run.id, unchangedRunText(identifier, release.state))
    intake.moveTicket(id, release.state, { only: release.from })
  }
}

const isMerge = (before: Run, after: Run): boolean =>
  before.prState !== 'merged' && after.prState === 'merged'

// ---- notes on tickets --------------------------------------------------------------------------------------------

interface TicketNotePorts<T extends object>
  extends Pick<DurableTaskPorts<T>, 'clock' | 'random' | 'log' | 'keyValues' | 'requestCommit'> {
  readonly ask: TrackerConnection['ask']
}

/**
 * Ticket notes are the links to pull requests, and the comments that a run has changed nothing.
 *
 * Each note is a durable task, so a restart or an outage of the tracker loses none. Linking or commenting twice has the
 * effect of doing it once.
 */
export class TicketNotes {
  readonly links: PullRequestLinks
  readonly comments: TicketComments

  constructor(ports: TicketNotePorts<object>) {
    this.links = new PullRequestLinks(ports)
    this.comments = new TicketComments(ports)
  }

  start(): void {
    this.links.start()
    this.comments.start()
  }

  stop(): void {
    this.links.stop()
    this.comments.stop()
  }
}

interface PullRequestLinkTask extends PullLink {
  readonly ticketId: string
}

interface TicketCommentTask extends TicketComment {
  readonly ticketId: string
}

const ATTEMPTS = {
  attemptsMax: 50,
  /** These refusals do not count as attempts: days may pass before a person connects the tracker again. */
  unreachableKinds: new Set<RefusalKind>(['unavailable', 'unauthorized']),
}

class PullRequestLinks extends DurableTasks<PullRequestLinkTask> {
  constructor(ports: TicketNotePorts<PullRequestLinkTask>) {
    super({
      ...ports,
      ...ATTEMPTS,
      prefix: 'link/',
      attempt: (_, { ticketId, url, title }) =>
        ports.ask(async (tracker) => (await tracker.linkPull?.(ticketId, { url, title })) ?? yes(undefined)),
      onGivenUp: (_, { ticketId, url }, reason) =>
        ports.log.warn({ ticketId, url, reason }, 'linking a pull request in its ticket failed for good'),
    })
  }

  addLink({ id, title }: Ticket, url: string): void {
    this.add(id, { ticketId: id, url, title: `Pull request: ${title}`.slice(0, TEXT_CHARS_MAX) })
  }
}

class TicketComments extends DurableTasks<TicketCommentTask> {
  constructor(ports: TicketNotePorts<TicketCommentTask>) {
    super({
      ...ports,
      ...ATTEMPTS,
      prefix: 'comment/',
      attempt: (_, { ticketId, key, text }) =>
        ports.ask(async (tracker) => (await tracker.comment?.(ticketId, { key, text })) ?? yes(undefined)),
      onGivenUp: (runId, { ticketId }, reason) =>
        ports.log.warn({ ticketId, runId, reason }, 'a comment on a ticket failed for good'),
    })
  }

  addUnchanged({ id, ticket }: Run): void {
    this.add(id, { ticketId: ticket.id, key: id, text: unchangedRunComment(id) })
  }
}
