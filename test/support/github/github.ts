/**
 * Fake GitHub: one loopback server over real git repositories.
 *
 * It refuses what the real GitHub refuses, with the same messages, and counts the same costs. Pushes update its pull
 * requests. Tests seed it with real commits.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Counters } from './counters.ts'
import { FakeDeviceFlow } from './device.ts'
import { type GithubFaults, noFaults } from './faults.ts'
import { GitHttp } from './git-http.ts'
import { GithubGraphql } from './graphql.ts'
import { History } from './history.ts'
import { GITHUB_LIMITS, type GithubLimits, Quotas } from './quotas.ts'
import { fullNameOf } from './records.ts'
import { Rest } from './rest.ts'
import { Seeding } from './seeding.ts'
import { serveGithub } from './server.ts'
import { GithubWorld, type PersonSeed, type RepoSeed } from './world.ts'

export interface GithubOptions {
  /** Clock of its instants and budgets; real time by default. */
  readonly clock?: { readonly now: () => number }
  /** Default: `mona` with the token `ghp_mona`. */
  readonly people?: readonly PersonSeed[]
  /** Repositories with one commit each. */
  readonly repos?: readonly RepoSeed[]
  readonly limits?: Partial<GithubLimits>
  /** Checks its own replies against GitHub's description, too. */
  readonly checkAnswers?: boolean
}

export interface FakeGithub extends Seeding {
  /** http://127.0.0.1:port, shared by web pages and repositories. */
  readonly origin: string
  /** REST root, as on GitHub Enterprise. */
  readonly apiUrl: string
  readonly graphqlUrl: string
  cloneUrl(fullName: string): string
  readonly world: GithubWorld
  readonly history: History
  readonly faults: GithubFaults
  readonly counters: Counters
  readonly device: FakeDeviceFlow
  /** Requests that violate GitHub's description of its API. */
  readonly violations: string[]
  readonly misanswers: string[]
  close(): Promise<void>
}

const DEFAULT_PERSON: PersonSeed = { login: 'mona', name: 'Mona Lisa', tokens: ['ghp_mona'] }

export async function startGithub(options: GithubOptions = {}): Promise<FakeGithub> {
  const folder = mkdtempSync(join(tmpdir(), 'fake-github-'))
  const repositories = join(folder, 'repositories')
  mkdirSync(repositories)
  const world = new GithubWorld(repositories, options.clock?.now ?? Date.now)
  const history = new History(world)
  const faults = noFaults()
  const counters = new Counters()
  const device = new FakeDeviceFlow(world)
  const rest = new Rest(world, history, faults)
  rest.checksAnswers = options.checkAnswers ?? false
  const server = serveGithub({
    world,
    rest,
    graphql: new GithubGraphql(world, history, faults),
    gitHttp: new GitHttp(world, folder, (repo) => history.settleAll(repo)),
    device,
    quotas: new Quotas({ ...GITHUB_LIMITS, ...options.limits }, world.now),
    counters,
    faults,
  })
  const seeding = new Seeding(world, history)
  for (const person of options.people ?? [DEFAULT_PERSON]) world.addPerson(person)
  for (const repo of options.repos ?? []) await seeding.addRepo(repo)
  const origin = await listening(server)
  const close = (): Promise<void> => closed(server, folder)
  const apiUrl = `${origin}/api/v3`
  const graphqlUrl = `${origin}/api/graphql`
  const { violations, misanswers } = rest
  const cloneUrl = (fullName: string): string => `${origin}/${fullNameOf(seeding.repo(fullName))}.git`
  return Object.assign(seeding, {
    origin,
    apiUrl,
    graphqlUrl,
    cloneUrl,
    world,
    history,
    faults,
    counters,
    device,
    violations,
    misanswers,
    close,
  })
}

function listening(server: Server): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      // A listening TCP server has an address of this type.
      const { port } = server.address() as AddressInfo
      resolve(`http://127.0.0.1:${port}`)
    })
  })
}

async function closed(server: Server, folder: string): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await removeFolder(folder)
}

const REMOVALS_MAX = 100
const REMOVAL_PAUSE_MS = 100

/** Retries, because a git process whose client is gone may still write files. */
async function removeFolder(folder: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      rmSync(folder, { recursive: true, force: true })
      return
    } catch (error) {
      if (tries === REMOVALS_MAX) throw error
    }
    await pause(REMOVAL_PAUSE_MS)
  }
}
