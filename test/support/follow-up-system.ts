/**
 * A local system whose code host is a fake GitHub behind a holding proxy, for tests of follow-ups.
 *
 * Each run opens its pull request in a separate repository, so a test can attribute every commit and comment.
 */
import { execFileSync } from 'node:child_process'
import { afterEach, expect } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { type FakeGithub, startGithub } from './github/github.ts'
import { git } from './github/plumbing.ts'
import { HoldingProxy } from './holding-proxy.ts'
import { LocalSystem, SECRETS } from './local-system.ts'

/** OWNER is the account of the service; REVIEWER comments on its pull requests. */
export const OWNER = 'mona'
export const REVIEWER = 'lisa'

const FOLLOW_UP = /^<!-- switchyard:follow-up fu-[0-9a-f]{32} -->$/m

const open = new Set<FakeGithub>()

afterEach(async () => {
  for (const github of open) await github.close()
  open.clear()
})

export class FollowUpSystem {
  readonly system: LocalSystem
  readonly github: FakeGithub
  readonly proxy: HoldingProxy

  private constructor(system: LocalSystem, github: FakeGithub, proxy: HoldingProxy) {
    this.system = system
    this.github = github
    this.proxy = proxy
  }

  /** Starts the system with one repository for each name. */
  static async open(names: readonly string[], options: Parameters<typeof LocalSystem.open>[0] = {}) {
    const people = [{ login: OWNER, tokens: [SECRETS.codehost] }, { login: REVIEWER }]
    const github = await startGithub({ people })
    open.add(github)
    for (const name of names) {
      const members = { [OWNER]: 'push', [REVIEWER]: 'push' } as const
      const { path } = await github.addRepo({ fullName: `acme/${name}`, members })
      await git(path, ['config', 'core.logAllRefUpdates', 'always'])
    }
    const proxy = await HoldingProxy.startFor(github.origin)
    const repos = Object.fromEntries(names.map((name) => [name, { remote: `acme/${name}` }]))
    const codehost = { driver: 'github', apiUrl: `${proxy.url}/api/v3`, token: SECRETS.codehost }
    const concurrency = Math.max(4, names.length)
    const system = await LocalSystem.open({ concurrency, ...options, codehost, repos })
    return new FollowUpSystem(system, github, proxy)
  }

  // ---- actions of people ----------------------------------------------------------------------------------------------

  /** Runs one ticket in each repository and waits until all pull requests are open. */
  async openPulls(names: readonly string[], lines: readonly string[]): Promise<Run[]> {
    for (const name of names) this.system.writeTicket(identifierOf(name), lines, { repo: name })
    const runs = await Promise.all(names.map((name) => this.system.waitForEnd(identifierOf(name))))
    for (const { status, prState } of runs) expect([status, prState]).toEqual(['completed', 'open'])
    return runs
  }

  commitToBase(name: string, files: Readonly<Record<string, string>>): Promise<string> {
    return this.github.commit(`acme/${name}`, { branch: 'main', author: REVIEWER, files })
  }

  /** Commits to the pull request's branch as the reviewer. */
  commitToBranch(name: string, files: Readonly<Record<string, string>>): Promise<string> {
    return this.github.commit(`acme/${name}`, { branch: this.branch(name), author: REVIEWER, files })
  }

  branch(name: string): string {
    return this.github.pull(`acme/${name}`, 1).pull.headRef
  }

  /** Moves the pull request's branch into a fork, as if the pull request had been opened from there. */
  async moveToFork(name: string, owner: string): Promise<string> {
    const fullName = `${owner}/${name}`
    const fork = await this.github.fork(`acme/${name}`, { fullName, members: { [OWNER]: 'pull' } })
    await git(fork.path, ['config', 'core.logAllRefUpdates', 'always'])
    const { pull } = this.github.pull(`acme/${name}`, 1)
    Object.assign(pull, { headRepo: fork, headOwner: owner, maintainerCanModify: true })
    await this.github.setBranch(`acme/${name}`, pull.headRef, undefined)
    return fullName
  }

  comment(name: string, body: string): void {
    this.github.addComment(`acme/${name}`, 1, { author: REVIEWER, body })
  }

  async requestFollowUp({ id }: Run): Promise<Run> {
    const { status, body } = await this.system.host.request(`/api/runs/${id}/followup`, { method: 'POST' })
    expect([status, body]).toEqual([200, expect.objectContaining({ id })])
    return body as Run
  }

  // ---- outcomes --------------------------------------------------------------------------------------------

  /** Returns the service's comments that close a follow-up. */
  followUpComments(name: string): string[] {
    const { comments } = this.github.issue(`acme/${name}`, 1)
    return comments
      .filter(({ author, body }) => author === OWNER && FOLLOW_UP.test(body))
      .map(({ body }) => body)
  }

  /** Returns every commit that the branch has pointed to, oldest first. */
  branchHistory(name: string, fullName = `acme/${name}`): string[] {
    return this.#git(fullName, 'reflog', '--format=%H', `refs/heads/${this.branch(name)}`).reverse()
  }

  /** Returns the subjects of the branch's commits since the base, newest first. */
  commits(name: string, fullName = `acme/${name}`): string[] {
    return this.#git(fullName, 'log', '--format=%s', `main..${this.branch(name)}`)
  }

  fileOnBranch(name: string, path: string, fullName = `acme/${name}`): string {
    return this.#git(fullName, 'show', `${this.branch(name)}:${path}`).join('\n')
  }

  #git(fullName: string, ...args: readonly string[]): string[] {
    const { path } = this.github.repo(fullName)
    const quiet = { stdio: ['ignore', 'pipe', 'pipe'] as ('ignore' | 'pipe')[] }
    const out = execFileSync('git', ['-c', 'safe.directory=*', '-C', path, ...args], quiet).toString()
    return out.split('\n').filter(Boolean)
  }
}

export const identifierOf = (name: string): string => name.toUpperCase()
