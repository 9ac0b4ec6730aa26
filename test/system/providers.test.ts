/**
 * Tickets in Linear become pull requests on GitHub: real hosts, workers, sandboxes and git, and fakes of the two
 * providers that can fail on demand.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import type { PullDetail, PullListResponse } from '../../protocol/pulls.ts'
import type { Run } from '../../protocol/run.ts'
import { STORY_WAIT_MS } from '../support/dashboard-client.ts'
import { Watching } from '../support/fault-matcher.ts'
import { type GithubFaults, noFaults } from '../support/github/faults.ts'
import type { GraphFault } from '../support/linear/faults.ts'
import type { IssueRow } from '../support/linear/rows.ts'
import { GATE, isOver } from '../support/local-system.ts'
import { connectByDevice } from '../support/oauth-consent.ts'
import { until } from '../support/real-files.ts'
import { Crossing, OWNER, REVIEWER } from '../support/system-with-providers.ts'

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

async function withKey(crossing: Crossing, trackerApiKey: string): Promise<void> {
  const saved = await crossing.send('PUT', '/api/settings/credentials', { trackerApiKey })
  expect(saved.body).toMatchObject({ results: { tracker: { ok: true, detail: 'Ada Lovelace in Acme' } } })
}

async function connected(tracker: object = {}): Promise<Crossing> {
  const crossing = await Crossing.open({ tracker })
  await withKey(crossing, crossing.linear.apiKey)
  await connectByDevice(crossing)
  return crossing
}

const isIn = (issue: IssueRow, state: string): Promise<void> =>
  until(`${issue.identifier} is in ${state}`, () => issue.state.name === state, STORY_WAIT_MS)

describe('a ticket in Linear', () => {
  story('becomes a pull request on GitHub, is reviewed, and merged', async () => {
    const crossing = await connected(STATES)
    const dashboard = await crossing.dashboard()
    const issue = crossing.ticket('Say hello', [`run ${GATE}`, ...WORK])
    const running = await crossing.reaches(issue, 'running')
    await isIn(issue, 'In Progress')
    crossing.letGo(running)
    const run = await crossing.ends(issue)
    expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
    await isIn(issue, 'In Review')
    await isOnGithub(crossing, run, issue)
    await isLinked(crossing, run, issue)
    await isReviewed(crossing)
    const merged = await crossing.send('POST', `${PULL}/merge`, { method: 'squash' })
    expect(merged.body).toMatchObject({ merged: true })
    expect(crossing.github.pull('acme/app', 1).pull.mergedMs).not.toBeNull()
    const isTold = () => dashboard.run(run.id)?.prState === 'merged'
    await until('dashboards hear that it is merged', isTold, STORY_WAIT_MS)
    expect(await crossing.run(issue)).toMatchObject({ prState: 'merged', status: 'completed' })
    // The host's own status changes must not start the ticket again.
    expect(await crossing.get<Run[]>('/api/runs')).toHaveLength(1)
    expect([crossing.github.counters.bugs, crossing.github.violations]).toEqual([[], []])
  })
})

async function isOnGithub({ github, get }: Crossing, run: Run, { identifier }: IssueRow): Promise<void> {
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

async function isLinked({ linear }: Crossing, run: Run, issue: IssueRow): Promise<void> {
  const links = () => linear.world.attachments.filter((row) => row.issue === issue)
  await until('the pull request is linked in the ticket', () => links().length > 0, STORY_WAIT_MS)
  expect(links().map(({ url }) => url)).toEqual([run.prUrl])
}

/** A reviewer requests a change on GitHub, and a follow-up answers. */
async function isReviewed({ github, send, get }: Crossing): Promise<void> {
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
    const crossing = await connected(STATES)
    const issues: IssueRow[] = []
    for (const [name, fault] of faults) {
      const issue = crossing.ticket(`While it ${name}`, [`run ${GATE}`, ...WORK])
      issues.push(issue)
      const running = await crossing.reaches(issue, 'running')
      await isIn(issue, 'In Progress')
      const mend = crossing.linear.faults.add(fault)
      crossing.letGo(running)
      const run = await crossing.ends(issue)
      expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
      mend()
    }
    for (const issue of issues) await isIn(issue, 'In Review')
    const linked = () => crossing.linear.world.attachments.map(({ issue }) => issue.identifier)
    const areLinked = () => issues.every(({ identifier }) => linked().includes(identifier))
    await until('their pull requests are linked in them', areLinked, STORY_WAIT_MS)
    expect(linked().sort()).toEqual(issues.map(({ identifier }) => identifier).sort())
    await isClosedElsewhere(crossing, issues[0] as IssueRow)
  })

  /** Opening the run shows it at once, without waiting for the next poll. */
  async function isClosedElsewhere(crossing: Crossing, issue: IssueRow): Promise<void> {
    const { id, prUrl = '' } = await crossing.ends(issue)
    const { github } = crossing
    github.addToken(REVIEWER, 'ghp_of_lisa')
    const address = `${github.apiUrl}/repos/acme/app/pulls/${prUrl.split('/').at(-1)}`
    const headers = { authorization: 'Bearer ghp_of_lisa', 'content-type': 'application/json' }
    const closed = await fetch(address, { method: 'PATCH', headers, body: '{"state":"closed"}' })
    expect(closed.status).toBe(200)
    const dashboard = await crossing.dashboard()
    await crossing.get(`/api/runs/${id}`)
    const isTold = () => dashboard.run(id)?.prState === 'closed'
    await until('dashboards hear that it is closed', isTold, STORY_WAIT_MS)
  }

  story('opens its pull request once, whichever of the first attempts fail', async () => {
    const crossing = await connected()
    const { faults } = crossing.github
    const tries: readonly (readonly [string, Partial<GithubFaults>])[] = [
      ['a gateway’s page', { badGateway: true }],
      ['nothing', { reset: true }],
      ['that it was too much at once', { secondary: { status: 403, retryAfterSeconds: 1 } }],
    ]
    for (const [index, [name, fault]] of tries.entries()) {
      let asked = 0
      const matching = new Watching('^POST /repos/acme/app/pulls$', () => {
        asked += 1
        // The second attempt succeeds.
        if (asked > 1) Object.assign(faults, noFaults())
      })
      Object.assign(faults, { ...fault, matching })
      const run = await crossing.ends(crossing.ticket(`Answered with ${name}`, WORK))
      expect([name, run.status, run.error, run.prState]).toEqual([name, 'completed', undefined, 'open'])
      expect([asked, crossing.github.repo('acme/app').issues.size]).toEqual([2, index + 1])
    }
  })

  story('continues with an invalid tracker key: polling stops until there is a new key', async () => {
    const crossing = await connected()
    const dashboard = await crossing.dashboard()
    const issue = crossing.ticket('Outlive the key', [`run ${GATE}`, ...WORK])
    const running = await crossing.reaches(issue, 'running')
    crossing.linear.accounts.removeKey(crossing.linear.apiKey)
    await dashboard.trackerIs('auth-error')
    const asked = crossing.linear.calls.length
    crossing.letGo(running)
    const run = await crossing.ends(issue)
    expect([run.status, run.prState]).toEqual(['completed', 'open'])
    await pause(QUIET_MS)
    expect(crossing.linear.calls.slice(asked)).toEqual([])
    const next = crossing.ticket('With the new key', WORK)
    await withKey(crossing, crossing.linear.accounts.addKey(crossing.linear.viewer))
    await dashboard.trackerIs('connected')
    expect((await crossing.ends(next)).status).toBe('completed')
    await isLinked(crossing, run, issue)
  })

  story(
    'is cancelled when its ticket is withdrawn: always if queued, by configuration if running',
    async () => {
      const crossing = await connected({ ...STATES, whenTicketLeaves: 'stop' })
      const running = crossing.ticket('Begun', [`run ${GATE}`, ...WORK])
      await crossing.reaches(running, 'running')
      // A status that the host itself set does not count as withdrawn.
      await isIn(running, 'In Progress')
      const { id } = await crossing.reaches(running, 'running')
      crossing.linear.world.change(running, { state: 'Backlog' })
      expect((await crossing.ends(running)).status).toBe('cancelled')
      // The ticket is withdrawn right when the run starts: the host's own status change must not undo that.
      whenItIsLookedFor(crossing, () => crossing.linear.world.change(running, { state: 'Backlog' }))
      crossing.linear.world.change(running, { state: 'Todo' })
      const again = await crossing.runIs(running, 'over again', (run) => run.id !== id && isOver(run))
      expect([again.status, running.state.name]).toEqual(['cancelled', 'Backlog'])

      await crossing.send('PUT', '/api/settings', {
        patch: { worker: { local: false }, tracker: { whenTicketLeaves: 'finish' } },
      })
      const queued = crossing.ticket('Not begun', WORK)
      await crossing.reaches(queued, 'queued')
      crossing.linear.world.change(queued, { state: 'Backlog' })
      expect((await crossing.ends(queued)).status).toBe('cancelled')
      expect(crossing.github.repo('acme/app').issues.size).toBe(0)
    },
  )

  /** Runs once, right before the host reads the status of the ticket that it is about to move. */
  function whenItIsLookedFor({ linear }: Crossing, does: () => void): void {
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
