/**
 * The store as one life of the host sees it: the ports, on the simulated disk.
 *
 * Batches land whole and in order, after the time a flush takes; the host hears of it a moment later, in a happening
 * of its own, so that it can die in between. When it dies, any number of batches that it had asked for, counted from
 * the oldest, lands all the same. The drive can be slow, full (commits wait) and broken (commits are refused); the
 * files beside the database refuse at once when it is full. A dead host's calls are never answered.
 */
import type {
  ArtifactLookup,
  Artifacts,
  Cancel,
  ConfigFile,
  ControlDatabase,
  EventLogs,
  KeyValues,
  RunQuery,
  RunRecords,
  Snapshots,
  Store,
  StoreState,
  UsageArchive,
  UsageKey,
} from '../../core/ports.ts'
import type { Run } from '../../protocol/run.ts'
import type { Random } from '../support/random.ts'
import { type Batch, changeOf, type Disk, usageName } from './disk.ts'
import type { Process, Timeline } from './timeline.ts'

/** How the drive is right now; it outlives the host's lives. */
export interface Drive {
  /** What a flush takes at most, in milliseconds. */
  flushMsMax: number
  full: boolean
  broken: boolean
}

export const newDrive = (): Drive => ({ flushMsMax: 4, full: false, broken: false })

export const BROKEN_DISK = 'the disk failed'

export interface StoreWatch {
  asked(batch: Batch): void
  /** The next moment it is on disk: the last look at what was there before. */
  landing(batch: Batch): void
  /** It is on disk now; its host has not heard of it yet. */
  landed(batch: Batch): void
}

export interface SimStoreParts {
  readonly time: Timeline
  readonly process: Process
  readonly disk: Disk
  readonly drive: Drive
  readonly random: Random
  readonly watch: StoreWatch
  /** Over all lives of the host. */
  readonly nextNumber: () => number
}

interface Asked {
  readonly batch: Batch
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

export class SimStore implements Store {
  readonly database: ControlDatabase
  readonly events: EventLogs
  readonly artifacts: Artifacts
  readonly usage: UsageArchive
  readonly config: ConfigFile
  readonly #parts: SimStoreParts
  readonly #listeners = new Set<(state: StoreState) => void>()
  /** Asked for and not landed, oldest first. */
  #waiting: Asked[] = []
  #flushing = false
  #closed = false
  #state: StoreState = { is: 'ready' }

  constructor(parts: SimStoreParts) {
    this.#parts = parts
    this.database = this.#database()
    this.events = this.#events()
    this.artifacts = this.#artifacts()
    this.usage = this.#usage()
    this.config = this.#config()
    if (parts.drive.broken) this.#state = BROKEN
    else if (parts.drive.full) this.#state = FULL
  }

  /** The drive has changed. */
  look(): void {
    const { drive, time, process } = this.#parts
    if (this.#state.is === 'broken') return
    if (drive.broken) {
      this.#become(BROKEN)
      const refused = this.#waiting.splice(0)
      time.in(0, () => refused.forEach(({ reject }) => void reject(new Error(BROKEN.reason))), process)
    } else if (drive.full !== (this.#state.is === 'degraded')) this.#become(drive.full ? FULL : READY)
    this.#flush()
  }

  /** The host dies: some of what it had asked for is on disk, the rest never was. */
  crash(): void {
    const { random, drive } = this.#parts
    const able = drive.full || drive.broken ? 0 : this.#waiting.length
    const lucky = this.#waiting.slice(0, random.below(able + 1))
    this.#waiting = []
    for (const { batch } of lucky) this.#land(batch)
  }

  async close(): Promise<void> {
    this.#closed = true
    const waiting = this.#waiting.splice(0)
    for (const { batch, resolve, reject } of waiting) {
      if (this.#state.is !== 'ready') reject(new Error('the store closed while its disk took no writes'))
      else {
        this.#land(batch)
        resolve()
      }
    }
  }

  #flush(): void {
    if (this.#flushing || this.#waiting.length === 0 || this.#state.is !== 'ready') return
    this.#flushing = true
    const { time, drive, random } = this.#parts
    const group = this.#waiting.length
    time.in(0.05 + random.fraction() * drive.flushMsMax, () => {
      this.#flushing = false
      // Full or broken by now, or closed: `look` and `close` see to what waits.
      if (this.#state.is === 'ready') this.#landGroup(Math.min(group, this.#waiting.length))
      this.#flush()
    })
  }

  #landGroup(count: number): void {
    const { process, time, random } = this.#parts
    const landed: Asked[] = []
    while (landed.length < count && !process.dead) {
      const next = this.#waiting.shift()
      if (next === undefined) break
      landed.push(next)
      this.#land(next.batch)
    }
    time.in(random.fraction(), () => landed.forEach(({ resolve }) => void resolve()), process)
  }

  #land(batch: Batch): void {
    this.#parts.watch.landing(batch)
    this.#parts.disk.apply(batch)
    this.#parts.watch.landed(batch)
  }

  #become(state: StoreState): void {
    this.#state = state
    const tell = () => this.#listeners.forEach((listener) => void listener(state))
    this.#parts.time.in(0, tell, this.#parts.process)
  }

  /** Something beside the database is written: it is there when this resolves, and perhaps before. */
  #written<T>(write: () => T): Promise<T> {
    const { time, process, drive, random } = this.#parts
    return new Promise((resolve, reject) => {
      if (process.dead) return
      const refused = drive.broken ? BROKEN.reason : drive.full ? FULL.reason : undefined
      const ms = random.fraction() * drive.flushMsMax
      if (refused !== undefined) {
        const error = Object.assign(new Error(refused), { code: drive.full ? 'ENOSPC' : 'EIO' })
        time.in(ms, () => reject(error), process)
        return
      }
      time.in(ms, () => {
        if (process.dead) return
        const answer = write()
        time.in(random.fraction(), () => resolve(answer), process)
      })
    })
  }

  #database(): ControlDatabase {
    const { process, watch, nextNumber } = this.#parts
    return {
      snapshots: this.#lives(),
      runs: this.#runs(),
      keyValues: this.#facts(),
      commit: (writes) =>
        new Promise((resolve, reject) => {
          if (process.dead) return
          if (this.#state.is === 'broken') return reject(new Error(BROKEN.reason))
          if (this.#closed) return reject(new Error('the store is closed'))
          if (writes.length === 0) return resolve()
          const batch = { number: nextNumber(), changes: writes.map(changeOf) }
          this.#waiting.push({ batch, resolve, reject })
          watch.asked(batch)
          this.#flush()
        }),
      state: () => this.#state,
      onState: (listener): Cancel => {
        this.#listeners.add(listener)
        return () => this.#listeners.delete(listener)
      },
      backup: async () => {},
    }
  }

  #lives(): Snapshots {
    const { disk } = this.#parts
    return {
      get: (kind, key) => disk.life(kind, key),
      all: (kind) => inOrder(disk.lives.get(kind)).map(([key, row]) => [key, row.value] as const),
      kinds: () => [...disk.lives.keys()].sort(),
    }
  }

  #facts(): KeyValues {
    const { disk } = this.#parts
    return {
      get: (shelf, key) => disk.fact(shelf, key),
      all: (shelf, { after, until } = {}) =>
        inOrder(disk.facts.get(shelf))
          .filter(([key]) => (after === undefined || key > after) && (until === undefined || key < until))
          .map(([key, row]) => [key, row.value] as const),
    }
  }

  #runs(): RunRecords {
    const { disk } = this.#parts
    const all = () => disk.runIds().map((id) => disk.run(id) as Run)
    return {
      get: (id) => disk.run(id),
      list: ({ limit, before, status, ticket }: RunQuery) =>
        all()
          .filter((run) => before === undefined || run.id < before)
          .filter((run) => status === undefined || status.includes(run.status))
          .filter((run) => ticket === undefined || run.ticket.id === ticket)
          .slice(0, limit),
      count: (status) =>
        status === undefined ? disk.runs.size : all().filter((run) => run.status === status).length,
    }
  }

  #events(): EventLogs {
    const { disk } = this.#parts
    return {
      nextIndex: (runId) => disk.events.get(runId)?.length ?? 0,
      read: async (runId, { after = -1, limit } = {}) =>
        disk
          .eventsOf(runId)
          .filter(({ index }) => index > after)
          .slice(0, limit),
      remove: async (runId) => void disk.events.delete(runId),
    }
  }

  #artifacts(): Artifacts {
    const { disk } = this.#parts
    const wholeOf = (runId: string, name: string) => disk.artifacts.get(runId)?.get(name)?.whole
    return {
      write: (runId, name, part, data, final) => {
        const text = Buffer.from(data).toString()
        return this.#written(() => writePart(disk, runId, name, part, text, final))
      },
      find: async (runId, name): Promise<ArtifactLookup> => {
        const whole = wholeOf(runId, name)
        if (whole === undefined) return { is: 'missing' }
        const bytes = Buffer.from(whole)
        return { is: 'file', size: bytes.length, ...PLAIN, read: () => once(bytes) }
      },
      names: async (runId) =>
        [...(disk.artifacts.get(runId)?.keys() ?? [])].filter((name) => wholeOf(runId, name) !== undefined),
      remove: async (runId) => void disk.artifacts.delete(runId),
    }
  }

  #usage(): UsageArchive {
    const { disk } = this.#parts
    return {
      replace: (key, text) => this.#written(() => void disk.usage.set(usageName(key), { key, text })),
      read: async (key) => disk.usage.get(usageName(key))?.text,
      list: async (projectKey): Promise<UsageKey[]> =>
        [...disk.usage.values()].map(({ key }) => key).filter((key) => key.projectKey === projectKey),
    }
  }

  #config(): ConfigFile {
    const { disk } = this.#parts
    return {
      path: 'config.json',
      read: async () => disk.config,
      replace: (expected, text) =>
        this.#written(() => {
          if (disk.config !== expected) return { is: 'changed', text: disk.config } as const
          disk.config = text
          return { is: 'replaced' } as const
        }),
      saveCopy: async () => 'config.json.1.rejected',
      watch: () => () => {},
    }
  }
}

const READY: StoreState = { is: 'ready' }
const FULL = { is: 'degraded', reason: 'no room left on the disk' } as const
const BROKEN = { is: 'broken', reason: BROKEN_DISK } as const
const PLAIN = { contentType: 'text/plain', download: false } as const

function inOrder<T>(map: ReadonlyMap<string, T> | undefined): [string, T][] {
  return [...(map ?? [])].sort(([a], [b]) => (a < b ? -1 : 1))
}

/** As on a real disk: parts in order, a repeated one is known, a first one begins anew. */
function writePart(
  disk: Disk,
  runId: string,
  name: string,
  part: number,
  text: string,
  final: boolean,
): 'kept' | 'repeat' | { readonly refused: string } {
  const files = disk.artifacts.get(runId) ?? new Map<string, { parts: string[]; whole: string | undefined }>()
  disk.artifacts.set(runId, files)
  const file = files.get(name) ?? { parts: [], whole: undefined }
  files.set(name, file)
  const { parts } = file
  if (part === 0 && !final && parts.length === 1 && parts[0] === text) return 'repeat'
  if (part === 0 && final && parts.length === 0 && file.whole === text) return 'repeat'
  if (part > 0 && part < parts.length) return 'repeat'
  if (part > 0 && parts.length === 0 && file.whole !== undefined) return 'repeat'
  if (part > parts.length) return { refused: `part ${part} of ${name} came before part ${parts.length}` }
  file.parts = [...(part === 0 ? [] : parts), text]
  if (!final) return 'kept'
  file.whole = file.parts.join('')
  file.parts = []
  return 'kept'
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
