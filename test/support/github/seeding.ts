/** Seeds the fake GitHub on behalf of other people: commits, pull requests, comments, checks. */
import type { History } from './history.ts'
import { branchTip, type CommitSpec, git, importCommits } from './plumbing.ts'
import {
  type CheckRun,
  type Comment,
  type DiffSide,
  type Issue,
  isPull,
  type PullIssue,
  type Repo,
  type Review,
  type Status,
  type Thread,
} from './records.ts'
import { addComment, addIssue, type IssueOrder } from './rest-issues.ts'
import { addReply, addReview, addThread, place } from './rest-reviews.ts'
import type { GithubWorld, PersonSeed, RepoSeed, TokenSeed } from './world.ts'

export interface CommitSeed {
  readonly branch: string
  /** Start of a new branch; default: the default branch. */
  readonly from?: string
  readonly message?: string
  /** Login of the author; default: the owner. */
  readonly author?: string
  readonly files: CommitSpec['files']
}

export interface PullSeed {
  readonly head: string
  /** Full name of the fork with the head branch. */
  readonly headRepo?: string
  readonly base?: string
  readonly title?: string
  readonly body?: string | null
  readonly author?: string
  readonly draft?: boolean
  readonly createdMs?: number
}

export interface ThreadSeed {
  readonly path: string
  /** Null for a comment on the whole file. */
  readonly line: number | null
  readonly side?: DiffSide
  readonly author: string | null
  readonly body: string
}

const README = '# Hello\n\nThis is a repository.\n'

export class Seeding {
  readonly #world: GithubWorld
  readonly #history: History

  constructor(world: GithubWorld, history: History) {
    this.#world = world
    this.#history = history
  }

  addPerson(seed: PersonSeed): void {
    this.#world.addPerson(seed)
  }

  addToken(login: string, token: string | TokenSeed): void {
    this.#world.addToken(login, token)
  }

  revokeToken(token: string): void {
    this.#world.tokens.delete(token)
  }

  /** Creates a repository with one commit. */
  async addRepo(seed: RepoSeed & { readonly files?: CommitSpec['files'] }): Promise<Repo> {
    const repo = this.#world.addRepo(seed)
    const files = seed.files ?? { 'README.md': README }
    await importCommits(repo.path, [
      this.#commit(repo, { branch: repo.defaultBranch, files, message: 'Begin' }),
    ])
    return repo
  }

  async fork(fullName: string, seed: RepoSeed): Promise<Repo> {
    const origin = this.repo(fullName)
    const fork = this.#world.addRepo({ defaultBranch: origin.defaultBranch, ...seed }, origin)
    await git(fork.path, [
      'fetch',
      '--quiet',
      '--no-write-fetch-head',
      origin.path,
      'refs/heads/*:refs/heads/*',
    ])
    return fork
  }

  repo(fullName: string): Repo {
    const repo = this.#world.repo(fullName)
    if (repo === undefined) throw new Error(`there is no repository ${fullName}`)
    return repo
  }

  /** The old name redirects from now on. */
  renameRepo(fullName: string, newName: string): void {
    this.#world.rename(this.repo(fullName), newName)
  }

  removeRepo(fullName: string): void {
    this.#world.remove(this.repo(fullName))
  }

  /** Creates a commit as if pushed. Answers its hash. */
  async commit(fullName: string, seed: CommitSeed): Promise<string> {
    const repo = this.repo(fullName)
    await this.commits(fullName, [seed])
    return branchTip(repo.path, seed.branch) ?? ''
  }

  /** Creates many commits as if pushed at once. */
  async commits(fullName: string, seeds: readonly CommitSeed[]): Promise<void> {
    const repo = this.repo(fullName)
    await importCommits(
      repo.path,
      seeds.map((seed) => this.#commit(repo, seed)),
    )
    await this.#pushed(repo)
  }

  #commit(repo: Repo, seed: CommitSeed): CommitSpec {
    const person = this.#world.person(seed.author ?? repo.owner)
    const { name = 'Nobody', email = 'nobody@example.com' } = person ?? {}
    return {
      branch: seed.branch,
      from: seed.from ?? repo.defaultBranch,
      message: seed.message ?? `Change ${Object.keys(seed.files).join(', ')}`,
      by: { name, email, atMs: this.#world.now() },
      files: seed.files,
    }
  }

  async #pushed(repo: Repo): Promise<void> {
    repo.pushedMs = this.#world.now()
    await this.#history.settleAll(repo)
  }

  /** Sets a branch as a forced push would; undefined deletes it. */
  async setBranch(fullName: string, branch: string, sha: string | undefined): Promise<void> {
    const repo = this.repo(fullName)
    const ref = `refs/heads/${branch}`
    await git(repo.path, sha === undefined ? ['update-ref', '-d', ref] : ['update-ref', ref, sha])
    await this.#pushed(repo)
  }

  branchSha(fullName: string, branch: string): string | undefined {
    return branchTip(this.repo(fullName).path, branch)
  }

  // ---- pull requests and issues -------------------------------------------------------------------------------------

  openPull(fullName: string, seed: PullSeed): Promise<PullIssue> {
    const repo = this.repo(fullName)
    return this.#history.open(repo, {
      headRepo: seed.headRepo === undefined ? repo : this.repo(seed.headRepo),
      head: seed.head,
      base: seed.base ?? repo.defaultBranch,
      title: seed.title ?? `Change ${seed.head}`,
      body: seed.body === undefined ? 'Because.' : seed.body,
      author: seed.author ?? repo.owner,
      draft: seed.draft ?? false,
      ...(seed.createdMs === undefined ? {} : { createdMs: seed.createdMs }),
    })
  }

  /** Opens `count` pull requests, each with its own branch and one changed file. */
  async openPulls(fullName: string, count: number, author?: string): Promise<PullIssue[]> {
    const numbers = [...Array(count).keys()].map((at) => at + 1)
    const seeds = numbers.map((n) => ({ branch: `change-${n}`, files: { [`file-${n}.txt`]: `${n}\n` } }))
    await this.commits(fullName, seeds)
    const opened: PullIssue[] = []
    for (const { branch } of seeds)
      opened.push(
        await this.openPull(fullName, { head: branch, ...(author === undefined ? {} : { author }) }),
      )
    return opened
  }

  issue(fullName: string, number: number): Issue {
    const issue = this.repo(fullName).issues.get(number)
    if (issue === undefined) throw new Error(`there is no ${fullName}#${number}`)
    return issue
  }

  pull(fullName: string, number: number): PullIssue {
    const issue = this.issue(fullName, number)
    if (!isPull(issue)) throw new Error(`${fullName}#${number} is not a pull request`)
    return issue
  }

  addIssue(fullName: string, order: IssueOrder): Issue {
    return addIssue(this.#world, this.repo(fullName), order)
  }

  addMilestone(fullName: string, title: string): void {
    const { milestones } = this.repo(fullName)
    const id = this.#world.newId()
    milestones.push({ id, number: milestones.length + 1, title, createdMs: this.#world.now() })
  }

  // ---- comments -----------------------------------------------------------------------------------------------------

  addComment(fullName: string, number: number, fields: { author: string | null; body: string }): Comment {
    return addComment(this.#world, this.issue(fullName, number), fields)
  }

  addReview(
    fullName: string,
    number: number,
    fields: { author: string | null; state: Review['state']; body: string },
  ): Review {
    return addReview(this.#world, this.pull(fullName, number), fields)
  }

  /** The line must be part of the diff. */
  async addThread(fullName: string, number: number, seed: ThreadSeed): Promise<Thread> {
    const issue = this.pull(fullName, number)
    const note = { startLine: null, side: 'RIGHT' as const, ...seed }
    const placed = await place(this.#history, issue, note)
    if ('error' in placed) throw new Error(`${seed.path}:${seed.line}: ${placed.error}`)
    const review = addReview(this.#world, issue, { author: seed.author, state: 'COMMENTED', body: '' })
    return addThread(this.#world, issue, placed, review)
  }

  addReply(
    fullName: string,
    number: number,
    thread: Thread,
    fields: { author: string | null; body: string },
  ): void {
    addReply(this.#world, this.pull(fullName, number), thread, fields)
  }

  // ---- checks -------------------------------------------------------------------------------------------------------

  addStatus(
    fullName: string,
    sha: string,
    seed: Pick<Status, 'context' | 'state'> & Partial<Pick<Status, 'description' | 'targetUrl'>>,
  ): void {
    const repo = this.repo(fullName)
    const id = this.#world.newId()
    const atMs = this.#world.now()
    repo.statuses.push({ description: null, targetUrl: null, ...seed, id, sha, creator: repo.owner, atMs })
  }

  addCheck(
    fullName: string,
    sha: string,
    seed: Pick<CheckRun, 'name' | 'status' | 'conclusion'> &
      Partial<Pick<CheckRun, 'app' | 'title' | 'summary'>>,
  ): void {
    const now = this.#world.now()
    const completedMs = seed.status === 'completed' ? now : null
    const usual = { app: 'github-actions', title: null, summary: null }
    const check = { ...usual, ...seed, id: this.#world.newId(), sha, startedMs: now, completedMs }
    this.repo(fullName).checks.push(check)
  }
}
