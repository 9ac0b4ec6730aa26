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
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import type { HostContext } from '../host-context.ts'
import type { RunContext } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { DurableTasks } from '../runtime/durable-tasks.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { Observations, TicketIntake } from './ticket-intake.ts'
import type { TrackerConnection } from './tracker-connection.ts'

interface TicketProgressParts {
  readonly intake: TicketIntake
  readonly connection: TrackerConnection
  readonly observations: Observations
  readonly notes: TicketNotes
}

export class TicketProgress {
  readonly #context: HostContext
  readonly #modules: Pick<ModuleViews, 'runs' | 'runRecords'>
  readonly #parts: TicketProgressParts

  constructor(
    context: HostContext,
    modules: Pick<ModuleViews, 'runs' | 'runRecords'>,
    parts: TicketProgressParts,
  ) {
    this.#context = context
    this.#modules = modules
    this.#parts = parts
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
    if (over) this.#parts.intake.onRunEnded(run)
  }

  /** The record of a run without an actor has changed: perhaps its actor was given up, and the run has failed. */
  onFinishedRunChange(run: Run): void {
    const { status, id, ticket } = run
    const active = this.#modules.runs.activeRunOf(ticket.id)
    if (status === 'failed' && (active === undefined || active === id)) this.#release(run)
  }

  /** The code host confirmed that the pull request is the run's. */
  onPullConfirmed({ prUrl, ticket }: Run): void {
    if (prUrl !== undefined && this.#parts.connection.linksPulls)
      this.#parts.notes.links.addLink(ticket, prUrl)
  }

  /** The pull request of a finished run, or of a follow-up, was merged. A new run of the ticket decides at its end. */
  onPullMerged({ id, ticket }: Run): void {
    const { doneState } = this.#context.config().tracker
    const active = this.#modules.runs.activeRunOf(ticket.id)
    if (doneState === undefined || (active !== undefined && active !== id)) return
    this.#parts.intake.moveTicket(ticket.id, doneState, { isDone: true })
  }

  #followRun(run: Run): void {
    const step = nextTicketStep(run)
    if (step === undefined) return
    if (step === 'released') {
      const { connection, notes } = this.#parts
      if (changedNothing(run) && connection.hasComments) notes.comments.addUnchanged(run)
      this.#release(run)
      return
    }
    const { intake, observations } = this.#parts
    if (step !== 'started') {
      const known = observations.get(run.ticket.id)
      if (known !== undefined) this.#endHold(run, known)
    }
    const state = stateOfStep(step, this.#context.config().tracker)
    if (state === undefined) return
    // A run that starts again takes the ticket from where a person has put it since.
    if (step === 'started') this.#hold(run)
    intake.moveTicket(run.ticket.id, state)
  }

  // ---- held tickets ------------------------------------------------------------------------------------------------

  #hold(run: Run): void {
    const { observations } = this.#parts
    const { tracker } = this.#context.config()
    if (!holdsTickets(tracker)) return
    const known = observations.get(run.ticket.id)
    const held = known === undefined ? undefined : holdTicket(known, run, tracker)
    if (held !== undefined && held !== known) observations.set(run.ticket.id, held)
  }

  #endHold({ ticket }: Run, known: TicketObservation): void {
    const free = endHold(known)
    if (free !== known) this.#parts.observations.set(ticket.id, free)
  }

  #release(run: Run): void {
    const { config, instant } = this.#context
    const { intake, observations } = this.#parts
    const { id, identifier } = run.ticket
    const known = observations.get(id)
    if (known === undefined) return
    const release = releaseTicket(known, run, config().tracker)
    this.#endHold(run, known)
    if (release === undefined || isSameName(release.state, known.state)) return
    if (run.status === 'completed')
      this.#modules.runRecords.eventLog.appendText(
        run.id,
        instant(),
        unchangedRunText(identifier, release.state),
      )
    intake.moveTicket(id, release.state, { only: release.from })
  }
}

const isMerge = (before: Run, after: Run): boolean =>
  before.prState !== 'merged' && after.prState === 'merged'

// ---- notes on tickets --------------------------------------------------------------------------------------------

/**
 * Ticket notes are the links to pull requests, and the comments that a run has changed nothing.
 *
 * Each note is a durable task, so a restart or an outage of the tracker loses none. Linking or commenting twice has the
 * effect of doing it once.
 */
export class TicketNotes {
  readonly links: PullRequestLinks
  readonly comments: TicketComments

  constructor(context: HostContext, connection: TrackerConnection) {
    this.links = new PullRequestLinks(context, connection)
    this.comments = new TicketComments(context, connection)
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
  constructor(context: HostContext, connection: TrackerConnection) {
    super({
      ...context,
      keyValues: context.store.database.keyValues,
      ...ATTEMPTS,
      prefix: 'link/',
      attempt: (_, { ticketId, url, title }) =>
        connection.ask(
          async (tracker) => (await tracker.linkPull?.(ticketId, { url, title })) ?? yes(undefined),
        ),
      onGivenUp: (_, { ticketId, url }, reason) =>
        context.log.warn({ ticketId, url, reason }, 'linking a pull request in its ticket failed for good'),
    })
  }

  addLink({ id, title }: Ticket, url: string): void {
    this.add(id, { ticketId: id, url, title: `Pull request: ${title}`.slice(0, TEXT_CHARS_MAX) })
  }
}

class TicketComments extends DurableTasks<TicketCommentTask> {
  constructor(context: HostContext, connection: TrackerConnection) {
    super({
      ...context,
      keyValues: context.store.database.keyValues,
      ...ATTEMPTS,
      prefix: 'comment/',
      attempt: (_, { ticketId, key, text }) =>
        connection.ask(
          async (tracker) => (await tracker.comment?.(ticketId, { key, text })) ?? yes(undefined),
        ),
      onGivenUp: (runId, { ticketId }, reason) =>
        context.log.warn({ ticketId, runId, reason }, 'a comment on a ticket failed for good'),
    })
  }

  addUnchanged({ id, ticket }: Run): void {
    this.add(id, { ticketId: ticket.id, key: id, text: unchangedRunComment(id) })
  }
}
