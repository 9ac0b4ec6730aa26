/**
 * The events of every run: `runs/<runId>/events.jsonl`, one JSON object a line.
 *
 * A crash can leave a torn line, or events that nobody acknowledged. Opening a log cuts both off and says so in one
 * `system` event, so that a reader of the log knows what is missing; indexes go on without a hole. Files are kept
 * open while they are written to, a bounded number at a time.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { EventLogOpened, EventLogs } from '../../core/ports.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { codeOf, StoreClosed } from '../failures.ts'
import { requireInOrder } from './event-order.ts'
import { eventOf, linesOf, placeAfter, wholeLinesEnd } from './lines.ts'
import { runFolder } from './run-folder.ts'
import { openForWriting, RunLog } from './run-log.ts'
import { Turns } from './turns.ts'

const FILES_MAX = 128

export class EventLogsOnDisk implements EventLogs {
  readonly #runs: string
  readonly #filesMax: number
  readonly #logs = new Map<string, RunLog>()
  /** Those that hold a file, least recently used first. */
  readonly #holding = new Map<string, RunLog>()
  readonly #turns = new Turns()

  constructor(runs: string, filesMax = FILES_MAX) {
    this.#runs = runs
    this.#filesMax = filesMax
  }

  async open(runId: string, at: string, knownBytes?: number): Promise<EventLogOpened> {
    const path = this.#path(runId)
    return this.#turns.take(runId, async () => {
      await this.#letGo(runId)
      const found = await ready(path, runId, at, knownBytes)
      this.#logs.set(runId, new RunLog(path, found.bytes, found.next))
      return found
    })
  }

  async append(runId: string, events: readonly RunEvent[]): Promise<number> {
    const log = this.#opened(runId)
    const first = events[0]
    if (first === undefined) return log.length
    requireInOrder(runId, events, log.next)
    this.#touch(runId, log)
    const text = events.map((event) => `${JSON.stringify(event)}\n`).join('')
    return log.append(text, first.index, first.index + events.length)
  }

  async sync(runId: string): Promise<void> {
    const log = this.#opened(runId)
    this.#touch(runId, log)
    await log.sync()
  }

  async read(
    runId: string,
    query: { readonly after?: number; readonly limit?: number } = {},
  ): Promise<RunEvent[]> {
    const { after = -1, limit = Number.POSITIVE_INFINITY } = query
    const path = this.#path(runId)
    const file = await openForReading(path)
    if (file === undefined) return []
    try {
      // What is being written right now may be half there; the log knows how far it is whole.
      const size = this.#logs.get(runId)?.length ?? (await file.stat()).size
      return await collect(file, size, after, limit)
    } finally {
      await file.close()
    }
  }

  async close(runId: string): Promise<void> {
    // Once the store is closed, so is every log.
    if (this.#turns.closed) return
    await this.#turns.take(runId, () => this.#close(runId))
  }

  async remove(runId: string): Promise<void> {
    const path = this.#path(runId)
    return this.#turns.take(runId, async () => {
      await this.#letGo(runId)
      await rm(path, { force: true })
      // The artifacts may still be there; whoever removes last removes the folder.
      await rmdir(dirname(path)).catch(() => undefined)
    })
  }

  /** Refuses whatever comes from now on; syncs and closes everything. One that fails does not keep others open. */
  async closeAll(): Promise<void> {
    await this.#turns.close()
    const ids = [...this.#logs.keys()]
    const failures: unknown[] = []
    // In portions: a log that rests opens its file again to sync it.
    for (let from = 0; from < ids.length; from += this.#filesMax) {
      const ends = await Promise.allSettled(
        ids.slice(from, from + this.#filesMax).map((runId) => this.#close(runId)),
      )
      for (const end of ends) if (end.status === 'rejected') failures.push(end.reason)
    }
    if (failures.length > 0) throw failures[0]
  }

  async #close(runId: string): Promise<void> {
    try {
      await this.#logs.get(runId)?.sync()
    } finally {
      await this.#letGo(runId)
    }
  }

  #path(runId: string): string {
    return join(runFolder(this.#runs, runId), 'events.jsonl')
  }

  #opened(runId: string): RunLog {
    if (this.#turns.closed) throw new StoreClosed('the store is closed')
    const log = this.#logs.get(runId)
    if (log === undefined) throw new Error(`the event log of ${runId} was not opened`)
    return log
  }

  async #letGo(runId: string): Promise<void> {
    const log = this.#logs.get(runId)
    this.#logs.delete(runId)
    this.#holding.delete(runId)
    await log?.rest()
  }

  #touch(runId: string, log: RunLog): void {
    this.#holding.delete(runId)
    this.#holding.set(runId, log)
    if (this.#holding.size <= this.#filesMax) return
    const [oldest] = this.#holding
    if (oldest === undefined) return
    this.#holding.delete(oldest[0])
    // Appends that come meanwhile wait inside the log and open the file again.
    // What it holds was synced by then, or the failure is remembered: a descriptor that closes badly costs nothing.
    oldest[1].rest().catch(() => undefined)
  }
}

async function collect(file: FileHandle, size: number, after: number, limit: number): Promise<RunEvent[]> {
  const events: RunEvent[] = []
  if (limit <= 0) return events
  const start = after < 0 ? 0 : await placeAfter(file, after, size)
  for await (const { text } of linesOf(file, start, size)) {
    const event = eventOf(text)
    if (event === undefined || event.index <= after) continue
    if (events.push(event) >= limit) break
  }
  return events
}

/** Cuts a log back to what can be kept and says so in it. */
async function ready(
  path: string,
  runId: string,
  at: string,
  known: number | undefined,
): Promise<EventLogOpened> {
  const file = await openForReading(path, constants.O_RDWR)
  if (file === undefined) return known ? replaceLost(path, runId, at, known) : { bytes: 0, next: 0 }
  try {
    const { size } = await file.stat()
    const kept = await lastEventBy(file, Math.min(size, known ?? size))
    const missing = Math.max(0, (known ?? 0) - size)
    if (kept.end === size && missing === 0) return { bytes: size, next: kept.next }
    const cut =
      missing > 0
        ? { bytes: missing, reason: lost(missing) }
        : { bytes: size - kept.end, reason: cutOff(size - kept.end) }
    await file.truncate(kept.end)
    return { ...(await note(file, runId, at, kept, cut.reason)), cut }
  } finally {
    await file.close()
  }
}

/** The file is gone although events in it were acknowledged. */
async function replaceLost(path: string, runId: string, at: string, known: number): Promise<EventLogOpened> {
  const file = await openForWriting(path)
  try {
    const cut = { bytes: known, reason: lost(known) }
    return { ...(await note(file, runId, at, { end: 0, next: 0 }, cut.reason)), cut }
  } finally {
    await file.close()
  }
}

const cutOff = (bytes: number) =>
  `${bytes} bytes of unacknowledged events were cut from the end of this log after a crash`
const lost = (bytes: number) => `${bytes} bytes of acknowledged events are missing from this log`

async function note(file: FileHandle, runId: string, at: string, kept: Kept, text: string) {
  const event: RunEvent = { runId, index: kept.next, at, type: 'log', stream: 'system', text }
  const line = Buffer.from(`${JSON.stringify(event)}\n`)
  await file.write(line, 0, line.length, kept.end)
  await file.datasync()
  return { bytes: kept.end + line.length, next: kept.next + 1 }
}

interface Kept {
  readonly end: number
  readonly next: number
}

/** The last line by `size` that is an event; lines behind it that are none are not kept. */
async function lastEventBy(file: FileHandle, size: number): Promise<Kept> {
  for (let end = await wholeLinesEnd(file, size); end > 0; ) {
    const start = await wholeLinesEnd(file, end - 1)
    const line = Buffer.allocUnsafe(end - 1 - start)
    await file.read(line, 0, line.length, start)
    const event = eventOf(line.toString('utf8'))
    if (event !== undefined) return { end, next: event.index + 1 }
    end = start
  }
  return { end: 0, next: 0 }
}

async function openForReading(path: string, access = constants.O_RDONLY): Promise<FileHandle | undefined> {
  try {
    return await open(path, access | constants.O_NOFOLLOW)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}
