/**
 * A whole host with a fake Linear and a fake GitHub that apply their real limits: fifty repositories, two hundred open
 * pull requests of finished runs, and tickets that change.
 *
 * Everything between the host's actors and the network is product code. The test advances one clock for all.
 */
import type { Host } from '../../../actors/root/create-host.ts'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { renderConfig } from '../../../core/settings/change.ts'
import type { Run } from '../../../protocol/run.ts'
import { createPullHost, parsePullUrl } from '../../../providers/codehost/registry.ts'
import { HttpClientPool } from '../../../providers/http/client-pool.ts'
import { createHttp } from '../../../providers/http/http.ts'
import { createTracker } from '../../../providers/tracker/registry.ts'
import { putRun, sampleRun } from '../../adapters/store/samples.ts'
import { type FakeGithub, startGithub } from '../github/github.ts'
import type { GithubLimits } from '../github/quotas.ts'
import { createInMemoryHost } from '../host-in-memory.ts'
import { type FakeLinear, startLinear } from '../linear/linear.ts'
import type { IssueRow } from '../linear/rows.ts'
import { createMemoryStore } from '../memory-store.ts'
import { createRecordingLog, type RecordingLog } from '../recording-log.ts'
import { Meter } from './meter.ts'
import { PacedClock } from './paced-clock.ts'

export const TOKEN = 'ghp_pat_planted'
const REPOS = 50
export const PULLS_A_REPO = 4
const MANY_ISSUES = 100
const WEEK_MS = 7 * 24 * 3_600_000

export interface HostWithProvidersOptions {
  readonly tracker: 'linear key' | 'linear oauth' | 'github'
  readonly repos?: number
  /** The number of eligible tickets. */
  readonly eligible?: number
  readonly tickets?: number
  readonly pollSeconds?: number
  /** Replaces GitHub's real limits. */
  readonly limits?: Partial<GithubLimits>
}

export interface HostWithProviders {
  readonly clock: PacedClock
  readonly log: RecordingLog
  readonly linear: FakeLinear
  readonly github: FakeGithub
  readonly meter: Meter
  readonly host: Host
  /** Full repository names; their keys in the configuration are `r1`, `r2` and so on. */
  readonly remotes: readonly string[]
  readonly runs: readonly Run[]
  readonly issues: readonly IssueRow[]
  /** Issues per repository when GitHub issues are the tickets. */
  readonly issuesARepo: number
  /** The credential of the tracker. */
  readonly trackerKey: string
  close(): Promise<void>
}

export async function startHostWithProviders(options: HostWithProvidersOptions): Promise<HostWithProviders> {
  const { repos = REPOS, tickets = 1_000, eligible = 100 } = options
  const clock = new PacedClock()
  const linear = await startLinear({ now: clock.now })
  // Tokens must not expire during the test.
  linear.accounts.accessMs = WEEK_MS
  const github = await startGithub({ clock, people: PEOPLE, limits: options.limits ?? {} })
  const remotes = Array.from({ length: repos }, (_, n) => `ada/lamps-${n + 1}`)
  const isOnGithub = options.tracker === 'github'
  const issuesARepo = isOnGithub ? Math.ceil(tickets / repos) : 0
  await Promise.all(remotes.map((remote) => seedRepository(github, remote, issuesARepo)))
  const issues = isOnGithub ? [] : seedTickets(linear, tickets, eligible)
  const tracker = trackerSection(options, linear, github)
  const config = renderConfig({
    tracker,
    codehost: { driver: 'github', token: TOKEN, apiUrl: github.apiUrl },
    repos: Object.fromEntries(remotes.map((remote, n) => [`r${n + 1}`, { remote }])),
    worker: { local: false },
  })
  const log = createRecordingLog()
  const http = createHttp({ clock: realClock, random: realRandom })
  const meter = new Meter(http, clock, (url) => url.startsWith(linear.url))
  clock.isBusy = () => meter.inFlight > 0
  const pool = new HttpClientPool({ http: meter, clock, random: realRandom, log })
  const store = createMemoryStore({ clock, config })
  const { host } = createInMemoryHost(config, {
    clock,
    store,
    log,
    tracker: (now) => createTracker(now, { clock, log, clients: pool }),
    pulls: (now) => createPullHost(now, { clients: pool, clock, log }),
    parsePullUrl,
  })
  const runs = finishedRunsFor(github, remotes)
  const committed = store.database.commit(runs.map(putRun))
  await clock.settle()
  await committed
  const close = async () => {
    clock.isBusy = () => false
    pool.close()
    host.stop('the test is over')
    await clock.advance(30_000)
    await http.close()
    await Promise.all([linear.stop(), github.close()])
  }
  return {
    clock,
    log,
    linear,
    github,
    meter,
    host,
    remotes,
    runs,
    issues,
    issuesARepo,
    trackerKey: tracker.apiKey,
    close,
  }
}

const PEOPLE = [
  { login: 'pat', tokens: [TOKEN] },
  { login: 'bo', tokens: ['ghp_bo'] },
]

/** Adds pull requests and the given issues. With many issues, each is blocked by the previous one. */
async function seedRepository(github: FakeGithub, remote: string, issues: number): Promise<void> {
  await github.addRepo({ fullName: remote, members: { pat: 'push', bo: 'push' } })
  await github.openPulls(remote, PULLS_A_REPO, 'bo')
  for (let n = 0; n < issues; n++) {
    const labels = n % 4 === 0 ? ['Todo'] : ['bug']
    const issue = github.addIssue(remote, {
      title: `Issue ${n}`,
      author: 'bo',
      body: 'It does not shine.',
      labels,
    })
    if (n > 0 && issues > MANY_ISSUES) issue.blockedBy.push(github.issue(remote, issue.number - 1))
  }
}

function seedTickets(linear: FakeLinear, tickets: number, eligible: number): IssueRow[] {
  linear.world.team({ key: 'ENG' })
  return Array.from({ length: tickets }, (_, n) =>
    linear.world.issue({
      title: `Ticket ${n}`,
      description: 'It does not shine.',
      labels: n < eligible ? ['agent'] : ['later'],
    }),
  )
}

function trackerSection(
  { tracker: kind, pollSeconds = 30 }: HostWithProvidersOptions,
  linear: FakeLinear,
  github: FakeGithub,
) {
  const rules = { pollSeconds, eligible: { states: ['Todo'] } }
  if (kind === 'github') return { ...rules, driver: 'github', apiUrl: github.apiUrl, apiKey: TOKEN }
  const apiKey = kind === 'linear key' ? linear.apiKey : linear.grant().accessToken
  const eligible = { states: ['Todo'], labels: ['agent'] }
  return { ...rules, eligible, driver: 'linear', apiUrl: linear.url, apiKey }
}

function finishedRunsFor(github: FakeGithub, remotes: readonly string[]): Run[] {
  const pulls = remotes.flatMap((remote) =>
    Array.from({ length: PULLS_A_REPO }, (_, n) => `${github.origin}/${remote}/pull/${n + 1}`),
  )
  return pulls.map((prUrl, n) => ({ ...sampleRun(n + 1, 'completed'), prUrl, prState: 'open' }))
}
