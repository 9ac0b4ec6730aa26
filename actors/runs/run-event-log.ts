/**
 * RunEventLog appends events to the logs of runs. The next commit writes them.
 *
 * An event gets its index when it is appended, so the index never depends on the time of the write. Events are
 * published in order, and only after the commit that contains them is on disk.
 */
import { extend } from '../../core/extend.ts'
import type { EventLogs, Write } from '../../core/ports.ts'
import type { ReportedEvent, RunEvent } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface RunEventLogPorts {
  readonly events: Pick<EventLogs, 'nextIndex' | 'storedBytes'>
  readonly requestCommit: () => void
  /** Called for each event once it is on disk, with its JSON. */
  readonly publish: (event: RunEvent, json: string) => void
}

interface PendingRunEvents {
  /** Index of the first event that no commit contains yet. */
  first: number
  /** How many commits with events of this run are in flight. */
  inFlight: number
  events: RunEvent[]
  lines: string[]
  /** Bytes of all events of the run, those that no commit contains yet included. */
  bytes: number
}

export interface EventAppend {
  /** False when the event would exceed the limit, and was left out. */
  readonly isKept: boolean
  readonly bytes: number
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

  /** Appends an event, unless the run's log would become larger than `logBytesMax`. */
  append(runId: string, reported: ReportedEvent, logBytesMax = Number.POSITIVE_INFINITY): EventAppend {
    const pending = this.#pendingOf(runId)
    const index = pending.first + pending.events.length
    const { at, type } = reported
    const event = extend({ runId, index, at, type }, reported) as RunEvent
    const json = JSON.stringify(event)
    const bytes = Buffer.byteLength(json) + 1
    if (pending.bytes + bytes > logBytesMax) return { isKept: false, bytes }
    pending.bytes += bytes
    pending.events.push(event)
    pending.lines.push(json)
    this.#dirty.add(runId)
    this.#ports.requestCommit()
    return { isKept: true, bytes }
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
    const taken: { runId: string; pending: PendingRunEvents; events: RunEvent[]; lines: string[] }[] = []
    for (const runId of this.#dirty) {
      const pending = this.#pending.get(runId)
      if (pending === undefined || pending.events.length === 0) continue
      const { events, lines, first } = pending
      writes.push({ table: 'events', runId, first, count: events.length, lines: `${lines.join('\n')}\n` })
      pending.first += events.length
      pending.inFlight += 1
      pending.events = []
      pending.lines = []
      taken.push({ runId, pending, events, lines })
    }
    this.#dirty.clear()
    return {
      writes,
      onCommitted: () => {
        for (const { pending, events, lines } of taken) {
          pending.inFlight -= 1
          for (let index = 0; index < events.length; index++)
            this.#ports.publish(events[index] as RunEvent, lines[index] as string)
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
      first: events.nextIndex(runId),
      inFlight: 0,
      events: [],
      lines: [],
      bytes: events.storedBytes(runId),
    }
    this.#pending.set(runId, pending)
    return pending
  }

  #dropIdle(): void {
    if (this.#pending.size <= RUNS_KEPT_MAX) return
    for (const [runId, pending] of this.#pending) {
      if (this.#pending.size <= RUNS_KEPT_MAX / 2) return
      if (pending.inFlight === 0 && pending.events.length === 0) this.#pending.delete(runId)
    }
  }
}
