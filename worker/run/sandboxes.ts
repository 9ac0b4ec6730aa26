/**
 * The sandboxes on this worker's disk: one folder a run, and what is known about it.
 *
 * A folder is made before a run begins and kept after its end until its time is over, so that a person can go on where
 * the agent stopped. The record beside it says until when, and whether what is in there exists anywhere else. What is
 * to go is first renamed into the trash, in one step, and deleted behind everybody's back; a daemon that died in the
 * middle goes on with it at its next start.
 */
import { chmod, chown, mkdir, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Log } from '../../core/ports.ts'
import type { RunFolders } from '../git/git-ports.ts'
import { findFreeNumber } from '../sandbox/sandbox-users.ts'
import { measureDiskUsage } from './folder-size.ts'
import type { SandboxAgent, SandboxIsolation } from './sandbox-metadata.ts'

export interface SandboxRecord {
  readonly v: 1
  readonly runId: string
  /** Decides whom it runs as; no other sandbox on this disk has it. */
  readonly number: number
  readonly createdAt: string
  /** Absent while the run goes on. */
  readonly retainedUntil?: string
  /** What is used in it later, a person uses. */
  readonly retainedAt?: string
  /** Work that is nowhere else. */
  readonly unpushed: boolean
  readonly bytes: number
  readonly quotaGib?: number
  readonly sessionId?: string
  /** Known before it begins. */
  readonly agent?: SandboxAgent
  /** What stood around it: whoever comes back finds the same. */
  readonly walls?: SandboxIsolation
}

export interface SandboxFolders extends RunFolders {
  readonly root: string
  /** Seen inside as /out: artifacts and memories. */
  readonly out: string
}

export interface SandboxesOptions {
  readonly folder: string
  readonly trash: string
  readonly clock: Clock
  readonly log: Log
  /** Whom a sandbox of this number runs as; undefined: as the worker itself. */
  readonly ownerFor: (number: number) => { readonly uid: number; readonly gid: number } | undefined
  /** Where counting begins. */
  readonly firstNumber: number
  /** Deletes a folder that an agent may have filled with anything. */
  readonly deleteFolder: (folder: string) => Promise<void>
}

const RECORD_FILE = 'sandbox.json'
const NEVER = '9999'
const GIB = 1024 ** 3
const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/

export const isRunFolderName = (runId: string): boolean => RUN_ID.test(runId)

export class Sandboxes {
  readonly #options: SandboxesOptions
  readonly #records = new Map<string, SandboxRecord>()
  /** What goes on behind everybody's back. */
  readonly #backgroundTasks = new Set<Promise<void>>()
  readonly #openedAt: string
  #writing: Promise<void> = Promise.resolve()
  #trashCount = 0

  private constructor(options: SandboxesOptions) {
    this.#options = options
    this.#openedAt = this.#instant()
  }

  static async open(options: SandboxesOptions): Promise<Sandboxes> {
    const sandboxes = new Sandboxes(options)
    await sandboxes.#loadRecords()
    return sandboxes
  }

  get(runId: string): SandboxRecord | undefined {
    return this.#records.get(runId)
  }

  all(): readonly SandboxRecord[] {
    return [...this.#records.values()]
  }

  foldersOf(runId: string): SandboxFolders {
    const root = join(this.#options.folder, runId)
    const inside = (name: string) => join(root, name)
    return {
      root,
      work: inside('work'),
      home: inside('home'),
      out: inside('out'),
      exchange: inside('exchange'),
      staging: inside('desk'),
    }
  }

  /** A new one; what an earlier attempt of the same run left here goes. */
  async create(runId: string, quotaGib: number | undefined): Promise<SandboxFolders & { number: number }> {
    if (!isRunFolderName(runId)) throw new Error(`not a name for a folder: ${JSON.stringify(runId)}`)
    await this.discard(runId)
    const taken = this.all().map((record) => record.number)
    const number = findFreeNumber(taken, this.#options.firstNumber)
    const record: SandboxRecord = {
      v: 1,
      runId,
      number,
      createdAt: this.#instant(),
      unpushed: true,
      bytes: 0,
      ...(quotaGib === undefined ? {} : { quotaGib }),
    }
    // At once: the next one that asks for a number must not get the same.
    this.#records.set(runId, record)
    const folders = this.foldersOf(runId)
    await this.#makeFolders(folders, number)
    await this.#write(record)
    return { ...folders, number }
  }

  /** The one that an earlier execution of the run left here, while its time is not over. */
  async openRetained(runId: string): Promise<(SandboxFolders & { number: number }) | undefined> {
    const record = this.#records.get(runId)
    if (record?.retainedUntil === undefined || record.retainedUntil <= this.#instant()) return undefined
    // Cut off while it was made: no agent was ever in it, and nobody knows what of it is missing.
    if (record.agent === undefined && record.sessionId === undefined) return undefined
    const folders = this.foldersOf(runId)
    const isThere = await stat(folders.work).then(
      (stats) => stats.isDirectory(),
      () => false,
    )
    if (!isThere) return undefined
    // Should this process die: what was spent before has been told by those who spent it.
    const agent = record.agent === undefined ? {} : { agent: { ...record.agent, since: this.#instant() } }
    await this.#write({ ...record, ...agent })
    return { ...folders, number: record.number }
  }

  /** For whoever has to find out what it has spent, should nobody be left who watched it. Nobody waits for it. */
  recordAgent(runId: string, agent: SandboxAgent, walls?: SandboxIsolation): void {
    const record = this.#records.get(runId)
    if (record !== undefined)
      this.#write({ ...record, agent, ...(walls === undefined ? {} : { walls }) }).catch((error) =>
        this.#options.log.warn({ err: error, runId }, 'it could not be noted which agent works on a run'),
      )
  }

  /** The run is over; from now on its disk waits for a person, for a while. */
  async retain(
    runId: string,
    retention: {
      readonly hours: number
      readonly unpushed: boolean
      readonly sessionId?: string | undefined
    },
  ): Promise<string | undefined> {
    const record = this.#records.get(runId)
    if (record === undefined) return undefined
    const now = this.#options.clock.now()
    const retainedUntil = new Date(now + retention.hours * 3_600_000).toISOString()
    await this.#write({
      ...record,
      retainedUntil,
      retainedAt: new Date(now).toISOString(),
      unpushed: retention.unpushed,
      ...(retention.sessionId === undefined ? {} : { sessionId: retention.sessionId }),
    })
    this.#measureInBackground(runId)
    return retainedUntil
  }

  /** A person was in it, and may have left there what is nowhere else. */
  async markVisited(runId: string): Promise<void> {
    const record = this.#records.get(runId)
    if (record === undefined) return
    if (!record.unpushed) await this.#write({ ...record, unpushed: true })
    this.#measureInBackground(runId)
  }

  /** Takes its time with a large tree, so nobody waits for it. */
  #measureInBackground(runId: string): void {
    const measuring: Promise<void> = measureDiskUsage(this.foldersOf(runId).root)
      .then(async (bytes) => {
        const record = this.#records.get(runId)
        if (record?.retainedUntil !== undefined) await this.#write({ ...record, bytes })
      })
      // It went away meanwhile, or the disk is full: it counts as it did.
      .catch(() => {})
      .finally(() => this.#backgroundTasks.delete(measuring))
    this.#backgroundTasks.add(measuring)
  }

  async discard(runId: string): Promise<void> {
    if (!isRunFolderName(runId)) return
    const { root } = this.foldersOf(runId)
    // First: whoever comes now must not be let into a folder that is on its way out.
    this.#records.delete(runId)
    this.#trashCount += 1
    const name = join(this.#options.trash, `${runId}-${this.#options.clock.now()}-${this.#trashCount}`)
    const moved = await rename(root, name).then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        // Mostly there is none: a run's first attempt.
        if (error.code !== 'ENOENT')
          this.#options.log.warn({ err: error, runId }, 'a sandbox could not be put into the trash')
        return false
      },
    )
    if (moved) this.#deleteInBackground(name)
  }

  /** `isBusy`: never touched, whatever its record says. Answers the runs whose disk was taken back. */
  async reclaim(isBusy: (runId: string) => boolean): Promise<readonly string[]> {
    const now = this.#instant()
    const idle = this.all().filter(({ runId }) => !isBusy(runId))
    const expired = idle.filter((record) => (record.retainedUntil ?? this.#orphanUntil(record)) <= now)
    const retained = idle.filter((record) => record.retainedUntil !== undefined && !expired.includes(record))
    const excess = this.#selectBeyondQuota(retained)
    const taken: string[] = []
    for (const record of [...expired, ...excess]) {
      const { runId } = record
      // Each takes a while: meanwhile somebody may have stepped in, or a new attempt begun.
      if (isBusy(runId) || this.#records.get(runId)?.createdAt !== record.createdAt) continue
      if (excess.includes(record)) this.#logDropped(record)
      await this.discard(runId)
      taken.push(runId)
    }
    return taken
  }

  /** Everything that was on its way out is gone, everything measured. */
  async waitUntilSettled(): Promise<void> {
    while (this.#backgroundTasks.size > 0) await Promise.all(this.#backgroundTasks)
    await this.#writing
  }

  // ---- the quota -------------------------------------------------------------------------------------------------

  /** The oldest go first, and those whose work is nowhere else only when nothing else is left to go. */
  #selectBeyondQuota(retained: readonly SandboxRecord[]): SandboxRecord[] {
    const quotaGib = retained.toSorted(byAge).at(-1)?.quotaGib
    if (quotaGib === undefined) return []
    let excess = retained.reduce((sum, { bytes }) => sum + bytes, 0) - quotaGib * GIB
    const inOrder = retained.toSorted((a, b) => Number(a.unpushed) - Number(b.unpushed) || byAge(a, b))
    return inOrder.filter(({ bytes }) => {
      if (excess <= 0) return false
      excess -= bytes
      return true
    })
  }

  #logDropped({ runId, unpushed, bytes }: SandboxRecord): void {
    const fields = { runId, bytes }
    if (unpushed)
      this.#options.log.warn(fields, 'the disk quota takes a sandbox whose work was never pushed: it is lost')
    else this.#options.log.info(fields, 'the disk quota takes the oldest sandbox')
  }

  // ---- the disk --------------------------------------------------------------------------------------------------

  async #makeFolders(folders: SandboxFolders, number: number): Promise<void> {
    const owner = this.#options.ownerFor(number)
    await mkdir(folders.root, { mode: 0o700 })
    // Its user has to pass through to what is his; what is beside it has walls of its own.
    if (owner !== undefined) {
      await chown(folders.root, 0, owner.gid)
      await chmod(folders.root, 0o710)
    }
    await mkdir(folders.staging, { mode: 0o700 })
    for (const path of [folders.work, folders.home, folders.out, folders.exchange]) {
      await mkdir(path, { mode: 0o700 })
      if (owner !== undefined) await chown(path, owner.uid, owner.gid)
    }
    const artifacts = join(folders.out, 'artifacts')
    await mkdir(artifacts, { mode: 0o700 })
    if (owner !== undefined) await chown(artifacts, owner.uid, owner.gid)
  }

  /** One after the other: a later record never gives way to an earlier one. */
  #write(record: SandboxRecord): Promise<void> {
    this.#records.set(record.runId, record)
    const written = this.#writing.then(() => this.#writeFile(record))
    this.#writing = written.catch(() => {})
    return written
  }

  /** Only what outlives its run has to outlive the machine: a run that was cut short has no use for its folder. */
  async #writeFile(record: SandboxRecord): Promise<void> {
    const path = join(this.foldersOf(record.runId).root, RECORD_FILE)
    const flush = record.retainedUntil !== undefined
    await writeFile(`${path}.new`, JSON.stringify(record), { mode: 0o600, flush })
    await rename(`${path}.new`, path)
  }

  /** What is on disk at the start: records of runs that ended, and of those that died with the daemon. */
  async #loadRecords(): Promise<void> {
    const { folder, trash, log } = this.#options
    for (const name of await readdir(folder)) {
      const record = await readRecord(join(folder, name, RECORD_FILE), name)
      if (record !== undefined) this.#records.set(name, record)
      else if (isRunFolderName(name)) {
        log.warn({ runId: name }, 'a sandbox folder without a readable record is taken away')
        await this.discard(name)
      }
    }
    for (const name of await readdir(trash)) this.#deleteInBackground(join(trash, name))
  }

  #deleteInBackground(path: string): void {
    const { log, deleteFolder } = this.#options
    const deleting: Promise<void> = deleteFolder(path)
      .catch((error) =>
        log.warn(
          { err: error, path },
          'a sandbox could not be deleted whole; it is tried again at the next start',
        ),
      )
      .finally(() => this.#backgroundTasks.delete(deleting))
    this.#backgroundTasks.add(deleting)
  }

  /** Nobody said how it ended: it died with an earlier daemon, and the run of it is nobody's any more. */
  #orphanUntil({ createdAt }: SandboxRecord): string {
    return createdAt < this.#openedAt ? this.#openedAt : NEVER
  }

  #instant(): string {
    return new Date(this.#options.clock.now()).toISOString()
  }
}

function byAge(a: SandboxRecord, b: SandboxRecord): number {
  return a.createdAt === b.createdAt ? 0 : a.createdAt < b.createdAt ? -1 : 1
}

async function readRecord(path: string, runId: string): Promise<SandboxRecord | undefined> {
  try {
    // Ours: the folder around it belongs to the worker, and no agent ever sees it.
    const record = JSON.parse(await readFile(path, 'utf8')) as SandboxRecord
    return record.v === 1 && record.runId === runId && Number.isInteger(record.number) ? record : undefined
  } catch {
    return undefined
  }
}
