/**
 * RunEventLog appends events to the logs of runs. The next commit writes them.
 *
 * An event gets its index when it is appended, so the index never depends on the time of the write. Events are
 * published in order, and only after the commit that contains them is on disk.
 */
import type { EventLogs, Write } from '../../core/ports/store.ts'
import type { ReportedEvent, RunEvent } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

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

// ---- events as lines ---------------------------------------------------------------------------------------------

export interface EventAppend {
  /** False when the event would exceed the limit, and was left out. */
  readonly isKept: boolean
  readonly bytes: number
}

const EMPTY = Buffer.alloc(0)
const [NEWLINE, COMMA] = ['\n', ','].map((text) => text.charCodeAt(0)) as [number, number]
const UTF8_BYTES_PER_UNIT_MAX = 3
/** Many lines are several pieces of this size: one buffer that grows would be copied again and again. */
const PIECE_BYTES = 64 * 1024

/** Some of the lines, in their order. */
export interface EventPiece {
  readonly lines: Buffer
  readonly count: number
}

/**
 * EventLines holds events of one run as JSON lines, in the bytes that the store writes.
 *
 * Ten thousand events may wait for one commit. As objects and strings each of them would be copied by several garbage
 * collections, which cost more than reading them; bytes are outside of the collected memory.
 */
export class EventLines {
  #pieces: EventPiece[] = []
  /** The lines in `#pieces`. */
  #pieceLines = 0
  #bytes = EMPTY
  #used = 0
  #lines = 0

  get count(): number {
    return this.#pieceLines + this.#lines
  }

  /**
   * Appends a line, unless it would be longer than `bytesMax`. `head`: the first fields of the event, without the end of
   * an object. `rest`: an object with the other fields.
   */
  append(head: string, rest: string, bytesMax: number): EventAppend {
    const bytesAtMost = (head.length + rest.length) * UTF8_BYTES_PER_UNIT_MAX + 1
    if (this.#used + bytesAtMost > this.#bytes.length)
      this.#reserve(Buffer.byteLength(head) + Buffer.byteLength(rest) + 1)
    const bytes = this.#bytes
    const start = this.#used
    const comma = start + bytes.write(head, start)
    const end = comma + bytes.write(rest, comma)
    // Both parts become one object: a comma replaces the bracket between them.
    bytes[comma] = COMMA
    bytes[end] = NEWLINE
    const length = end + 1 - start
    if (length > bytesMax) return { isKept: false, bytes: length }
    this.#used = end + 1
    this.#lines += 1
    return { isKept: true, bytes: length }
  }

  /** Returns all lines, and forgets them. */
  take(): readonly EventPiece[] {
    this.#endPiece()
    const pieces = this.#pieces
    this.#pieces = []
    this.#pieceLines = 0
    return pieces
  }

  #reserve(count: number): void {
    const needed = this.#used + count
    if (needed <= this.#bytes.length) return
    if (needed > PIECE_BYTES) this.#endPiece()
    const least = this.#pieces.length > 0 ? PIECE_BYTES : 2 * this.#bytes.length
    const larger = Buffer.allocUnsafe(Math.max(this.#used + count, Math.min(least, PIECE_BYTES)))
    this.#bytes.copy(larger, 0, 0, this.#used)
    this.#bytes = larger
  }

  #endPiece(): void {
    if (this.#lines > 0) {
      this.#pieces.push({ lines: this.#bytes.subarray(0, this.#used), count: this.#lines })
      this.#pieceLines += this.#lines
    }
    this.#bytes = EMPTY
    this.#used = 0
    this.#lines = 0
  }
}

/** Yields each line without its newline; JSON contains no other. */
export function* splitLines(lines: Buffer): Generator<Buffer> {
  let start = 0
  for (let end = lines.indexOf(NEWLINE); end >= 0; end = lines.indexOf(NEWLINE, start)) {
    yield lines.subarray(start, end)
    start = end + 1
  }
}
