/**
 * Pull request host for a folder of bare repositories: shows and does offline what GitHub would.
 *
 * Title and conversation come from the pull request's file; git supplies branches and changes on every read. Merges are
 * real git merges. A merge moves the branch first and updates the file second; when the second step fails, the next
 * read repairs the file.
 */
import { relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Clock } from '../../../core/ports/clock.ts'
import type {
  PullBranches,
  PullDetailFacts,
  PullFacts,
  PullIdentity,
  PullReference,
  PullRequestApi,
  Urgency,
} from '../../../core/ports/code-host.ts'
import type { Log } from '../../../core/ports/log.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { PULLS_DONE_MAX, PULLS_OPEN_MAX } from '../../../protocol/limits.ts'
import type {
  CodehostRepo,
  MergeRequest,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewRequest,
} from '../../../protocol/pulls.ts'
import type { PullState } from '../../../protocol/run.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { UNSEEN_COMMITS } from '../code-host-driver.ts'
import { isRemote, ownerOf } from '../remote-name.ts'
import { LocalCodeHost } from './code-host.ts'
import { type GitIdentity, mergePull, readGitIdentity } from './git-merge.ts'
import { instantFromMs, isRepository } from './git-repository.ts'
import { createGitRunner, type RunGit } from './git-run.ts'
import {
  addComment,
  addReply,
  addReview,
  closePull,
  isOpen,
  markMerged,
  markReady,
  type PullEditStamp,
  readState,
  reopenPull,
  setThreadResolved,
} from './pull-actions.ts'
import type { DatedPull } from './pull-file.ts'
import { pullNumberOf } from './pull-folder.ts'
import {
  type LocalRepository,
  type PullsAndRefs,
  readPullDetail,
  readPullSizes,
  reconcilePulls,
  resolveBranchShas,
  toPullFacts,
} from './pull-state.ts'
import { listLocalRepos } from './repos.ts'
import { checkMerge, checkReopen, type LocatedPull, placeComments } from './rules.ts'

export interface LocalPullHostOptions {
  /** Folder of the repositories; a relative path starts at the working directory of the process. */
  readonly path: string
  readonly clock: Pick<Clock, 'now' | 'after'>
  /** Receives warnings about unreadable files. */
  readonly log?: Log
  /** Environment that locates the person's git configuration; absent: the environment of this process. */
  readonly home?: Readonly<Record<string, string | undefined>>
}

/** Attempts of a merge whose base branch moves meanwhile. */
const MERGE_TRIES_MAX = 3
const MERGED_MESSAGE = 'Pull Request successfully merged'

export function createLocalPullHost(options: LocalPullHostOptions): PullRequestApi {
  return new LocalPullHost(options)
}

class LocalPullHost implements PullRequestApi {
  readonly #path: string
  readonly #clock: Pick<Clock, 'now' | 'after'>
  readonly #log: Log | undefined
  readonly #home: Readonly<Record<string, string | undefined>>
  readonly #codeHost: LocalCodeHost
  readonly #gitIn: (folder: string) => RunGit
  /** Problems that were logged already. */
  readonly #reportedProblems = new Set<string>()

  constructor({ path, clock, log, home = process.env }: LocalPullHostOptions) {
    this.#path = resolve(path)
    this.#clock = clock
    this.#log = log
    this.#home = home
    this.#codeHost = new LocalCodeHost(this.#path, clock)
    this.#gitIn = createGitRunner(clock)
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  repos(): Promise<Result<readonly CodehostRepo[]>> {
    return listLocalRepos(this.#path, this.#gitIn, this.#clock.now())
  }

  /** Local reads need no rate limit, so `_urgency` has no effect. */
  async list(remote: string, _urgency: Urgency): Promise<Result<readonly PullFacts[]>> {
    const repository = await this.#repository(remote)
    if (!repository.ok) return repository
    const found = await repository.value.folder.readAll()
    if (!found.ok) return found
    this.#reportProblems(remote, found.value.problems)
    const newest = [...found.value.pulls].sort(compareActivity)
    const open = newest.filter(isOpen).slice(0, PULLS_OPEN_MAX)
    const reconciled = await reconcilePulls(repository.value, open, this.#clock)
    if (!reconciled.ok) return reconciled
    const [stillOpen, settled] = [
      reconciled.value.pulls.filter(isOpen),
      reconciled.value.pulls.filter((pull) => !isOpen(pull)),
    ]
    const done = [...settled, ...newest.filter((pull) => !isOpen(pull))]
      .sort(compareActivity)
      .slice(0, PULLS_DONE_MAX)
    const listed = [...stillOpen, ...done]
    const shas = listed.map((pull) => resolveBranchShas(pull, reconciled.value.refs))
    const sizes = await readPullSizes(repository.value.run, shas, this.#clock)
    const facts = listed.map((pull, at) => ({
      ...this.#toFacts(repository.value, pull, reconciled.value),
      ...sizes[at],
      ...countComments(pull),
    }))
    return yes(facts.sort(compareActivity))
  }

  async detail(place: PullReference): Promise<Result<PullDetailFacts>> {
    const found = await this.#locate(place)
    if (!found.ok) return found
    const { repository, pull, refs } = found.value
    return readPullDetail(repository.run, pull, this.#toFacts(repository, pull, found.value), refs)
  }

  async branches(place: PullReference): Promise<Result<PullBranches>> {
    const found = await this.#locate(place)
    return found.ok ? yes(toBranches(place, found.value)) : found
  }

  async identity(place: PullReference): Promise<Result<PullIdentity>> {
    const found = await this.#locate(place)
    if (!found.ok) return found
    const { repository, pull } = found.value
    const { body = '', number } = pull
    return yes({
      ...toBranches(place, found.value),
      url: repository.urlOf(number),
      state: readState(pull),
      body,
    })
  }

  async states(
    remote: string,
    numbers: readonly number[],
    _urgency: Urgency,
  ): Promise<Result<ReadonlyMap<number, PullState>>> {
    const repository = await this.#repository(remote)
    if (!repository.ok) return repository
    const read = await Promise.all(numbers.map((number) => repository.value.folder.read(number)))
    // An unreadable pull request has no state to report.
    const pulls = read.flatMap((result) => (result.ok ? [result.value] : []))
    if (!pulls.some(isOpen)) return yes(toStates(pulls))
    const reconciled = await reconcilePulls(repository.value, pulls, this.#clock)
    return reconciled.ok ? yes(toStates(reconciled.value.pulls)) : reconciled
  }

  parseUrl(url: string): PullReference | undefined {
    return parseLocalPullUrl(this.#path, url)
  }

  // ---- state --------------------------------------------------------------------------------------------------------

  async merge(
    place: PullReference,
    method: MergeRequest['method'],
    seenSha?: string,
  ): Promise<Result<string>> {
    for (let tries = 0; tries < MERGE_TRIES_MAX; tries++) {
      const found = await this.#locate(place)
      if (!found.ok) return found
      const { run, folder } = found.value.repository
      const branches = await checkMerge(found.value)
      if (!branches.ok) return branches
      if (seenSha !== undefined && seenSha !== branches.value.head) return UNSEEN_COMMITS
      const [owner, at] = [ownerOf(place.remote), this.#clock.now()]
      const committer = await this.#readCommitter(found.value.repository)
      const done = await mergePull(run, method, {
        ...found.value.pull,
        ...branches.value,
        owner,
        committer,
        atMs: at,
      })
      if (!done.ok) return done
      if (done.value === 'moved') continue
      // The base branch has the commits. If this file update fails, the next read repairs the file.
      await folder.change(place.number, (pull) => markMerged(pull, instantFromMs(at)), this.#clock)
      return yes(MERGED_MESSAGE)
    }
    return no(
      'conflict',
      'the base branch keeps moving, or a crash left a lock file of git behind; check the repository, then try again',
    )
  }

  close(place: PullReference): Promise<Result<void>> {
    return this.#change(place, (pull, { at }) => closePull(pull, at))
  }

  async reopen(place: PullReference): Promise<Result<void>> {
    const found = await this.#locate(place)
    if (!found.ok) return found
    const may = found.value.pull.state === 'closed' ? await checkReopen(found.value) : yes(undefined)
    return may.ok ? this.#changeFound(found.value, (pull, { at }) => reopenPull(pull, at)) : may
  }

  markReady(place: PullReference): Promise<Result<void>> {
    return this.#change(place, (pull, { at }) => markReady(pull, at))
  }

  // ---- conversation -------------------------------------------------------------------------------------------------

  comment(place: PullReference, body: string): Promise<Result<void>> {
    return this.#change(place, (pull, stamp) => addComment(pull, body, stamp))
  }

  async review(place: PullReference, { comments = [], ...review }: ReviewRequest): Promise<Result<void>> {
    const found = await this.#locate(place)
    if (!found.ok) return found
    const placed = await placeComments(found.value, comments)
    if (!placed.ok) return placed
    return this.#changeFound(found.value, (pull, stamp) => addReview(pull, review, stamp, placed.value))
  }

  reply(place: PullReference, reply: ReplyRequest): Promise<Result<void>> {
    return this.#change(place, (pull, stamp) => addReply(pull, reply, stamp))
  }

  resolveThread(place: PullReference, request: ResolveThreadRequest): Promise<Result<void>> {
    return this.#change(place, (pull, { at }) => setThreadResolved(pull, request, at))
  }

  // ---- helpers ------------------------------------------------------------------------------------------------------

  async #change(
    place: PullReference,
    edit: (pull: DatedPull, stamp: PullEditStamp) => Result<DatedPull>,
  ): Promise<Result<void>> {
    const found = await this.#locate(place)
    return found.ok ? this.#changeFound(found.value, edit) : found
  }

  async #changeFound(
    { repository, pull }: LocatedPull,
    edit: (pull: DatedPull, stamp: PullEditStamp) => Result<DatedPull>,
  ): Promise<Result<void>> {
    const { name } = await this.#readCommitter(repository)
    const stamp = { author: name, at: instantFromMs(this.#clock.now()), url: repository.urlOf(pull.number) }
    const changed = await repository.folder.change(pull.number, (now) => edit(now, stamp), this.#clock)
    return changed.ok ? yes(undefined) : changed
  }

  async #locate({ remote, number }: PullReference): Promise<Result<LocatedPull>> {
    const repository = await this.#repository(remote)
    if (!repository.ok) return repository
    const read = await repository.value.folder.read(number)
    if (!read.ok) return read.refusal.kind === 'unknown' ? unknownPull(remote, number) : read
    const reconciled = await reconcilePulls(repository.value, [read.value], this.#clock)
    if (!reconciled.ok) return reconciled
    const { pulls, refs } = reconciled.value
    return yes({ repository: repository.value, pull: pulls[0] ?? read.value, refs })
  }

  async #repository(remote: string): Promise<Result<LocalRepository>> {
    const folder = this.#codeHost.pullFolder(remote)
    if (!folder.ok) return folder
    const address = this.#codeHost.gitAddress(remote)
    if (!(await isRepository(address))) {
      return no(
        'unknown',
        `there is no repository ${remote} at ${printable(address)}; correct remote, or create the repository`,
      )
    }
    const urlOf = (number: number) => pathToFileURL(folder.value.pathOf(number)).href
    return yes({ folder: folder.value, run: this.#gitIn(address), urlOf })
  }

  #readCommitter({ run }: LocalRepository): Promise<GitIdentity> {
    return readGitIdentity(run, this.#home)
  }

  #toFacts({ urlOf }: LocalRepository, pull: DatedPull, { refs }: Pick<PullsAndRefs, 'refs'>): PullFacts {
    return toPullFacts(pull, refs, urlOf(pull.number), this.#clock.now())
  }

  /** Logs each problem once per process, even when the file is repaired and breaks again. */
  #reportProblems(remote: string, problems: readonly string[]): void {
    for (const problem of problems) {
      const message = `a pull request of ${remote} cannot be read: ${problem}`
      if (!this.#reportedProblems.has(message)) this.#log?.warn({ remote }, message)
      this.#reportedProblems.add(message)
    }
  }
}

/** The local code host has no forks, so head and base branch share a repository. */
function toBranches({ remote }: PullReference, { pull, refs }: LocatedPull): PullBranches {
  const { baseBranch, headBranch } = pull
  return { headRemote: remote, headBranch, headSha: resolveBranchShas(pull, refs).head ?? '', baseBranch }
}

/** @param path the folder of the repositories, as an absolute path */
export function parseLocalPullUrl(path: string, url: string): PullReference | undefined {
  const parts = relative(path, pathInUrl(url) ?? sep).split(sep)
  const [owner = '', pulls = '', file = ''] = parts
  const number = pullNumberOf(file)
  const remote = `${owner}/${pulls.replace(/\.pulls$/, '')}`
  if (parts.length !== 3 || !pulls.endsWith('.pulls') || number === undefined) return undefined
  return isRemote(remote) ? { remote, number } : undefined
}

/** A folder of repositories has no checks. */
function countComments({ comments = [], threads = [] }: DatedPull) {
  const inThreads = threads.reduce((sum, thread) => sum + thread.comments.length, 0)
  return { commentCount: comments.length + inThreads, checksState: 'none' as const }
}

function toStates(pulls: readonly DatedPull[]): ReadonlyMap<number, PullState> {
  return new Map(pulls.map((pull) => [pull.number, readState(pull)]))
}

function compareActivity(a: Pick<DatedPull, 'number' | 'updatedAt'>, b: typeof a): number {
  if (a.updatedAt === b.updatedAt) return b.number - a.number
  return a.updatedAt < b.updatedAt ? 1 : -1
}

function pathInUrl(url: string): string | undefined {
  try {
    return fileURLToPath(url)
  } catch {
    return undefined
  }
}

function unknownPull(remote: string, number: number) {
  return no('unknown', `${remote} has no pull request ${number}`)
}
