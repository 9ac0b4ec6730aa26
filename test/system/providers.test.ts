/**
 * Tickets in Linear become pull requests on GitHub: real hosts, workers, sandboxes and git, and fakes of the two
 * providers that can fail on demand.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import type { PullDetail, PullListResponse } from '../../protocol/pulls.ts'
import type { Run } from '../../protocol/run.ts'
import { SYSTEM_WAIT_MS_MAX } from '../support/dashboard-client.ts'
import { FaultMatcher } from '../support/fault-matcher.ts'
import { type GithubFaults, noFaults } from '../support/github/faults.ts'
import type { GraphFault } from '../support/linear/faults.ts'
import type { IssueRow } from '../support/linear/rows.ts'
import { GATE, isOver } from '../support/local-system.ts'
import { connectByDevice } from '../support/oauth-consent.ts'
import { OWNER, ProviderSystem, REVIEWER } from '../support/system-with-providers.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
/** Longer than two polls of the tracker. */
const QUIET_MS = 2_500
const STATES = { startedState: 'In Progress', reviewState: 'In Review' } as const
const PULL = '/api/pulls/app/1'

function story(title: string, body: () => Promise<void>): void {
  test(title, body, TEST_MS_MAX)
}

/** The ticket's script for the scripted agent. */
const WORK = ['write src/hello.txt', '  Hello!', 'commit Say hello', 'say It says hello now.']

async function saveTrackerKey(system: ProviderSystem, trackerApiKey: string): Promise<void> {
  const saved = await system.send('PUT', '/api/settings/credentials', { trackerApiKey })
  expect(saved.body).toMatchObject({ results: { tracker: { ok: true, detail: 'Ada Lovelace in Acme' } } })
}

async function openConnected(tracker: object = {}): Promise<ProviderSystem> {
  const system = await ProviderSystem.open({ tracker })
  await saveTrackerKey(system, system.linear.apiKey)
  await connectByDevice(system)
  return system
}

const waitForState = (issue: IssueRow, state: string): Promise<void> =>
  until(`${issue.identifier} is in ${state}`, () => issue.state.name === state, SYSTEM_WAIT_MS_MAX)

describe('a ticket in Linear', () => {
  story('becomes a pull request on GitHub, is reviewed, and merged', async () => {
    const system = await openConnected({ ...STATES, doneState: 'Done' })
    const dashboard = await system.connectDashboard()
    const issue = system.createTicket('Say hello', [`run ${GATE}`, ...WORK])
    const running = await system.waitForStatus(issue, 'running')
    await waitForState(issue, 'In Progress')
    system.openGates(running)
    const run = await system.waitForEnd(issue)
    expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
    await waitForState(issue, 'In Review')
    await expectPullOnGithub(system, run, issue)
    await expectLinkInTicket(system, run, issue)
    await expectReviewAnswered(system)
    const merged = await system.send('POST', `${PULL}/merge`, { method: 'squash' })
    expect(merged.body).toMatchObject({ merged: true })
    expect(system.github.pull('acme/app', 1).pull.mergedMs).not.toBeNull()
    const isShown = () => dashboard.run(run.id)?.prState === 'merged'
    await until('dashboards hear that it is merged', isShown, SYSTEM_WAIT_MS_MAX)
    expect(await system.findRun(issue)).toMatchObject({ prState: 'merged', status: 'completed' })
    await waitForState(issue, 'Done')
    // The host's own status changes must not start the ticket again.
    expect(await system.get<Run[]>('/api/runs')).toHaveLength(1)
    expect([system.github.counters.bugs, system.github.violations]).toEqual([[], []])
  })
})

async function expectPullOnGithub(
  { github, get }: ProviderSystem,
  run: Run,
  { identifier }: IssueRow,
): Promise<void> {
  const { title, body, pull, author } = github.pull('acme/app', 1)
  expect([title, author]).toEqual([`${identifier}: Say hello`, OWNER])
  expect(body).toContain('It says hello now.')
  expect(pull.headRef).toBe(run.result?.branch)
  expect(github.branchSha('acme/app', pull.headRef)).toBeDefined()
  const { pulls, errors } = await get<PullListResponse>('/api/pulls')
  expect(errors).toEqual([])
  expect(pulls).toMatchObject([{ repo: 'app', number: 1, state: 'open', url: run.prUrl }])
  expect(await get(`/api/runs/${run.id}/pr`)).toMatchObject({ url: run.prUrl, number: 1, state: 'open' })
}

async function expectLinkInTicket({ linear }: ProviderSystem, run: Run, issue: IssueRow): Promise<void> {
  const links = () => linear.world.attachments.filter((row) => row.issue === issue)
  await until('the pull request is linked in the ticket', () => links().length > 0, SYSTEM_WAIT_MS_MAX)
  expect(links().map(({ url }) => url)).toEqual([run.prUrl])
}

/** A reviewer requests a change on GitHub, and a follow-up answers. */
async function expectReviewAnswered({ github, send, get }: ProviderSystem): Promise<void> {
  const at = { path: 'src/hello.txt', line: 1, author: REVIEWER }
  const thread = await github.addThread('acme/app', 1, { ...at, body: 'Why so loud?' })
  const { conversation } = await get<PullDetail>(PULL)
  const [shown] = conversation.threads
  expect(shown).toMatchObject({ resolved: false, path: at.path, comments: [{ author: REVIEWER }] })
  const commentId = shown?.comments[0]?.id
  expect(await send('POST', `${PULL}/reply`, { commentId, body: 'It is glad.' })).toMatchObject({
    status: 200,
  })
  const resolve = { threadId: shown?.id, resolved: true }
  expect(await send('POST', `${PULL}/resolve-thread`, resolve)).toMatchObject({ status: 200 })
  expect(thread.comments.map(({ author, body }) => [author, body])).toEqual([
    [REVIEWER, 'Why so loud?'],
    [OWNER, 'It is glad.'],
  ])
  expect(thread.resolvedBy).toBe(OWNER)
  expect((await get<PullDetail>(PULL)).conversation.threads).toMatchObject([{ resolved: true }])
}

describe('a run', () => {
  const faults: readonly (readonly [string, GraphFault])[] = [
    ['wants fewer requests', { kind: 'ratelimited', retryAfterSeconds: 1 }],
    ['answers with a gateway’s page', { kind: 'html', status: 502 }],
    ['is slow', { kind: 'slow', ms: 2_000 }],
    ['breaks off', { kind: 'reset' }],
  ]

  story('completes despite failures of the tracker, which is updated afterwards', async () => {
    const system = await openConnected(STATES)
    const issues: IssueRow[] = []
    for (const [name, fault] of faults) {
      const issue = system.createTicket(`While it ${name}`, [`run ${GATE}`, ...WORK])
      issues.push(issue)
      const running = await system.waitForStatus(issue, 'running')
      await waitForState(issue, 'In Progress')
      const mend = system.linear.faults.add(fault)
      system.openGates(running)
      const run = await system.waitForEnd(issue)
      expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
      mend()
    }
    for (const issue of issues) await waitForState(issue, 'In Review')
    const linked = () => system.linear.world.attachments.map(({ issue }) => issue.identifier)
    const areLinked = () => issues.every(({ identifier }) => linked().includes(identifier))
    await until('their pull requests are linked in them', areLinked, SYSTEM_WAIT_MS_MAX)
    expect(linked().sort()).toEqual(issues.map(({ identifier }) => identifier).sort())
    await isClosedElsewhere(system, issues[0] as IssueRow)
  })

  /** Opening the run shows it at once, without waiting for the next poll. */
  async function isClosedElsewhere(system: ProviderSystem, issue: IssueRow): Promise<void> {
    const { id, prUrl = '' } = await system.waitForEnd(issue)
    const { github } = system
    github.addToken(REVIEWER, 'ghp_of_lisa')
    const address = `${github.apiUrl}/repos/acme/app/pulls/${prUrl.split('/').at(-1)}`
    const headers = { authorization: 'Bearer ghp_of_lisa', 'content-type': 'application/json' }
    const closed = await fetch(address, { method: 'PATCH', headers, body: '{"state":"closed"}' })
    expect(closed.status).toBe(200)
    const dashboard = await system.connectDashboard()
    await system.get(`/api/runs/${id}`)
    const isShown = () => dashboard.run(id)?.prState === 'closed'
    await until('dashboards hear that it is closed', isShown, SYSTEM_WAIT_MS_MAX)
  }

  story('opens its pull request once, whichever of the first attempts fail', async () => {
    const system = await openConnected()
    const { faults } = system.github
    const tries: readonly (readonly [string, Partial<GithubFaults>])[] = [
      ['a gateway’s page', { badGateway: true }],
      ['nothing', { reset: true }],
      ['that it was too much at once', { secondary: { status: 403, retryAfterSeconds: 1 } }],
    ]
    for (const [index, [name, fault]] of tries.entries()) {
      let asked = 0
      const matching = new FaultMatcher('^POST /repos/acme/app/pulls$', () => {
        asked += 1
        // The second attempt succeeds.
        if (asked > 1) Object.assign(faults, noFaults())
      })
      Object.assign(faults, { ...fault, matching })
      const run = await system.waitForEnd(system.createTicket(`Answered with ${name}`, WORK))
      expect([name, run.status, run.error, run.prState]).toEqual([name, 'completed', undefined, 'open'])
      expect([asked, system.github.repo('acme/app').issues.size]).toEqual([2, index + 1])
    }
  })

  story('continues with an invalid tracker key: polling stops until there is a new key', async () => {
    const system = await openConnected()
    const dashboard = await system.connectDashboard()
    const issue = system.createTicket('Outlive the key', [`run ${GATE}`, ...WORK])
    const running = await system.waitForStatus(issue, 'running')
    system.linear.accounts.removeKey(system.linear.apiKey)
    await dashboard.waitForTracker('auth-error')
    const asked = system.linear.calls.length
    system.openGates(running)
    const run = await system.waitForEnd(issue)
    expect([run.status, run.prState]).toEqual(['completed', 'open'])
    await pause(QUIET_MS)
    expect(system.linear.calls.slice(asked)).toEqual([])
    const next = system.createTicket('With the new key', WORK)
    await saveTrackerKey(system, system.linear.accounts.addKey(system.linear.viewer))
    await dashboard.waitForTracker('connected')
    expect((await system.waitForEnd(next)).status).toBe('completed')
    await expectLinkInTicket(system, run, issue)
  })

  story(
    'is cancelled when its ticket is withdrawn: always if queued, by configuration if running',
    async () => {
      const system = await openConnected({ ...STATES, whenTicketLeaves: 'stop' })
      const running = system.createTicket('Begun', [`run ${GATE}`, ...WORK])
      await system.waitForStatus(running, 'running')
      // A status that the host itself set does not count as withdrawn.
      await waitForState(running, 'In Progress')
      const { id } = await system.waitForStatus(running, 'running')
      system.linear.world.change(running, { state: 'Backlog' })
      expect((await system.waitForEnd(running)).status).toBe('cancelled')
      // The ticket is withdrawn right when the run starts: the host's own status change must not undo that.
      beforeStatusRead(system, () => system.linear.world.change(running, { state: 'Backlog' }))
      system.linear.world.change(running, { state: 'Todo' })
      const again = await system.waitForRun(running, 'over again', (run) => run.id !== id && isOver(run))
      expect([again.status, running.state.name]).toEqual(['cancelled', 'Backlog'])

      await system.send('PUT', '/api/settings', {
        patch: { worker: { local: false }, tracker: { whenTicketLeaves: 'finish' } },
      })
      const queued = system.createTicket('Not begun', WORK)
      await system.waitForStatus(queued, 'queued')
      system.linear.world.change(queued, { state: 'Backlog' })
      expect((await system.waitForEnd(queued)).status).toBe('cancelled')
      expect(system.github.repo('acme/app').issues.size).toBe(0)
    },
  )

  /** Runs once, right before the host reads the status of the ticket that it is about to move. */
  function beforeStatusRead({ linear }: ProviderSystem, does: () => void): void {
    const forget = linear.faults.add(
      { kind: 'internal' },
      {
        where: (operation) => {
          if (operation !== 'Whereabouts') return false
          forget()
          does()
          return false
        },
      },
    )
  }
})
