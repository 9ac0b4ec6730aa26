/**
 * RunEventLog appends events to the logs of runs. The next commit writes them.
 *
 * An event gets its index when it is appended, so the index never depends on the time of the write. Events are
 * published in order, and only after the commit that contains them is on disk.
 */
import type { EventLogs, Write } from '../../core/ports.ts'
import type { ReportedEvent, RunEvent } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { type EventAppend, EventLines, type EventPiece } from './event-lines.ts'

export interface RunEventLogPorts {
  readonly events: Pick<EventLogs, 'begin' | 'nextIndex' | 'storedBytes'>
  readonly requestCommit: () => void
  /** Called with the events of a run, as JSON lines, once they are on disk. */
  readonly publish: (runId: string, lines: Buffer) => void
  /** Called for each limit of an agent's vendor once it is on disk. */
  readonly onLimit: (limit: LimitEvent) => void
}

export type LimitEvent = Extract<RunEvent, { readonly type: 'limit' }>

interface PendingRunEvents {
  /** The JSON before the index of an event. */
  readonly head: string
  /** Index of the first event that no commit contains yet. */
  first: number
  /** How many commits with events of this run are in flight. */
  inFlight: number
  /** The events that no commit contains yet. */
  readonly lines: EventLines
  limits: LimitEvent[]
  /** Bytes of all events of the run, those that no commit contains yet included. */
  bytes: number
}

/** With more runs than this, idle ones are dropped from memory; the store knows their next index. */
const RUNS_KEPT_MAX = 4_096

export class RunEventLog implements CommitParticipant {
  readonly #ports: RunEventLogPorts
  readonly #pending = new Map<string, PendingRunEvents>()
  readonly #dirty = new Set<string>()

  constructor(ports: RunEventLogPorts) {
    this.#ports = ports
  }

  /** The log of a run whose id was made a moment ago is not looked for on disk. */
  begin(runId: string): void {
    this.#ports.events.begin(runId)
  }

  /** Appends an event, unless the run's log would become larger than `logBytesMax`. */
  append(runId: string, reported: ReportedEvent, logBytesMax = Number.POSITIVE_INFINITY): EventAppend {
    const pending = this.#pendingOf(runId)
    const index = pending.first + pending.lines.count
    const appended = pending.lines.append(
      `${pending.head}${index}`,
      JSON.stringify(reported),
      logBytesMax - pending.bytes,
    )
    if (!appended.isKept) return appended
    pending.bytes += appended.bytes
    if (reported.type === 'limit') pending.limits.push({ runId, index, ...reported })
    this.#dirty.add(runId)
    this.#ports.requestCommit()
    return appended
  }

  /** Appends a sentence of the service to the run's log. */
  appendText(runId: string, at: string, text: string): void {
    this.append(runId, { at, type: 'log', stream: 'system', text })
  }

  /** Bytes of all events of the run. */
  storedBytes(runId: string): number {
    return this.#pendingOf(runId).bytes
  }

  /** How many runs are in memory. */
  get size(): number {
    return this.#pending.size
  }

  contribute(): CommitContribution | undefined {
    if (this.#dirty.size === 0) return undefined
    const writes: Write[] = []
    const taken: {
      runId: string
      pending: PendingRunEvents
      pieces: readonly EventPiece[]
      limits: LimitEvent[]
    }[] = []
    for (const runId of this.#dirty) {
      const pending = this.#pending.get(runId)
      if (pending === undefined || pending.lines.count === 0) continue
      const { limits } = pending
      const pieces = pending.lines.take()
      for (const { lines, count } of pieces) {
        writes.push({ table: 'events', runId, first: pending.first, count, lines })
        pending.first += count
      }
      pending.inFlight += 1
      pending.limits = []
      taken.push({ runId, pending, pieces, limits })
    }
    this.#dirty.clear()
    return {
      writes,
      onCommitted: () => {
        for (const { runId, pending, pieces, limits } of taken) {
          pending.inFlight -= 1
          for (const limit of limits) this.#ports.onLimit(limit)
          for (const { lines } of pieces) this.#ports.publish(runId, lines)
        }
        this.#dropIdle()
      },
    }
  }

  #pendingOf(runId: string): PendingRunEvents {
    const known = this.#pending.get(runId)
    if (known !== undefined) return known
    const { events } = this.#ports
    const pending = {
      head: `{"runId":${JSON.stringify(runId)},"index":`,
      first: events.nextIndex(runId),
      inFlight: 0,
      lines: new EventLines(),
      limits: [],
      bytes: events.storedBytes(runId),
    }
    this.#pending.set(runId, pending)
    return pending
  }

  #dropIdle(): void {
    if (this.#pending.size <= RUNS_KEPT_MAX) return
    for (const [runId, pending] of this.#pending) {
      if (this.#pending.size <= RUNS_KEPT_MAX / 2) return
      if (pending.inFlight === 0 && pending.lines.count === 0) this.#pending.delete(runId)
    }
  }
}
