/**
 * What git says about pull requests.
 *
 * A pull request follows its branches while it is open: a push moves its head and makes its mergeability unknown
 * again, a deleted branch closes it, a base that holds its head merges it. Diffs are kept by the commits they compare.
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
  /** How often a mergeability is `null` before it is known. */
  nullReads = 1
  readonly #world: GithubWorld
  readonly #commits = new Map<string, Promise<Commit[]>>()
  readonly #files = new Map<string, Promise<FileChange[]>>()
  readonly #lines = new Map<string, Promise<number | undefined>>()

  constructor(world: GithubWorld) {
    this.#world = world
  }

  /** Its branches must be there. */
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
      pull,
    }
    await this.#bring(issue, headSha)
    repo.issues.set(number, issue)
    return issue
  }

  /** After a push. Also pull requests of other repositories may have their head here. */
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

  /** The commits of a pull request stay in its repository, whatever becomes of the branch. */
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

  // ---- what is in it ---------------------------------------------------------------------------------------------

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

  /** Where a thread's line is now; undefined: outdated. */
  lineOf({ repo, pull }: PullIssue, thread: Thread): Promise<number | undefined> {
    const { line } = thread
    if (line === null || thread.side === 'LEFT') return Promise.resolve(line ?? undefined)
    return kept(this.#lines, `${thread.id} ${pull.headSha}`, () =>
      lineIn(repo.path, thread.commitSha, pull.headSha, thread.path, line),
    )
  }

  /** The hunk that a comment on this line carries; a sentence of GitHub's when there is none. */
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

  // ---- mergeability ----------------------------------------------------------------------------------------------

  /**
   * null while it is being worked out, and when nobody needs to know. Only reading one pull request gets the work
   * done, so that a test can tell which reading is the first to know.
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
      pull.reviews.filter(({ state }) => state !== 'COMMENTED').map((one) => [one.author, one.state]),
    )
    return repo.approvals - [...newest.values()].filter((state) => state === 'APPROVED').length
  }

  #unstable(repo: Repo, sha: string): boolean {
    const contexts = new Map(repo.statuses.filter((one) => one.sha === sha).map((one) => [one.context, one]))
    const checks = new Map(repo.checks.filter((one) => one.sha === sha).map((one) => [one.name, one]))
    const bad = [...contexts.values()].some(({ state }) => state !== 'success')
    const fine = ['success', 'neutral', 'skipped']
    return bad || [...checks.values()].some(({ conclusion }) => !fine.includes(conclusion ?? ''))
  }

  /** Why a closed one stays closed; undefined when it may open again. */
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
