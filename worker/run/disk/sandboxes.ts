/**
 * `Sandboxes` manages the sandbox folders on this worker's disk: one folder and one record per run.
 *
 * A folder is created before its run and retained after it, so that a person can resume the sandbox. The record says
 * until when, and whether the folder holds work that exists nowhere else, which goes on the host's word alone. Discarding
 * renames a folder into the trash and deletes it in the background; after a crash the next start finishes the deletion.
 */
import { readdir, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RetentionClock } from '../../../core/daemon/ports.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { ExpiredSandbox } from '../../../protocol/frames.ts'
import type { TranscriptFiles } from '../../agents/agent.ts'
import type { RunFolders } from '../../git/git-ports.ts'
import { findFreeNumber } from '../../sandbox/folders.ts'
import { unpublishedWork } from '../execution/unpublished-work.ts'
import { measureDiskUsage } from './disk-space.ts'
import { makeFolders, renewHome } from './new-home.ts'
import {
  hadAgent,
  numberOf,
  RECORD_FILE,
  readRecord,
  type SandboxAgent,
  type SandboxIsolation,
  type SandboxRecord,
} from './sandbox-record.ts'
import { SandboxTrash, selectBeyondQuota, sortForDiscarding } from './space-reclaimer.ts'

export interface SandboxFolders extends RunFolders {
  readonly root: string
  /** Mounted as /out inside; holds artifacts and memories. */
  readonly out: string
}

export type NumberedFolders = SandboxFolders & { readonly number: number }

export interface SandboxesOptions {
  readonly folder: string
  readonly trash: string
  readonly clock: RetentionClock
  readonly log: Log
  /** The user that the sandbox with this number runs as; undefined: the worker's own user. */
  readonly ownerFor: (number: number) => { readonly uid: number; readonly gid: number } | undefined
  /** The number at which the search for a free sandbox number begins. */
  readonly firstNumber: number
  /** The size of this disk; undefined: unknown. */
  readonly diskBytes: () => Promise<number | undefined>
  /** Deletes a folder with untrusted content. */
  readonly deleteFolder: (folder: string) => Promise<void>
}

/** Follows the run id in the name of a folder that was set aside; no name of a run has a dot. */
const ASIDE = '.aside-'
const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/

export const isRunFolderName = (runId: string): boolean => RUN_ID.test(runId)

export class Sandboxes {
  readonly #options: SandboxesOptions
  readonly #records = new Map<string, SandboxRecord>()
  /** The numbers of folders whose records cannot be read, by run id. */
  readonly #unreadable = new Map<string, number>()
  /** Runs whose record was found without an end of its retention: they died with an earlier daemon. */
  readonly #orphans = new Set<string>()
  /** Expired sandboxes whose wait for the host's word is logged. */
  readonly #loggedWaits = new Set<string>()
  /** Measurements that are still running. */
  readonly #measurements = new Set<Promise<void>>()
  readonly #trash: SandboxTrash
  #writing: Promise<void> = Promise.resolve()

  private constructor(options: SandboxesOptions) {
    this.#options = options
    this.#trash = new SandboxTrash(options)
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

  /** No agent ever ran in the sandbox. */
  isUnused(runId: string): boolean {
    const record = this.#records.get(runId)
    return record === undefined || !hadAgent(record)
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

  /** Creates a new sandbox and discards the one of an earlier attempt of the same run. */
  async create(runId: string, quotaGib: number | undefined): Promise<SandboxFolders & { number: number }> {
    if (!isRunFolderName(runId)) throw new Error(`not a name for a folder: ${JSON.stringify(runId)}`)
    await this.#setAside(runId)
    await this.discard(runId)
    const taken = [...this.all().map((record) => record.number), ...this.#unreadable.values()]
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
    // Reserve the number at once, so that a concurrent `create` gets a different one.
    this.#records.set(runId, record)
    this.#orphans.delete(runId)
    const folders = this.foldersOf(runId)
    await makeFolders(folders, this.#options.ownerFor(number))
    await this.#write(record)
    return { ...folders, number }
  }

  /** Returns the retained sandbox of an earlier execution of the run with a new home, unless it has expired. */
  async openRetained(runId: string, transcripts?: TranscriptFiles): Promise<NumberedFolders | undefined> {
    const folders = await this.openAsItIs(runId)
    if (folders !== undefined) await this.renewHome(runId, transcripts)
    return folders
  }

  /** The same with the home of the earlier execution, in which no agent begins. */
  async openAsItIs(runId: string): Promise<NumberedFolders | undefined> {
    const record = this.#records.get(runId)
    if (record?.retainedUntil === undefined || record.retainedUntil <= this.#instant()) return undefined
    // Its preparation was interrupted, so the checkout may be incomplete.
    if (this.isUnused(runId)) return undefined
    const folders = this.foldersOf(runId)
    const isThere = await stat(folders.work).then(
      (stats) => stats.isDirectory(),
      () => false,
    )
    if (!isThere) return undefined
    // If this process dies, `recover` must not report usage that earlier executions have already reported.
    const agent = record.agent === undefined ? {} : { agent: { ...record.agent, since: this.#instant() } }
    await this.#write({ ...record, ...agent })
    return { ...folders, number: record.number }
  }

  /** Records the agent of a run, so that its usage can be read after a crash. Writes in the background. */
  recordAgent(runId: string, agent: SandboxAgent, walls?: SandboxIsolation): void {
    const before = this.#records.get(runId)
    if (before === undefined) return
    const { sessionId, ...record } = before
    // Another session begins, and its agent will name it.
    const known = sessionId === agent.session ? { sessionId } : {}
    this.#write({ ...record, ...known, agent, ...(walls === undefined ? {} : { walls }) }).catch((error) =>
      this.#options.log.warn(
        { err: error, runId },
        'the agent of a run could not be recorded; after a crash its usage is lost',
      ),
    )
  }

  /** Retains the sandbox of a finished run for some hours; returns until when. */
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
    this.#orphans.delete(runId)
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

  /** Records that a person used the sandbox and may have left work that exists nowhere else. */
  async markVisited(runId: string): Promise<void> {
    const record = this.#records.get(runId)
    if (record === undefined) return
    if (!record.unpushed) await this.#write({ ...record, unpushed: true })
    this.#measureInBackground(runId)
  }

  /** Runs in the background, because a large tree takes long. */
  #measureInBackground(runId: string): void {
    const measuring: Promise<void> = measureDiskUsage(this.foldersOf(runId).root)
      .then(async (usage) => {
        const record = this.#records.get(runId)
        if (record?.retainedUntil !== undefined) await this.#write({ ...record, ...usage })
      })
      // The folder is gone or the disk is full: keep the old value.
      .catch(() => {})
      .finally(() => this.#measurements.delete(measuring))
    this.#measurements.add(measuring)
  }

  /** Returns whether the folder is in the trash now. */
  async discard(runId: string): Promise<boolean> {
    if (!isRunFolderName(runId)) return false
    const { root } = this.foldersOf(runId)
    // Delete the record first, so that nothing opens a folder that is about to be deleted.
    this.#records.delete(runId)
    this.#orphans.delete(runId)
    this.#loggedWaits.delete(runId)
    return this.#trash.move(root, runId)
  }

  /** Gives a retained sandbox a new home before it is used again. */
  async renewHome(runId: string, transcripts: TranscriptFiles | undefined): Promise<void> {
    const record = this.#records.get(runId)
    if (record === undefined) throw new Error(`the sandbox of ${runId} is gone`)
    await renewHome({
      home: this.foldersOf(runId).home,
      owner: this.#options.ownerFor(record.number),
      transcripts,
      discard: (folder) => this.#trash.move(folder, runId),
    })
  }

  /**
   * Discards expired sandboxes and those beyond the quota, never a busy one. Returns the expired ones that need the
   * host's word.
   */
  async reclaim(isBusy: (runId: string) => boolean): Promise<readonly ExpiredSandbox[]> {
    const diskBytes = await this.#options.diskBytes()
    const { expired, retained } = this.#listIdle(isBusy)
    const waiting = expired.filter((record) => !this.#mayGo(record))
    const excess = selectBeyondQuota([...retained, ...waiting], diskBytes)
    for (const record of [...expired, ...excess]) {
      const { runId } = record
      if (waiting.includes(record) && !excess.includes(record)) continue
      // Each deletion takes a while: meanwhile a person may have resumed the sandbox, or a new attempt begun.
      if (isBusy(runId) || this.#records.get(runId)?.createdAt !== record.createdAt) continue
      if (excess.includes(record)) this.#logDropped(record, 'for the disk quota')
      await this.discard(runId)
    }
    return waiting.filter(({ runId }) => this.#records.has(runId)).map((record) => this.#nameExpired(record))
  }

  /** The retained sandboxes that are not busy, in the order in which a full disk takes them. */
  listDiscardable(isBusy: (runId: string) => boolean): readonly SandboxRecord[] {
    const { expired, retained } = this.#listIdle(isBusy)
    return sortForDiscarding([...expired, ...retained])
  }

  /** How many sandboxes a full disk may not take, because they hold unpushed work. */
  countKept(isBusy: (runId: string) => boolean): number {
    return this.all().filter(({ runId, unpushed }) => unpushed && !isBusy(runId)).length
  }

  /** Discards a retained sandbox to make room on the disk; returns whether its folder is in the trash now. */
  async discardForSpace(record: SandboxRecord): Promise<boolean> {
    this.#logDropped(record, 'because the disk is full')
    return this.discard(record.runId)
  }

  #listIdle(isBusy: (runId: string) => boolean) {
    const now = this.#instant()
    const idle = this.all().filter(({ runId }) => !isBusy(runId))
    const expired = idle.filter(({ runId, retainedUntil }) =>
      retainedUntil === undefined ? this.#orphans.has(runId) : retainedUntil <= now,
    )
    const retained = idle.filter((record) => record.retainedUntil !== undefined && !expired.includes(record))
    return { expired, retained }
  }

  /** Whether an expired sandbox may go without the host's word. */
  #mayGo(record: SandboxRecord): boolean {
    if (record.unpushed) return record.retainedUntil === undefined && !hadAgent(record)
    return this.#options.clock.isConfirmed()
  }

  #nameExpired({ runId, retainedUntil, createdAt, unpushed, bytes }: SandboxRecord): ExpiredSandbox {
    if (unpushed && !this.#loggedWaits.has(runId)) {
      this.#loggedWaits.add(runId)
      this.#options.log.info(
        { runId, bytes },
        'a sandbox with unpushed work has expired and is kept until the host has it discarded',
      )
    }
    return { runId, retainedUntil: retainedUntil ?? createdAt }
  }

  /**
   * Tries the failed deletions again, and waits for all deletions and measurements, so that freed space and recorded
   * sizes are up to date. Returns whether every deletion succeeded.
   */
  async emptyTrash(): Promise<boolean> {
    this.#trash.retry()
    await this.waitUntilSettled()
    return this.#trash.isEmpty
  }

  /** Resolves when all deletions, measurements and writes are done. */
  async waitUntilSettled(): Promise<void> {
    while (this.#trash.isBusy || this.#measurements.size > 0)
      await Promise.all([this.#trash.waitUntilSettled(), ...this.#measurements])
    await this.#writing
  }

  #logDropped({ runId, bytes }: SandboxRecord, why: string): void {
    this.#options.log.info({ runId, bytes }, `the oldest sandbox with pushed work is discarded ${why}`)
  }

  // ---- the disk --------------------------------------------------------------------------------------------------

  /** Writes run one after the other, so that a later record is never overwritten by an earlier one. */
  #write(record: SandboxRecord): Promise<void> {
    this.#records.set(record.runId, record)
    const written = this.#writing.then(() => this.#writeFile(record))
    this.#writing = written.catch(() => {})
    return written
  }

  /** Flushes only records of retained sandboxes: an interrupted run starts again without its folder. */
  async #writeFile(record: SandboxRecord): Promise<void> {
    const path = join(this.foldersOf(record.runId).root, RECORD_FILE)
    const flush = record.retainedUntil !== undefined
    await writeFile(`${path}.new`, JSON.stringify(record), { mode: 0o600, flush })
    await rename(`${path}.new`, path)
  }

  /** Loads the records at the start: of finished runs, and of runs that died with an earlier daemon. */
  async #loadRecords(): Promise<void> {
    const { folder, trash, log } = this.#options
    for (const name of await readdir(folder)) {
      const record = await readRecord(join(folder, name, RECORD_FILE), name)
      if (record === 'unreadable' || (record === 'damaged' && (await this.#mayHoldWork(name)))) {
        log.warn({ runId: name }, 'the record of a sandbox cannot be read now, so its folder is left alone')
        this.#unreadable.set(name, await numberOf(this.foldersOf(name).work))
      } else if (record !== 'damaged') this.#addFound(record)
      else if (isRunFolderName(name)) {
        log.warn({ runId: name }, 'a sandbox folder without a readable record is discarded')
        await this.discard(name)
      }
    }
    for (const name of await readdir(trash)) this.#trash.deleteInBackground(join(trash, name))
  }

  /** A note of finished work lies there, be it readable or not, so the folder is more than the rest of a dead run. */
  async #mayHoldWork(name: string): Promise<boolean> {
    if (!isRunFolderName(name)) return false
    const note = await unpublishedWork.read(this.foldersOf(name))
    return !note.ok || note.value !== undefined
  }

  #addFound(record: SandboxRecord): void {
    this.#records.set(record.runId, record)
    if (record.retainedUntil === undefined) this.#orphans.add(record.runId)
  }

  /** Moves a folder that may hold work that exists nowhere else out of the way of a new one. */
  async #setAside(runId: string): Promise<void> {
    if (!this.#unreadable.has(runId)) return
    const aside = `${this.foldersOf(runId).root}${ASIDE}${this.#options.clock.now()}`
    await rename(this.foldersOf(runId).root, aside)
    this.#options.log.warn({ runId, folder: aside }, 'a sandbox whose record cannot be read was set aside')
  }

  #instant(): string {
    return new Date(this.#options.clock.now()).toISOString()
  }
}
