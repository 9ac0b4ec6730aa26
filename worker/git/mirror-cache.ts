/**
 * One bare copy a repository, kept between runs, so that a run fetches only what is new.
 *
 * It is the worker's own: what is in it came from the code host and nothing of an agent's ever goes in. Runs see it
 * read-only, under another user's id, so its files are readable by all; the folder above is not. One at a time uses a
 * copy. A new copy takes its place by a rename, so a half made one is never taken for whole; a damaged one is made
 * anew, at the same place, for other runs may borrow objects from it.
 */
import { createHash } from 'node:crypto'
import { readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { Git, Remote } from './git.ts'
import { type Account, accountOf, type Trouble } from './git-errors.ts'
import { Turns } from './keyed-queue.ts'
import { type Copy, copyAt, isFolder, makePassable, swap, sweep } from './mirror-folders.ts'
import { type Endurance, type Patience, patiently, type Tried } from './retry.ts'

export interface Wanted {
  /** owner/name */
  readonly name: string
  readonly remote: Remote
}

export interface RepositoryCache {
  /** Brings the copy up to date, then lends it: nobody changes it before `work` is done. */
  use<T>(
    wanted: Wanted,
    signal: AbortSignal | undefined,
    work: (folder: string) => Promise<Result<T>>,
    endurance?: Endurance,
  ): Promise<Result<T>>
  /** Throws the copy away and fetches it whole; only from within `use`. */
  renew(wanted: Wanted, signal: AbortSignal | undefined): Promise<Result<void>>
  folderOf(wanted: Wanted): string
  /** Deletes what nobody has used for long, then the longest unused until the rest fits; tidies up the others. */
  prune(budget: CacheBudget): Promise<void>
}

export interface CacheBudget {
  readonly unusedMsMax: number
  readonly bytesMax: number
  /** Used as recently as this it stays, whatever its size: a run may be borrowing from it. */
  readonly sparedMs: number
}

export interface CacheParts extends Patience {
  readonly folder: string
  readonly git: Git
  readonly clock: Pick<Clock, 'after' | 'monotonic' | 'now'>
}

const FETCH_MS_MAX = 30 * 60_000
const LOCAL_MS_MAX = 60_000
const TIDY_MS_MAX = 30 * 60_000
/** Each fetch may add one; many make everything slow. */
const PACKS_MAX = 40
/** Longer than any run lasts: what its base needs stays, also when the code host forgets it. */
const UNREACHABLE_KEPT = '14.days.ago'
const NAME_CHARS_MAX = 80
const COPY = /\.git$/
const HALF_MADE = /\.(new|old)$/

export function repositoryCache(parts: CacheParts): RepositoryCache {
  return new FolderCache(parts)
}

class FolderCache implements RepositoryCache {
  readonly #parts: CacheParts
  readonly #turns = new Turns()

  constructor(parts: CacheParts) {
    this.#parts = parts
  }

  folderOf({ name, remote }: Wanted): string {
    const plain = name.replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, NAME_CHARS_MAX)
    const hash = createHash('sha256').update(`${name}\n${remote.address}`).digest('hex').slice(0, 16)
    return join(this.#parts.folder, `r-${plain}-${hash}.git`)
  }

  use<T>(
    wanted: Wanted,
    signal: AbortSignal | undefined,
    work: (folder: string) => Promise<Result<T>>,
    endurance?: Endurance,
  ) {
    const folder = this.folderOf(wanted)
    return this.#turns.take(folder, signal, async () => {
      const fresh = await this.#refresh(folder, wanted, signal, endurance)
      if (!fresh.ok) return fresh
      await this.#touch(folder)
      return work(folder)
    })
  }

  async renew(wanted: Wanted, signal: AbortSignal | undefined): Promise<Result<void>> {
    return this.#make(this.folderOf(wanted), wanted, signal, undefined)
  }

  async prune({ unusedMsMax, bytesMax, sparedMs }: CacheBudget): Promise<void> {
    const copies = await this.#copies()
    let left = copies.reduce((sum, { bytes }) => sum + bytes, 0)
    for (const { folder, bytes, usedAt } of copies) {
      const unusedMs = this.#parts.clock.now() - usedAt
      const goes = unusedMs > unusedMsMax || (left > bytesMax && unusedMs >= sparedMs)
      if (!goes) await this.#inTurn(folder, () => this.#tidy(folder))
      // Used since it was looked at: left in peace.
      else if (await this.#dropped(folder, usedAt)) left -= bytes
    }
  }

  // ---- fetching --------------------------------------------------------------------------------------------------

  async #refresh(
    folder: string,
    wanted: Wanted,
    signal: AbortSignal | undefined,
    endurance: Endurance | undefined,
  ): Promise<Result<void>> {
    if (!(await isFolder(folder))) return this.#make(folder, wanted, signal, endurance)
    const fetched = await this.#fetch(folder, wanted, signal, endurance)
    if (fetched.ok) return yes(undefined)
    // Damage has many faces. What is not known to be the code host's doing is tried once with a new copy.
    const isMaybeOurs = fetched.trouble === 'corrupt' || fetched.trouble === 'strange'
    if (!isMaybeOurs) return fetched.no
    return this.#make(folder, wanted, signal, endurance)
  }

  async #make(
    folder: string,
    wanted: Wanted,
    signal: AbortSignal | undefined,
    endurance: Endurance | undefined,
  ): Promise<Result<void>> {
    const draft = `${folder}.new`
    await makePassable(this.#parts.folder)
    await rm(draft, { recursive: true, force: true })
    const made = await this.#parts.git.done(`making a copy of ${wanted.name}`, {
      // Readable by all whatever the umask is: whoever a run is outside has to read it.
      args: ['init', '--quiet', '--bare', '--shared=0644', '--template=', draft],
      timeoutMs: LOCAL_MS_MAX,
    })
    if (!made.ok) return made
    const fetched = await this.#fetch(draft, wanted, signal, endurance)
    if (fetched.ok) await swap(draft, folder)
    else await rm(draft, { recursive: true, force: true })
    return fetched.ok ? yes(undefined) : fetched.no
  }

  /** Branches and tags as they are there now, in the place of those that were here. */
  async #fetch(
    folder: string,
    wanted: Wanted,
    signal: AbortSignal | undefined,
    endurance: Endurance | undefined,
  ): Promise<Fetched> {
    let trouble: Trouble = 'lasting'
    const attempt = async (): Promise<Tried<void>> => {
      const once = await this.#fetchOnce(folder, wanted, signal)
      if (once.ok) return { answer: yes(undefined), passes: false }
      await sweep(folder)
      trouble = once.trouble
      return { answer: once.no, passes: trouble === 'network' || trouble === 'locked' }
    }
    const fetched = await patiently(this.#parts, signal, attempt, endurance)
    return fetched.ok ? { ok: true } : { ok: false, trouble, no: fetched }
  }

  async #fetchOnce(
    folder: string,
    { name, remote }: Wanted,
    signal: AbortSignal | undefined,
  ): Promise<Fetched> {
    const ran = await this.#parts.git.run({
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
    if (!ran.ok) return { ok: false, trouble: 'lasting', no: ran }
    if (ran.value.code === 0) return { ok: true }
    return { ok: false, ...accountOf(`fetching ${name}`, ran.value.complaint) }
  }

  // ---- keeping house -----------------------------------------------------------------------------------------------

  /** Longest unused first. What is half made belongs to a fetch that died, unless one is under way. */
  async #copies(): Promise<Copy[]> {
    const names = await readdir(this.#parts.folder).catch((): string[] => [])
    for (const name of names.filter((one) => HALF_MADE.test(one))) {
      const folder = join(this.#parts.folder, name)
      await this.#inTurn(folder.replace(HALF_MADE, ''), () => rm(folder, { recursive: true, force: true }))
    }
    const folders = names.filter((name) => COPY.test(name)).map((name) => join(this.#parts.folder, name))
    const copies = await Promise.all(folders.map(copyAt))
    return copies.filter((copy) => copy !== undefined).sort((a, b) => a.usedAt - b.usedAt)
  }

  async #dropped(folder: string, usedAt: number): Promise<boolean> {
    let isDropped = false
    await this.#inTurn(folder, async () => {
      const now = await stat(folder).catch(() => undefined)
      isDropped = now?.mtimeMs === usedAt
      if (isDropped) await rm(folder, { recursive: true, force: true })
    })
    return isDropped
  }

  async #tidy(folder: string): Promise<void> {
    const packs = await readdir(join(folder, 'objects/pack')).catch((): string[] => [])
    if (packs.filter((name) => name.endsWith('.pack')).length <= PACKS_MAX) return
    const usedAt = (await stat(folder)).mtime
    await this.#parts.git.run({
      args: ['gc', '--quiet', `--prune=${UNREACHABLE_KEPT}`],
      folder,
      timeoutMs: TIDY_MS_MAX,
    })
    await utimes(folder, usedAt, usedAt)
  }

  async #inTurn(folder: string, work: () => Promise<void>): Promise<void> {
    await this.#turns.take(folder, undefined, async () => yes(await work()))
  }

  async #touch(folder: string): Promise<void> {
    const now = new Date(this.#parts.clock.now())
    await utimes(folder, now, now)
  }
}

type Fetched = { readonly ok: true } | ({ readonly ok: false } & Account)
