/** The tracker module polls tickets, queues runs for them, and carries what runs do back to the tracker. */
import type { TicketObservation } from '../../core/tickets/run-trigger.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { RunManager } from '../runs/run-manager.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { effectHandlers, type ViewChange } from '../runtime/module.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'
import { PullRequestLinks } from './pull-request-links.ts'
import { TicketEdits } from './ticket-edits.ts'
import { TicketIntake, type TicketsChange } from './ticket-intake.ts'
import { TicketProgress } from './ticket-progress.ts'
import {
  TRACKER_CONNECTION,
  type TrackerConnectionEffect,
  trackerConnectionKind,
} from './tracker-connection.machine.ts'
import { TrackerConnection } from './tracker-connection.ts'
import { TRACKER_POLL, type TrackerPollEffect, trackerPollKind } from './tracker-poll.machine.ts'
import { TrackerStatusReporter } from './tracker-status.ts'

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
    const { system, store, accounts, config, instant } = context
    const { keyValues } = store.database
    const connection: TrackerConnection = new TrackerConnection({
      ...context,
      refresh: (config, token) => accounts.refreshTrackerToken(config, token),
      save: settings.saveCredentials,
      sendEvent: (event) => void system.send(TRACKER_CONNECTION, TRACKER_CONNECTION, event),
      onTrackerReplaced: (tracker, isAnother) => intake.onTrackerReplaced(tracker, isAnother),
    })
    const observations = openObservations({ ...context, keyValues })
    const intake: TicketIntake = new TicketIntake({
      ...context,
      keyValues,
      observations,
      trackerConnection: connection,
      sendEvent: (event) => void system.send(TRACKER_POLL, TRACKER_POLL, event),
      runs,
      onTicketsChanged: (change) => applyTicketsChange(context, { intake, edits }, change),
    })
    const edits = new TicketEdits({ system, runs, intake, clock: context.clock })
    const reporter = new TrackerStatusReporter({ ...context, pollRecord: () => intake.pollRecord() })
    const pullRequestLinks = new PullRequestLinks({
      ...context,
      keyValues,
      ask: (request) => connection.ask(request),
    })
    const progress = new TicketProgress({
      config,
      intake,
      observations,
      runs,
      trackerConnection: connection,
      pullRequestLinks,
      appendToRunLog: (runId, text) => runRecords.eventLog.appendText(runId, instant(), text),
    })
    return {
      view: { connection, intake, status: () => reporter.current() },
      effects: effectHandlers<TrackerPollEffect | TrackerConnectionEffect>({
        intake: (effect) => intake.runEffect(effect),
        tracker: (effect) => connection.runEffect(effect),
      }),
      participants: [observations, intake.moves, pullRequestLinks],
      onStateChange: {
        [RUN]: (change) => applyRunChange(change, { progress, intake, edits }),
        [TRACKER_CONNECTION]({ before, after }) {
          connection.onStateChange(after.value)
          if (before !== undefined) reporter.onConnectionChange(before, after)
        },
      },
      onViewChange: (change) => applyRunView(change, { progress, intake, runs }),
      onRestored: () => intake.moves.restore(),
      start() {
        connection.onConfigChange()
        pullRequestLinks.start()
      },
      drain: () => connection.refreshSettled(),
      stop() {
        connection.stop()
        pullRequestLinks.stop()
        intake.stop()
        edits.stop()
      },
      onConfigChange() {
        connection.onConfigChange()
        intake.onConfigChange()
      },
      sizes: () => ({ pullLinks: pullRequestLinks.size }),
    }
  },
})

interface RunObservers {
  readonly progress: TicketProgress
  readonly intake: TicketIntake
  readonly edits: TicketEdits
}

function applyRunChange(change: StateChange, { progress, intake, edits }: RunObservers): void {
  const { ticket } = (change.after.context as RunContext).run
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

function applyRunView({ view, key = '' }: ViewChange, { progress, intake, runs }: RunViewReaders): void {
  if (view !== 'pull confirmed' && view !== 'pull merged' && view !== 'finished run') return
  const run = runs.latest(key)
  if (run === undefined) return
  if (view === 'pull confirmed') progress.onPullConfirmed(run)
  else if (view === 'pull merged') progress.onPullMerged(run)
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
