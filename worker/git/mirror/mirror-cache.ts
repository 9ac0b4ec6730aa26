/**
 * `MirrorCache` keeps one bare mirror per repository between runs, so that a run fetches only new objects.
 *
 * A mirror contains only data from the code host, never an agent's. The files are readable by all users, because runs
 * mount it read-only under other users; its parent folder cannot be listed. A mirror is used by one task at a time. A new
 * mirror is complete before a rename puts it in place. A damaged mirror is fetched again at the same path, because run
 * repositories borrow objects from it.
 */
import { createHash } from 'node:crypto'
import { readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { KeyedQueue } from '../../../core/keyed-queue.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import type { Git, Remote } from '../git.ts'
import { explainEnd, explainUnreadable, type GitErrorKind, type GitFailure } from '../git-errors.ts'
import { type Attempt, type LongRetry, type RetryPorts, withRetries } from '../retry.ts'
import {
  countPacks,
  createBareRepository,
  deleteLeftovers,
  estimateLooseObjects,
  isFolder,
  type MirrorFolder,
  makePassable,
  measureMirror,
  replaceFolder,
} from './bare-repository.ts'
import { deleteUnusedCopies } from './branch-copy.ts'

export interface RemoteRepository {
  /** owner/name */
  readonly name: string
  readonly remote: Remote
  /** The provider whose credential the remote asks for; absent where no credential of the configuration is used. */
  readonly credentialOf?: string
}

export interface MirrorCacheLimits {
  readonly unusedMsMax: number
  readonly bytesMax: number
  /** Mirrors used more recently stay, whatever their size, because a run may borrow objects from them. */
  readonly protectedMs: number
}

export interface MirrorCachePorts extends RetryPorts {
  readonly folder: string
  readonly git: Git
  readonly clock: Pick<Clock, 'after' | 'monotonic' | 'now'>
}

const FETCH_MS_MAX = 30 * 60_000
const REPACK_MS_MAX = 30 * 60_000
/** Each fetch may add a pack, and many packs make git slow: more than this number is repacked. */
const PACKS_MAX = 40
/** Loose objects are slow to copy and take an inode each: more than about this number is packed. */
const LOOSE_OBJECTS_MAX = 1_000
/** Longer than any run: the objects of a run's base stay, even if the code host drops them. */
const UNREACHABLE_PRUNED_AFTER = '14.days.ago'
const NAME_CHARS_MAX = 80
const MIRROR_NAME = /\.git$/
const UNFINISHED_NAME = /\.(new|old)$/

export class MirrorCache {
  readonly #ports: MirrorCachePorts
  readonly #queue = new KeyedQueue()
  /** By mirror, the end of its last fetch when the remote could not be reached. */
  readonly #unreachable = new Map<string, { readonly at: number; readonly refused: Refused }>()

  constructor(ports: MirrorCachePorts) {
    this.#ports = ports
  }

  folderOf({ name, remote }: RemoteRepository): string {
    const plain = name.replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, NAME_CHARS_MAX)
    const hash = createHash('sha256').update(`${name}\n${remote.address}`).digest('hex').slice(0, 16)
    return join(this.#ports.folder, `r-${plain}-${hash}.git`)
  }

  /**
   * Updates the mirror, then runs `work`; the mirror does not change before `work` ends. Calls `onTurn` when earlier tasks
   * have ended, before the update. A task that is given back does not repeat an update that failed while it waited,
   * because the remote could not be reached.
   */
  use<T>(
    repository: RemoteRepository,
    signal: AbortSignal | undefined,
    work: (folder: string) => Promise<Result<T>>,
    longRetry?: LongRetry,
    onTurn?: () => void,
  ): Promise<Result<T>> {
    const folder = this.folderOf(repository)
    const askedAt = this.#ports.clock.monotonic()
    return runUnlessAborted(this.#queue, folder, signal, async () => {
      onTurn?.()
      const known = this.#unreachable.get(folder)
      if (longRetry?.isGivenBack === true && known !== undefined && known.at >= askedAt) return known.refused
      const fresh = await this.#refresh(folder, repository, signal, longRetry)
      if (!fresh.ok) return fresh
      await this.#markUsed(folder)
      return work(folder)
    })
  }

  /** Replaces the mirror by a full fetch; call it only from within `use`. */
  async refetch(repository: RemoteRepository, signal: AbortSignal | undefined): Promise<Result<void>> {
    return this.#create(this.folderOf(repository), repository, signal, undefined)
  }

  /** Deletes mirrors that are unused for long, then the longest unused until the rest fits; packs the others. */
  async prune({ unusedMsMax, bytesMax, protectedMs }: MirrorCacheLimits): Promise<void> {
    const mirrors = await this.#listMirrors()
    let left = mirrors.reduce((sum, { bytes }) => sum + bytes, 0)
    for (const { folder, bytes, usedAt } of mirrors) {
      const unusedMs = this.#ports.clock.now() - usedAt
      const goes = unusedMs > unusedMsMax || (left > bytesMax && unusedMs >= protectedMs)
      if (!goes) await this.#inQueue(folder, () => this.#maintain(folder, unusedMsMax))
      // `#deleteUnused` spares a mirror that was used since it was measured.
      else if (await this.#deleteUnused(folder, usedAt)) left -= bytes
    }
  }

  // ---- fetching --------------------------------------------------------------------------------------------------

  async #refresh(
    folder: string,
    repository: RemoteRepository,
    signal: AbortSignal | undefined,
    longRetry: LongRetry | undefined,
  ): Promise<Result<void>> {
    if (!(await isFolder(folder))) return this.#create(folder, repository, signal, longRetry)
    const fetched = await this.#fetch(folder, repository, signal, longRetry)
    if (fetched.ok) return yes(undefined)
    // Damage causes many different messages, so an unknown failure is tried once with a new mirror.
    const isMaybeOurs = fetched.errorKind === 'corrupt' || fetched.errorKind === 'unknown'
    if (!isMaybeOurs) return fetched.refused
    return this.#create(folder, repository, signal, longRetry)
  }

  async #create(
    folder: string,
    repository: RemoteRepository,
    signal: AbortSignal | undefined,
    longRetry: LongRetry | undefined,
  ): Promise<Result<void>> {
    const draft = `${folder}.new`
    await makePassable(this.#ports.folder)
    await rm(draft, { recursive: true, force: true })
    // Sandbox users must read it.
    await createBareRepository(draft, { isShared: true })
    const fetched = await this.#fetch(draft, repository, signal, longRetry)
    if (fetched.ok) await replaceFolder(draft, folder)
    else await rm(draft, { recursive: true, force: true })
    return fetched.ok ? yes(undefined) : fetched.refused
  }

  /** Replaces all branches and tags by those of the remote. */
  async #fetch(
    folder: string,
    repository: RemoteRepository,
    signal: AbortSignal | undefined,
    longRetry: LongRetry | undefined,
  ): Promise<FetchResult> {
    let errorKind: GitErrorKind = 'permanent'
    const attempt = async (): Promise<Attempt<void>> => {
      const once = await this.#fetchOnce(folder, repository, signal)
      if (once.ok) return { result: yes(undefined), isTransient: false }
      await deleteLeftovers(folder)
      errorKind = once.errorKind
      return { result: once.refused, isTransient: errorKind === 'network' || errorKind === 'locked' }
    }
    const fetched = await withRetries(this.#ports, signal, attempt, longRetry)
    this.#unreachable.delete(this.folderOf(repository))
    if (fetched.ok) return { ok: true }
    const refused = explainUnreadable(repository, fetched, errorKind)
    if (refused.refusal.failure === 'network')
      this.#unreachable.set(this.folderOf(repository), { at: this.#ports.clock.monotonic(), refused })
    return { ok: false, errorKind, refused }
  }

  async #fetchOnce(
    folder: string,
    { name, remote }: RemoteRepository,
    signal: AbortSignal | undefined,
  ): Promise<FetchResult> {
    const ran = await this.#ports.git.run({
      args: [
        'fetch',
        '--quiet',
        '--prune',
        '--force',
        '--no-tags',
        '--no-write-fetch-head',
        '--no-auto-maintenance',
        remote.address,
        '+refs/heads/*:refs/heads/*',
        '+refs/tags/*:refs/tags/*',
      ],
      folder,
      remote,
      timeoutMs: FETCH_MS_MAX,
      ...(signal === undefined ? {} : { signal }),
    })
    if (!ran.ok) return { ok: false, errorKind: 'permanent', refused: ran }
    if (ran.value.code === 0) return { ok: true }
    return { ok: false, ...explainEnd(`fetching ${name}`, ran.value) }
  }

  // ---- maintenance -------------------------------------------------------------------------------------------------

  /** Longest unused first. Deletes unfinished mirrors of interrupted fetches, in the queue of their mirror. */
  async #listMirrors(): Promise<MirrorFolder[]> {
    const names = await readdir(this.#ports.folder).catch((): string[] => [])
    for (const name of names.filter((entry) => UNFINISHED_NAME.test(entry))) {
      const folder = join(this.#ports.folder, name)
      await this.#inQueue(folder.replace(UNFINISHED_NAME, ''), () =>
        rm(folder, { recursive: true, force: true }),
      )
    }
    const folders = names
      .filter((name) => MIRROR_NAME.test(name))
      .map((name) => join(this.#ports.folder, name))
    const copies = await Promise.all(folders.map(measureMirror))
    return copies.filter((copy) => copy !== undefined).sort((a, b) => a.usedAt - b.usedAt)
  }

  async #deleteUnused(folder: string, usedAt: number): Promise<boolean> {
    let isDropped = false
    await this.#inQueue(folder, async () => {
      const now = await stat(folder).catch(() => undefined)
      isDropped = now?.mtimeMs === usedAt
      if (isDropped) await rm(folder, { recursive: true, force: true })
    })
    return isDropped
  }

  async #maintain(folder: string, unusedMsMax: number): Promise<void> {
    const usedAt = (await stat(folder)).mtime
    await deleteUnusedCopies(folder, this.#ports.clock.now() - unusedMsMax)
    const isPacked =
      (await countPacks(folder)) <= PACKS_MAX && (await estimateLooseObjects(folder)) <= LOOSE_OBJECTS_MAX
    if (!isPacked)
      await this.#ports.git.run({
        args: ['gc', '--quiet', `--prune=${UNREACHABLE_PRUNED_AFTER}`],
        folder,
        timeoutMs: REPACK_MS_MAX,
      })
    await utimes(folder, usedAt, usedAt)
  }

  async #inQueue(folder: string, work: () => Promise<void>): Promise<void> {
    await this.#queue.run(folder, work)
  }

  async #markUsed(folder: string): Promise<void> {
    const now = new Date(this.#ports.clock.now())
    await utimes(folder, now, now)
  }
}

const STOPPED_WAITING = no('conflict', 'stopped while waiting for another run of the same repository')

/** Refuses at once when `signal` aborts while the task waits; a running task handles the signal itself. */
function runUnlessAborted<T>(
  queue: KeyedQueue,
  key: string,
  signal: AbortSignal | undefined,
  work: () => Promise<Result<T>>,
): Promise<Result<T>> {
  return new Promise((resolve, reject) => {
    const leave = () => resolve(STOPPED_WAITING)
    if (signal?.aborted === true) return leave()
    signal?.addEventListener('abort', leave, { once: true })
    const begin = async () => {
      signal?.removeEventListener('abort', leave)
      return signal?.aborted === true ? STOPPED_WAITING : work()
    }
    queue.run(key, begin).then(resolve, reject)
  })
}

type FetchResult = { readonly ok: true } | ({ readonly ok: false } & GitFailure)
