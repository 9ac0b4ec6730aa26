/**
 * Keeps pull requests in step with their git repositories.
 *
 * A push moves the head of open pull requests and resets their mergeability. A deleted branch closes them, and a base
 * that contains the head merges them. Diffs are cached by the compared commits.
 */
import { type Commit, commitsBetween, type FileChange, filesBetween, hunkUpTo, lineIn } from './diffs.ts'
import { branchTip, fullSha, git, isAncestor, pointPullRef, tryGit } from './plumbing.ts'
import { type DiffSide, isPull, type PullIssue, type PullRecord, type Repo, type Thread } from './records.ts'
import type { GithubWorld } from './world.ts'

export interface PullOrder {
  readonly headRepo: Repo
  readonly head: string
  readonly base: string
  readonly title: string
  readonly body: string | null
  readonly author: string
  readonly draft: boolean
  readonly createdMs?: number
}

const KEPT_MAX = 2000
const BAD_PATH =
  "Pull request review thread path is invalid and Pull request review thread diff hunk can't be blank"
const BAD_LINE =
  "Pull request review thread line must be part of the diff and Pull request review thread diff hunk can't be blank"

export class History {
  /** Number of reads that answer `null` before a mergeability is known. */
  nullReads = 1
  readonly #world: GithubWorld
  readonly #commits = new Map<string, Promise<Commit[]>>()
  readonly #files = new Map<string, Promise<FileChange[]>>()
  readonly #lines = new Map<string, Promise<number | undefined>>()

  constructor(world: GithubWorld) {
    this.#world = world
  }

  /** Both branches must exist. */
  async open(repo: Repo, order: PullOrder): Promise<PullIssue> {
    const now = order.createdMs ?? this.#world.now()
    const number = repo.nextNumber++
    const headSha = branchTip(order.headRepo.path, order.head) ?? ''
    const pull: PullRecord = {
      id: this.#world.newId(),
      headRepo: order.headRepo,
      headOwner: order.headRepo.owner,
      headRef: order.head,
      headSha,
      baseRef: order.base,
      baseSha: branchTip(repo.path, order.base) ?? '',
      draft: order.draft,
      mergedMs: null,
      mergedBy: null,
      mergeSha: null,
      maintainerCanModify: order.headRepo !== repo,
      mergeability: { of: '', asked: 0, value: undefined },
      reviews: [],
      threads: [],
    }
    const issue: PullIssue = {
      id: this.#world.newId(),
      number,
      repo,
      title: order.title,
      body: order.body,
      author: order.author,
      state: 'open',
      stateReason: null,
      labels: [],
      assignees: [],
      milestone: null,
      createdMs: now,
      updatedMs: now,
      closedMs: null,
      closedBy: null,
      locked: false,
      comments: [],
      blockedBy: [],
      edits: [],
      events: [],
      pull,
    }
    await this.#bring(issue, headSha)
    repo.issues.set(number, issue)
    return issue
  }

  /** Updates all pull requests after a push, including those of other repositories with a head here. */
  async settleAll(pushed: Repo): Promise<void> {
    for (const issue of this.#world.everyIssue())
      if (isPull(issue) && (issue.repo === pushed || issue.pull.headRepo === pushed)) await this.settle(issue)
  }

  async settle(issue: PullIssue): Promise<void> {
    const { pull, repo } = issue
    if (issue.state === 'closed' || pull.headRepo === null) return
    const base = branchTip(repo.path, pull.baseRef)
    const head = branchTip(pull.headRepo.path, pull.headRef)
    if (head === undefined || base === undefined) return this.#close(issue)
    if (head !== pull.headSha) await this.moveHead(issue, head)
    if (base !== pull.baseSha) await this.#moveBase(issue, base)
  }

  async moveHead(issue: PullIssue, head: string): Promise<void> {
    await this.#bring(issue, head)
    issue.pull.headSha = head
    issue.updatedMs = this.#world.now()
  }

  /** Keeps the commits of a pull request in its repository, even when the branch is deleted. */
  async #bring({ repo, number, pull }: PullIssue, head: string): Promise<void> {
    if (pull.headRepo !== null && pull.headRepo !== repo)
      await git(repo.path, ['fetch', '--quiet', '--no-write-fetch-head', pull.headRepo.path, head])
    pointPullRef(repo.path, number, head)
  }

  async #moveBase(issue: PullIssue, base: string): Promise<void> {
    const { pull, repo } = issue
    const swallowed = await isAncestor(repo.path, pull.headSha, base)
    if (!swallowed) pull.baseSha = base
    else this.merged(issue, pull.headSha, null)
  }

  merged(issue: PullIssue, sha: string, by: string | null): void {
    Object.assign(issue.pull, { mergedMs: this.#world.now(), mergedBy: by, mergeSha: sha })
    this.#close(issue, by)
  }

  #close(issue: PullIssue, by: string | null = null): void {
    const now = this.#world.now()
    Object.assign(issue, { state: 'closed', closedMs: now, updatedMs: now, closedBy: by })
  }

  // ---- content ------------------------------------------------------------------------------------------------------

  commits({ repo, pull }: PullIssue): Promise<Commit[]> {
    return kept(this.#commits, `${pull.baseSha} ${pull.headSha} ${repo.id}`, () =>
      commitsBetween(repo.path, pull.baseSha, pull.headSha),
    )
  }

  files({ repo, pull }: PullIssue): Promise<FileChange[]> {
    return kept(this.#files, `${pull.baseSha} ${pull.headSha} ${repo.id}`, () =>
      filesBetween(repo.path, pull.baseSha, pull.headSha),
    )
  }

  /** Current line of a thread; undefined when it is outdated. */
  lineOf({ repo, pull }: PullIssue, thread: Thread): Promise<number | undefined> {
    const { line } = thread
    if (line === null || thread.side === 'LEFT') return Promise.resolve(line ?? undefined)
    return kept(this.#lines, `${thread.id} ${pull.headSha}`, () =>
      lineIn(repo.path, thread.commitSha, pull.headSha, thread.path, line),
    )
  }

  /** The hunk for a comment on this line; GitHub's error message when there is none. */
  async hunkAt(
    issue: PullIssue,
    at: { path: string; line: number | null; side: DiffSide },
  ): Promise<{ hunk: string } | { error: string }> {
    const file = (await this.files(issue)).find(({ path }) => path === at.path)
    if (file === undefined) return { error: BAD_PATH }
    if (at.line === null) return { hunk: file.patch ?? '' }
    const hunk = hunkUpTo(file.patch ?? '', at.line, at.side)
    return hunk === undefined ? { error: BAD_LINE } : { hunk }
  }

  // ---- mergeability -------------------------------------------------------------------------------------------------

  /**
   * Null while it is being computed. Only reading a single pull request starts the computation, so that tests can
   * predict which read answers first.
   */
  async mergeable(issue: PullIssue, read: 'read' | 'glance' = 'glance'): Promise<boolean | null> {
    const { pull } = issue
    if (issue.state === 'closed') return null
    const of = `${pull.baseSha} ${pull.headSha}`
    if (pull.mergeability.of !== of) pull.mergeability = { of, asked: 0, value: undefined }
    const known = pull.mergeability
    if (read === 'read') known.asked++
    if (known.asked <= this.nullReads) return null
    known.value ??= await this.mergesCleanly(issue)
    return known.value
  }

  async mergesCleanly({ repo, pull }: PullIssue): Promise<boolean> {
    const tried = await tryGit(repo.path, ['merge-tree', '--write-tree', pull.baseSha, pull.headSha])
    return tried.code === 0
  }

  async mergeState(issue: PullIssue, mergeable: boolean | null): Promise<string> {
    const { pull, repo } = issue
    if (mergeable === null) return 'unknown'
    if (!mergeable) return 'dirty'
    if (pull.draft) return 'draft'
    if (this.approvalsMissing(issue) > 0) return 'blocked'
    if (repo.strict && !(await isAncestor(repo.path, pull.baseSha, pull.headSha))) return 'behind'
    return this.#unstable(repo, pull.headSha) ? 'unstable' : 'clean'
  }

  approvalsMissing({ pull, repo }: PullIssue): number {
    const newest = new Map(
      pull.reviews
        .filter(({ state }) => state !== 'COMMENTED')
        .map((review) => [review.author, review.state]),
    )
    return repo.approvals - [...newest.values()].filter((state) => state === 'APPROVED').length
  }

  #unstable(repo: Repo, sha: string): boolean {
    const contexts = new Map(
      repo.statuses.filter((status) => status.sha === sha).map((status) => [status.context, status]),
    )
    const checks = new Map(
      repo.checks.filter((check) => check.sha === sha).map((check) => [check.name, check]),
    )
    const bad = [...contexts.values()].some(({ state }) => state !== 'success')
    const fine = ['success', 'neutral', 'skipped']
    return bad || [...checks.values()].some(({ conclusion }) => !fine.includes(conclusion ?? ''))
  }

  /** Why the pull request cannot be reopened; undefined when it can. */
  async staysClosed(issue: PullIssue): Promise<string | undefined> {
    const { pull, repo } = issue
    const refused = (why: string): string => `state cannot be changed. ${why}`
    if (pull.mergedMs !== null) return refused(`The pull request has been merged.`)
    if (pull.headRepo === null)
      return refused('The repository that submitted this pull request has been deleted.')
    const tip = branchTip(pull.headRepo.path, pull.headRef)
    if (tip === undefined) return refused(`The ${pull.headRef} branch has been deleted.`)
    const known = (await fullSha(pull.headRepo.path, pull.headSha)) !== undefined
    if (!known || !(await isAncestor(pull.headRepo.path, pull.headSha, tip)))
      return refused(`The ${pull.headRef} branch was force-pushed or recreated.`)
    const twin = this.openFor(repo, pull.headRepo, pull.headRef, pull.baseRef)
    return twin && refused(`There is already an open pull request from ${pull.headRef} to ${pull.baseRef}.`)
  }

  openFor(repo: Repo, headRepo: Repo, head: string, base: string): PullIssue | undefined {
    return [...repo.issues.values()].filter(isPull).find(({ state, pull }) => {
      const same = pull.headRepo === headRepo && pull.headRef === head && pull.baseRef === base
      return same && state === 'open'
    })
  }

  label({ pull }: PullIssue): string {
    return `${pull.headOwner}:${pull.headRef}`
  }
}

function kept<T>(map: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const found = map.get(key)
  if (found !== undefined) return found
  if (map.size >= KEPT_MAX) map.clear()
  const made = make()
  map.set(key, made)
  return made
}
