/**
 * SimStore is the store of one host or daemon process, on the simulated disk.
 *
 * Batches reach the disk whole and in order after the time of a flush. The process learns of it in a later step, so
 * it can crash in between. When it crashes, any number of pending batches, oldest first, still reaches the disk.
 * The drive can be slow, full (commits wait) or broken (commits fail); files beside the database fail at once on a
 * full drive. Calls of a dead process are never answered. A process that opens the store takes it over from one that
 * lives.
 */

import { type Damage, DamagedRecord } from '../../core/damage.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type {
  ArtifactLookup,
  Artifacts,
  ConfigFile,
  ControlDatabase,
  CredentialRecordsFile,
  EventLogs,
  KeyList,
  KeyValues,
  RunQuery,
  RunRecords,
  Snapshots,
  Store,
  StoreState,
  UsageArchive,
  UsageKey,
  Write,
} from '../../core/ports/store.ts'
import type { Run } from '../../protocol/run.ts'
import { type DamageList, damagedRun, missingRun } from '../../store/lmdb/damage-list.ts'
import type { Random } from '../support/random.ts'
import { changeOf, type DiskBatch, type Row, type SimDisk, usageFileName } from './sim-disk.ts'
import type { Process, Timeline } from './timeline.ts'

/** The current condition of the drive; it survives restarts of the process. */
export interface Drive {
  /** Longest time of a flush, in milliseconds. */
  flushMsMax: number
  full: boolean
  broken: boolean
}

export const createDrive = (): Drive => ({ flushMsMax: 4, full: false, broken: false })

export const BROKEN_DISK = 'the disk failed'

export interface StoreObserver {
  onCommitRequested(batch: DiskBatch): void
  /** Called right before the batch reaches the disk, while the disk still shows the old state. */
  onBeforeCommit(batch: DiskBatch): void
  /** Called when the batch is on disk and the process does not know it yet. */
  onCommitted(batch: DiskBatch): void
}

export interface SimStoreOptions {
  readonly time: Timeline
  readonly process: Process
  readonly disk: SimDisk
  readonly drive: Drive
  readonly random: Random
  readonly observer: StoreObserver
  /** Numbers the batches across restarts of the process. */
  readonly nextNumber: () => number
  /** The damaged rows that the process has read. Absent: it knows all, as after a check at the start. */
  readonly known?: DamageList
}

interface PendingCommit {
  readonly batch: DiskBatch
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

export class SimStore implements Store {
  readonly installation: string
  readonly database: ControlDatabase
  readonly events: EventLogs
  readonly artifacts: Artifacts
  readonly usage: UsageArchive
  readonly config: ConfigFile
  readonly credentialRecords: CredentialRecordsFile
  readonly trail = { record: async () => {} }
  readonly #options: SimStoreOptions
  readonly #listeners = new Set<(state: StoreState) => void>()
  /** Commits that were requested and are not on disk, oldest first. */
  #pending: PendingCommit[] = []
  #flushing = false
  #closed = false
  #state: StoreState = { is: 'ready' }

  constructor(options: SimStoreOptions) {
    this.#options = options
    options.disk.owner = options.process
    this.installation = options.disk.installation
    this.database = this.#database()
    this.events = this.#events()
    this.artifacts = this.#artifacts()
    this.usage = this.#usage()
    this.config = this.#config()
    this.credentialRecords = this.#credentialRecords()
    if (options.drive.broken) this.#state = BROKEN
    else if (options.drive.full) this.#state = FULL
  }

  /** Adopts the new condition of the drive, and learns whether another process has opened the store. */
  onDriveChanged(): void {
    const { drive } = this.#options
    if (this.#isLost() || this.#state.is === 'broken') return
    if (drive.broken) this.#break(BROKEN)
    else if (drive.full !== (this.#state.is === 'degraded')) this.#setState(drive.full ? FULL : READY)
    this.#flush()
  }

  #break(state: typeof BROKEN | typeof TAKEN_OVER): void {
    const { time, process } = this.#options
    this.#setState(state)
    const refused = this.#pending.splice(0)
    time.in(0, () => refused.forEach(({ reject }) => void reject(new Error(state.reason))), process)
  }

  /** The real store asks the file system before every commit, and whenever the state is asked for. */
  #isLost(): boolean {
    const { disk, process } = this.#options
    const isLost = disk.owner !== process
    // A disk that broke before keeps nobody from taking the directory over.
    if (isLost && this.#state.is === 'broken') this.#state = TAKEN_OVER
    else if (isLost) this.#break(TAKEN_OVER)
    return isLost
  }

  /** Puts a random number of pending batches on disk and discards the rest. */
  crash(): void {
    const { random, drive } = this.#options
    const committable = drive.full || drive.broken || this.#isLost() ? 0 : this.#pending.length
    const surviving = this.#pending.slice(0, random.below(committable + 1))
    this.#pending = []
    for (const { batch } of surviving) this.#commitBatch(batch)
  }

  async close(): Promise<void> {
    this.#closed = true
    const pending = this.#pending.splice(0)
    for (const { batch, resolve, reject } of pending) {
      if (this.#state.is !== 'ready') reject(new Error('the store closed while its disk took no writes'))
      else {
        this.#commitBatch(batch)
        resolve()
      }
    }
  }

  #flush(): void {
    if (this.#flushing || this.#pending.length === 0 || this.#state.is !== 'ready') return
    this.#flushing = true
    const { time, drive, random } = this.#options
    const group = this.#pending.length
    time.in(0.05 + random.fraction() * drive.flushMsMax, () => {
      this.#flushing = false
      if (this.#isLost()) return
      // When the state is not `ready`, `onDriveChanged` and `close` settle the pending commits.
      if (this.#state.is === 'ready') this.#commitGroup(Math.min(group, this.#pending.length))
      this.#flush()
    })
  }

  #commitGroup(count: number): void {
    const { process, time, random } = this.#options
    const committed: PendingCommit[] = []
    while (committed.length < count && !process.dead) {
      const next = this.#pending.shift()
      if (next === undefined) break
      committed.push(next)
      this.#commitBatch(next.batch)
    }
    time.in(random.fraction(), () => committed.forEach(({ resolve }) => void resolve()), process)
  }

  #commitBatch(batch: DiskBatch): void {
    this.#options.observer.onBeforeCommit(batch)
    this.#options.disk.apply(batch)
    for (const change of this.#options.known?.isEmpty === false ? batch.changes : [])
      if (change.is === 'snapshot') this.#options.known?.forget(damageOf(change.kind, change.key).id)
      else if (change.is === 'key-value')
        this.#options.known?.forget(damageOf(change.collection, change.key).id)
    this.#options.observer.onCommitted(batch)
  }

  #setState(state: StoreState): void {
    this.#state = state
    const notify = () => this.#listeners.forEach((listener) => void listener(state))
    this.#options.time.in(0, notify, this.#options.process)
  }

  /** Writes to a file beside the database: the data is on disk when the promise resolves, perhaps earlier. */
  #writeFile<T>(write: () => T): Promise<T> {
    const { time, process, drive, random } = this.#options
    return new Promise((resolve, reject) => {
      if (process.dead) return
      const isBroken = drive.broken || this.#isLost()
      const refused = isBroken ? this.#reason : drive.full ? FULL.reason : undefined
      const ms = random.fraction() * drive.flushMsMax
      if (refused !== undefined) {
        const error = Object.assign(new Error(refused), { code: drive.full ? 'ENOSPC' : 'EIO' })
        time.in(ms, () => reject(error), process)
        return
      }
      time.in(ms, () => {
        if (process.dead || this.#isLost()) return
        const answer = write()
        time.in(random.fraction(), () => resolve(answer), process)
      })
    })
  }

  get #reason(): string {
    return this.#state.is === 'ready' ? BROKEN.reason : this.#state.reason
  }

  /** Whether a write needs to read a damaged row: the indexes of a run, and the other half of its row. */
  #findDamaged(writes: readonly Write[]): DamagedRecord | undefined {
    const { disk } = this.#options
    for (const write of writes) {
      const key = write.table === 'run' ? write.id : write.table === 'snapshot' ? write.key : ''
      const isOfRun = write.table === 'run' || (write.table === 'snapshot' && write.kind === RUN)
      if (isOfRun && disk.isDamaged(RUN, key)) return this.#noteDamage(RUN, key)
    }
    return undefined
  }

  #noteDamage(collection: string, key: string): DamagedRecord {
    const isLost = this.#options.disk.damageAt(collection, key) === 'lost'
    const damage = damageOf(collection, key, isLost)
    this.#options.known?.note(damage)
    return new DamagedRecord(damage)
  }

  #database(): ControlDatabase {
    const { process, observer, nextNumber, time, disk, known } = this.#options
    return {
      // Rows are damaged only while no process has the disk open.
      damage: known ?? {
        all: () => disk.damagedRows().map(({ collection, key }) => damageOf(collection, key)),
        onChange: () => () => {},
      },
      snapshots: this.#snapshots(),
      runs: this.#runs(),
      keyValues: this.#keyValues(),
      commit: (writes) =>
        new Promise((resolve, reject) => {
          if (process.dead) return
          if (this.#isLost() || this.#state.is === 'broken') return reject(new Error(this.#reason))
          if (this.#closed) return reject(new Error('the store is closed'))
          if (writes.length === 0) return resolve()
          const damaged = this.#findDamaged(writes)
          if (damaged !== undefined) return reject(damaged)
          const batch = { number: nextNumber(), requestedAt: time.now, changes: writes.map(changeOf) }
          this.#pending.push({ batch, resolve, reject })
          observer.onCommitRequested(batch)
          this.#flush()
        }),
      state: () => {
        this.#isLost()
        return this.#state
      },
      onState: (listener): Cancel => {
        this.#listeners.add(listener)
        return () => this.#listeners.delete(listener)
      },
      backup: async () => {},
    }
  }

  #snapshots(): Snapshots {
    const { disk } = this.#options
    return {
      get: (kind, key) => {
        const how = disk.damageAt(kind, key)
        if (how === 'lost') return undefined
        if (how !== undefined) throw this.#noteDamage(kind, key)
        return disk.snapshot(kind, key)
      },
      all: (kind) =>
        inOrder(disk.snapshots.get(kind))
          .filter(([key]) => disk.damageAt(kind, key) !== 'lost')
          .map(([key, row]) =>
            disk.isDamaged(kind, key)
              ? ([key, { damaged: this.#noteDamage(kind, key).damage.message }] as const)
              : ([key, row.value] as const),
          ),
      kinds: () => [...disk.snapshots.keys()].sort(),
    }
  }

  #keyValues(): KeyValues & KeyList {
    const { disk } = this.#options
    const rowsOf: (...parameters: Parameters<KeyValues['all']>) => [string, Row<object>][] = (
      collection,
      { after, until } = {},
    ) =>
      inOrder(disk.keyValues.get(collection)).filter(
        ([key]) => (after === undefined || key > after) && (until === undefined || key < until),
      )
    return {
      get: (collection, key) => {
        if (disk.isDamaged(collection, key)) throw this.#noteDamage(collection, key)
        return disk.keyValue(collection, key)
      },
      all: (collection, between) =>
        rowsOf(collection, between).flatMap(([key, row]) => {
          if (!disk.isDamaged(collection, key)) return [[key, row.value] as const]
          this.#noteDamage(collection, key)
          return []
        }),
      keys: (collection, between) => rowsOf(collection, between).map(([key]) => key),
    }
  }

  #runs(): RunRecords {
    const { disk } = this.#options
    const get = (id: string): Run | undefined => {
      if (disk.isDamaged(RUN, id)) throw this.#noteDamage(RUN, id)
      return disk.run(id)
    }
    const readable = (id: string): Run | undefined => {
      if (!disk.isDamaged(RUN, id)) return disk.run(id)
      this.#noteDamage(RUN, id)
      return undefined
    }
    /** The indexes name damaged runs as well; a walk over the records themselves meets no lost one. */
    const idsOf = ({ before, status, ticket }: RunQuery): readonly string[] =>
      disk.runIds().filter((id) => {
        const run = disk.run(id) as Run
        if (status === undefined && ticket === undefined && disk.damageAt(RUN, id) === 'lost') return false
        if (before !== undefined && run.id >= before) return false
        return (status?.includes(run.status) ?? true) && (ticket === undefined || run.ticket.id === ticket)
      })
    const count = (status: Run['status']) => idsOf({ status: [status] }).length
    return {
      get,
      list: ({ limit = Number.POSITIVE_INFINITY, ...query }) => {
        const found: Run[] = []
        for (const id of idsOf(query)) {
          if (found.length >= limit) break
          const run = readable(id)
          if (run !== undefined) found.push(run)
        }
        return found
      },
      damagedOf: (ticket) =>
        this.#options.known?.isEmpty === false
          ? idsOf({ ticket }).filter((id) => readable(id) === undefined)
          : [],
      count: (status) => (status === undefined ? disk.runs.size : count(status)),
    }
  }

  #events(): EventLogs {
    const { disk } = this.#options
    return {
      begin: () => {},
      nextIndex: (runId) => disk.events.get(runId)?.length ?? 0,
      storedBytes: (runId) =>
        (disk.events.get(runId) ?? []).reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0),
      async *read(runId, { after = -1, before = Number.POSITIVE_INFINITY, limit } = {}) {
        const found = disk.eventsOf(runId).filter(({ index }) => index > after && index < before)
        yield found.slice(0, limit).map((event) => JSON.stringify(event))
      },
      findDamage: async () => {},
      remove: async (runId) => void disk.events.delete(runId),
    }
  }

  #artifacts(): Artifacts {
    const { disk } = this.#options
    const completeTextOf = (runId: string, name: string) => disk.artifacts.get(runId)?.get(name)?.complete
    return {
      write: (runId, name, part, data, final) => {
        const text = Buffer.from(data).toString()
        return this.#writeFile(() => writePart(disk, runId, name, part, text, final))
      },
      find: async (runId, name): Promise<ArtifactLookup> => {
        const complete = completeTextOf(runId, name)
        if (complete === undefined) return { is: 'missing' }
        const bytes = Buffer.from(complete)
        return { is: 'file', size: bytes.length, ...PLAIN, read: () => once(bytes) }
      },
      names: async (runId) =>
        [...(disk.artifacts.get(runId)?.keys() ?? [])].filter(
          (name) => completeTextOf(runId, name) !== undefined,
        ),
      remove: async (runId, name) => {
        if (name === undefined) disk.artifacts.delete(runId)
        else disk.artifacts.get(runId)?.delete(name)
      },
    }
  }

  #usage(): UsageArchive {
    const { disk } = this.#options
    return {
      replace: (key, text) => this.#writeFile(() => void disk.usage.set(usageFileName(key), { key, text })),
      read: async (key) => disk.usage.get(usageFileName(key))?.text,
      list: async (projectKey): Promise<UsageKey[]> =>
        [...disk.usage.values()].map(({ key }) => key).filter((key) => key.projectKey === projectKey),
    }
  }

  #credentialRecords(): CredentialRecordsFile {
    const { disk } = this.#options
    return {
      read: () => disk.credentialRecords,
      replace: async (records) => {
        disk.credentialRecords = records
      },
    }
  }

  #config(): ConfigFile {
    const { disk } = this.#options
    return {
      path: 'config.json',
      read: async () => disk.config,
      replace: (expected, text) =>
        this.#writeFile(() => {
          if (disk.config !== expected) return { is: 'changed', text: disk.config } as const
          disk.editConfig(text)
          return { is: 'replaced' } as const
        }),
      saveCopy: async () => 'config.json.1.rejected',
      watch: (onTouched): Cancel => {
        const { time, process } = this.#options
        const notify = () => void time.in(100, onTouched, process)
        disk.configWatchers.add(notify)
        return () => disk.configWatchers.delete(notify)
      },
    }
  }
}

const READY: StoreState = { is: 'ready' }
const FULL = { is: 'degraded', reason: 'no room left on the disk' } as const
const BROKEN = { is: 'broken', reason: BROKEN_DISK } as const
const TAKEN_OVER = { is: 'broken', reason: 'another process owns the store', takenOver: true } as const
const PLAIN = { contentType: 'text/plain', download: false } as const

/** The kind of actors whose snapshots share a row with the record of their run. */
const RUN = 'run'

export function damageOf(collection: string, key: string, isLost = false): Damage {
  if (collection === RUN) return isLost ? missingRun(key) : damagedRun(key)
  const id = `${collection} ${key}`
  return { id, where: collection, message: `the stored ${id} is damaged` }
}

function inOrder<T>(map: ReadonlyMap<string, T> | undefined): [string, T][] {
  return [...(map ?? [])].sort(([a], [b]) => (a < b ? -1 : 1))
}

/**
 * Follows the file store: parts arrive in order, a repeated part is recognised, and part 0 starts the file again.
 */
function writePart(
  disk: SimDisk,
  runId: string,
  name: string,
  part: number,
  text: string,
  final: boolean,
): 'kept' | 'repeat' | { readonly refused: string } {
  const files =
    disk.artifacts.get(runId) ?? new Map<string, { parts: string[]; complete: string | undefined }>()
  disk.artifacts.set(runId, files)
  const file = files.get(name) ?? { parts: [], complete: undefined }
  files.set(name, file)
  const { parts } = file
  if (part === 0 && !final && parts.length === 1 && parts[0] === text) return 'repeat'
  if (part === 0 && final && parts.length === 0 && file.complete === text) return 'repeat'
  if (part > 0 && part < parts.length) return 'repeat'
  if (part > 0 && parts.length === 0 && file.complete !== undefined) return 'repeat'
  if (part > parts.length) return { refused: `part ${part} of ${name} came before part ${parts.length}` }
  file.parts = [...(part === 0 ? [] : parts), text]
  if (!final) return 'kept'
  file.complete = file.parts.join('')
  file.parts = []
  return 'kept'
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
