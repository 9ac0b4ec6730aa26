/** The tracker module polls tickets, queues runs for them, and carries what runs do back to the tracker. */
import { followTicket, mayFollowTicket } from '../../core/run/edited-ticket.ts'
import { describeTrackerDisconnection } from '../../core/settings/credential-origins.ts'
import type { TicketObservation } from '../../core/tickets/run-progress.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { defineHostModule, type HostChange, type HostContext } from '../host-context.ts'
import { RUN, type RunContext } from '../runs/run.machine.ts'
import type { RunManager } from '../runs/run-manager.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { effectHandlers, observeKind } from '../runtime/module.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'
import { TICKETS_PER_TURN, TicketBacklog } from './ticket-backlog.ts'
import { TicketIntake, type TicketsChange } from './ticket-intake.ts'
import { TicketNotes, TicketProgress } from './ticket-progress.ts'
import {
  TRACKER_CONNECTION,
  type TrackerConnectionContext,
  type TrackerConnectionEffect,
  trackerConnectionKind,
} from './tracker-connection.machine.ts'
import { TrackerConnection, trackerStatusOf } from './tracker-connection.ts'
import { TRACKER_POLL, type TrackerPollEffect, trackerPollKind } from './tracker-poll.machine.ts'

export interface TrackerView {
  readonly connection: TrackerConnection
  readonly intake: TicketIntake
  status(): TrackerStatus
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly tracker: TrackerView
  }
}

/** The observation of a ticket is read several times while its run ends. */
const openObservations = (ports: StoredCollectionPorts) =>
  new StoredCollection<TicketObservation>('ticket', ports, { keepsValues: true })

export const trackerModule = defineHostModule({
  name: 'tracker',
  kinds: [trackerPollKind, trackerConnectionKind],
  create(context, { settings, runRecords, runs }) {
    const { keyValues } = context.store.database
    const connection = new TrackerConnection(context, settings, (tracker, isAnother) =>
      intake.onTrackerReplaced(tracker, isAnother),
    )
    const observations = openObservations({ ...context, keyValues })
    const intake = new TicketIntake(context, runs, {
      connection,
      observations,
      onTicketsChanged: (change) => applyTicketsChange(context, { intake, edits }, change),
    })
    const edits: TicketEdits = new TicketEdits(context, runs, intake)
    const reporter = new TrackerStatusReporter(context, intake)
    const notes = new TicketNotes(context, connection)
    const progress = new TicketProgress(
      context,
      { runs, runRecords },
      { intake, connection, observations, notes },
    )
    return {
      view: { connection, intake, status: () => reporter.current() },
      effects: effectHandlers<TrackerPollEffect | TrackerConnectionEffect>({
        intake: (effect) => intake.runEffect(effect),
        tracker: (effect) => connection.runEffect(effect),
      }),
      participants: [observations, intake.moves, notes.links, notes.comments],
      onStateChange: [
        observeKind(RUN, (change) => applyRunChange(change, { progress, intake, edits })),
        observeKind(TRACKER_CONNECTION, ({ before, after }) => {
          connection.onStateChange(after.value)
          if (before !== undefined) reporter.onConnectionChange(before, after)
        }),
      ],
      onViewChange: (change) => applyRunView(change, { progress, intake, runs }),
      onRestored: () => intake.moves.restore(),
      start() {
        connection.onConfigChange()
        notes.start()
      },
      drain: () => connection.refreshSettled(),
      stop() {
        connection.stop()
        notes.stop()
        intake.stop()
        edits.stop()
      },
      onConfigChange() {
        connection.onConfigChange()
        intake.onConfigChange()
      },
      sizes: () => ({ pullLinks: notes.links.size, ticketComments: notes.comments.size }),
    }
  },
})

// ---- changes of runs and tickets ---------------------------------------------------------------------------------

interface RunObservers {
  readonly progress: TicketProgress
  readonly intake: TicketIntake
  readonly edits: TicketEdits
}

function applyRunChange(change: StateChange<RunContext>, { progress, intake, edits }: RunObservers): void {
  const { ticket } = change.after.context.run
  if (change.before === undefined && !change.restored) intake.onRunCreated(ticket.id)
  progress.onRunChange(change)
  edits.onRunChange(change)
  if (change.over) intake.onRunOver(ticket.id)
}

interface RunViewReaders {
  readonly progress: TicketProgress
  readonly intake: TicketIntake
  readonly runs: RunManager
}

function applyRunView(change: HostChange, { progress, intake, runs }: RunViewReaders): void {
  if (change.view !== 'pull confirmed' && change.view !== 'pull merged' && change.view !== 'finished run')
    return
  const run = runs.latest(change.key)
  if (run === undefined) return
  if (change.view === 'pull confirmed') progress.onPullConfirmed(run)
  else if (change.view === 'pull merged') progress.onPullMerged(run)
  else {
    progress.onFinishedRunChange(run)
    intake.onRunOver(run.ticket.id)
  }
}

/** The runs follow first, so that what is published is judged by their new records. */
function applyTicketsChange(
  { broadcast, publish }: HostContext,
  { intake, edits }: Pick<RunObservers, 'intake' | 'edits'>,
  { names, isEligibleChanged }: TicketsChange,
): void {
  edits.onTicketsChanged(names)
  if (isEligibleChanged) broadcast.send({ type: 'tickets', tickets: intake.shownTickets() })
  publish({ view: 'tickets', keys: names })
}

// ---- the status of the tracker -----------------------------------------------------------------------------------

type StateSnapshot = Pick<StateChange['after'], 'value' | 'context'>

/**
 * TrackerStatusReporter returns the tracker's status as people see it, and publishes it to dashboards.
 *
 * Dashboards receive a status when the connection changes. A poll alone changes only times and counts, which they ask
 * for.
 */
class TrackerStatusReporter {
  readonly #context: HostContext
  readonly #intake: TicketIntake

  constructor(context: HostContext, intake: TicketIntake) {
    this.#context = context
    this.#intake = intake
  }

  current(): TrackerStatus {
    const actor = this.#context.system.peek(TRACKER_CONNECTION, TRACKER_CONNECTION)
    return actor === undefined ? { state: 'disconnected' } : this.#statusOf(actor)
  }

  onConnectionChange(before: StateSnapshot, after: StateSnapshot): void {
    const [known, status] = [this.#statusOf(before), this.#statusOf(after)]
    if (known.state !== status.state || known.error !== status.error)
      this.#context.broadcast.send({ type: 'linear-status', linearStatus: status })
  }

  #statusOf({ value, context }: StateSnapshot): TrackerStatus {
    const { system, clock } = this.#context
    const { lastPollAt, nextPollInMs, seen, eligible } = this.#intake.pollRecord()
    const isWaiting = system.peek(TRACKER_POLL, TRACKER_POLL)?.value === 'waiting'
    const status = trackerStatusOf(value, context as TrackerConnectionContext)
    const reason =
      status.state === 'disconnected'
        ? describeTrackerDisconnection(this.#context.currentConfig.disconnected)
        : undefined
    return {
      ...status,
      ...(reason === undefined ? {} : { error: reason }),
      ...(lastPollAt === undefined ? {} : { lastPollAt: instant(lastPollAt), seen, eligible }),
      ...(nextPollInMs === undefined || !isWaiting
        ? {}
        : { nextPollAt: instant(clock.now() + nextPollInMs) }),
    }
  }
}

const instant = (ms: number): string => new Date(ms).toISOString()

// ---- edited tickets ----------------------------------------------------------------------------------------------

/**
 * TicketEdits sends a run its ticket as the tracker lists it now, while the run follows it (`core/run/edited-ticket.ts`).
 *
 * The check costs one run each: for a ticket that the listing names as changed, and for a run that has changed itself,
 * because its ticket may have been edited while a worker had the run. Many edits are sent in several turns.
 */
export class TicketEdits {
  readonly #context: HostContext
  readonly #runs: RunManager
  readonly #intake: TicketIntake
  readonly #backlog: TicketBacklog

  constructor(context: HostContext, runs: RunManager, intake: TicketIntake) {
    this.#context = context
    this.#runs = runs
    this.#intake = intake
    this.#backlog = new TicketBacklog(context.clock, (ids) => this.#checkTickets(ids))
  }

  stop(): void {
    this.#backlog.stop()
  }

  /** @param names ids of tickets, and other names */
  onTicketsChanged(names: Iterable<string>): void {
    const ids = [...names].filter((name) => this.#runs.activeRunOf(name) !== undefined)
    this.#checkTickets(ids.slice(0, TICKETS_PER_TURN))
    if (ids.length > TICKETS_PER_TURN) this.#backlog.add(ids.slice(TICKETS_PER_TURN))
  }

  onRunChange({ key, after, over }: StateChange<RunContext>): void {
    if (!over) this.#check(key, after.context)
  }

  #checkTickets(ticketIds: readonly string[]): void {
    const { system } = this.#context
    for (const ticketId of ticketIds) {
      const runId = this.#runs.activeRunOf(ticketId)
      const snapshot = runId === undefined ? undefined : system.peek(RUN, runId)
      if (runId !== undefined && snapshot !== undefined) this.#check(runId, snapshot.context)
    }
  }

  #check(runId: string, context: RunContext): void {
    if (!mayFollowTicket(context)) return
    const ticket = this.#intake.currentTicket(context.run.ticket)
    if (followTicket(context.run, ticket) === context.run) return
    this.#context.system.send(RUN, runId, { type: 'ticket edited', ticket })
  }
}
