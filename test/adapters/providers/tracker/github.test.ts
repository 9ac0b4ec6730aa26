/** GitHub issues as a tracker, against a fake that counts requests. */
import { afterEach, describe, expect, test } from '@jest/globals'
import type { Result } from '../../../../core/result.ts'
import { configDefaults, type ServiceConfig } from '../../../../protocol/config.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { Ticket } from '../../../../protocol/run.ts'
import { resolveGithubAccount } from '../../../../providers/tracker/github/account.ts'
import { createGithubTracker } from '../../../../providers/tracker/github/tracker.ts'
import { createTracker } from '../../../../providers/tracker/registry.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { createSettableClock } from '../../../support/test-resources.ts'
import {
  fastClock,
  type GithubBench,
  githubBench,
  ME,
  REMOTE,
  SOMEBODY,
  TOKEN,
} from '../codehost/github-fixture.ts'
import { createManualGithub, type ManualReply } from '../codehost/manual-github.ts'

const isTicket = createChecker(Ticket)
const HOUR_MS = 3_600_000
/** Longer than the interval between two reads of a repository. */
const POLL_MS = 30_000

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const resource of open.splice(0)) await resource.close()
})

type RepoMappings = ServiceConfig['repos']

function configFor(apiUrl: string | undefined, repos: RepoMappings, more: object = {}): ServiceConfig {
  const tracker = {
    ...configDefaults.tracker,
    driver: 'github' as const,
    apiKey: TOKEN,
    ...(apiUrl === undefined ? {} : { apiUrl }),
    startedState: 'In Progress',
    reviewState: 'In Review',
    ...more,
  }
  return { ...configDefaults, tracker, repos }
}

async function bench(repos: RepoMappings = { web: { remote: REMOTE } }, more: object = {}) {
  const made = await githubBench()
  open.push({
    close: async () => {
      const wrong = [...made.github.violations, ...made.github.counters.bugs]
      await made.close()
      expect(wrong).toEqual([])
    },
  })
  const config = configFor(made.github.apiUrl, repos, more)
  return { ...made, ...driverOn(made, config), config }
}

function driverOn({ clients, clock }: Pick<GithubBench, 'clients' | 'clock'>, config: ServiceConfig) {
  const tracker = createGithubTracker({ clients, clock, config })
  const listTickets = async (...tickets: string[]) => {
    clock.jump(POLL_MS)
    const listing = granted(await tracker.listTickets({ rules: config.tracker.eligible, tickets }))
    for (const { ticket } of listing.tickets) expect(isTicket(ticket)).toMatchObject({ ok: true })
    return listing
  }
  /** `id state`, followed by `closed` for closed tickets. */
  const states = async (...tickets: string[]) =>
    (await listTickets(...tickets)).tickets
      .map(({ ticket, closed }) => `${ticket.id} ${ticket.state}${closed ? ' closed' : ''}`)
      .sort()
  return { tracker, listTickets, states }
}

function granted<T>(answer: Result<T>): T {
  if (!answer.ok) throw new Error(`${answer.refusal.kind}: ${answer.refusal.message}`)
  return answer.value
}

describe('polling', () => {
  test('every open issue is a ticket, and pull requests are not', async () => {
    const { github, listTickets } = await bench()
    github.addIssue(REMOTE, {
      title: 'Mend the lamp',
      body: 'It is dark.\n\nBlocked by #2',
      author: SOMEBODY,
      labels: ['Todo', 'P2', 'bug'],
      assignees: [ME],
    })
    github.addIssue(REMOTE, { title: 'Buy wires', author: SOMEBODY })
    await github.openPulls(REMOTE, 1, SOMEBODY)
    const { tickets, problems } = await listTickets()
    expect(problems).toEqual([])
    const [first] = tickets.filter(({ ticket }) => ticket.title === 'Mend the lamp')
    expect(first).toEqual({
      closed: false,
      ticket: {
        id: 'ada/lamps#1',
        identifier: 'lamps#1',
        title: 'Mend the lamp',
        description: 'It is dark.\n\nBlocked by #2',
        url: `${github.origin}/ada/lamps/issues/1`,
        state: 'Todo',
        priority: 2,
        labels: ['P2', 'bug'],
        assignee: ME,
        project: REMOTE,
        repo: 'web',
        blockedBy: ['ada/lamps#2'],
        createdAt: expect.any(String),
        updatedAt: expect.any(String),
      },
    })
    expect(tickets.length).toBe(2)
  })

  test('a day of polls without changes costs almost nothing', async () => {
    const { github, listTickets } = await bench()
    for (const title of ['One', 'Two', 'Three']) github.addIssue(REMOTE, { title, author: SOMEBODY })
    await listTickets()
    await listTickets()
    github.counters.clear()
    for (let poll = 0; poll < 60; poll++) await listTickets()
    expect(github.counters.requests).toBeLessThanOrEqual(61)
    expect(github.counters.charged).toBeLessThanOrEqual(2)
  })

  test('the next poll sees new issues, labels, closing and reopening', async () => {
    const { github, states, tracker } = await bench()
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY, labels: ['Todo'] })
    github.addIssue(REMOTE, { title: 'Two', author: SOMEBODY, labels: ['Todo'] })
    expect(await states()).toEqual(['ada/lamps#1 Todo', 'ada/lamps#2 Todo'])
    github.addIssue(REMOTE, { title: 'Three', author: SOMEBODY })
    await tracker.moveTicket('ada/lamps#1', 'In Progress')
    await tracker.moveTicket('ada/lamps#2', 'Done')
    expect(await states()).toEqual([
      'ada/lamps#1 In Progress',
      'ada/lamps#2 Closed closed',
      'ada/lamps#3 Open',
    ])
    const reopened = github.issue(REMOTE, 2)
    Object.assign(reopened, { state: 'open', updatedMs: github.world.now(), labels: ['Todo'] })
    expect((await states())[1]).toBe('ada/lamps#2 Todo')
  })

  test('a deleted issue counts as gone after the next full read, once it was read by itself', async () => {
    const { github, states, clock } = await bench()
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY })
    github.addIssue(REMOTE, { title: 'Two', author: SOMEBODY })
    await states()
    github.repo(REMOTE).issues.delete(2)
    expect(await states()).toEqual(['ada/lamps#1 Open', 'ada/lamps#2 Open'])
    clock.jump(HOUR_MS)
    expect(await states()).toEqual(['ada/lamps#1 Open', 'ada/lamps#2 Closed closed'])
  })

  test('requested tickets are listed in any state', async () => {
    const { github, states, tracker } = await bench()
    for (const title of ['One', 'Two']) github.addIssue(REMOTE, { title, author: SOMEBODY })
    await github.addRepo({ fullName: 'ada/wires', members: { [ME]: 'push' } })
    github.addIssue('ada/wires', { title: 'Elsewhere', author: SOMEBODY })
    await tracker.moveTicket('ada/lamps#2', 'Done')
    expect(await states()).toEqual(['ada/lamps#1 Open'])
    const wished = ['ada/lamps#2', 'ada/wires#1', 'ada/lamps#4711', 'ENG-12', 'nobody/nothing#1']
    const expected = ['ada/lamps#1 Open', 'ada/lamps#2 Closed closed', 'ada/wires#1 Open']
    expect(await states(...wished)).toEqual(expected)
    expect(await states(...wished)).toEqual(expected)
  })

  test('an unreadable repository is reported, its known issues stay, and others are unaffected', async () => {
    const repos = { web: { remote: REMOTE }, wires: { remote: 'ada/wires' }, none: { remote: 'no/where' } }
    const { github, listTickets, states } = await bench(repos)
    await github.addRepo({ fullName: 'ada/wires', members: { [ME]: 'push' } })
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY })
    github.addIssue('ada/wires', { title: 'Two', author: SOMEBODY })
    expect((await listTickets()).problems).toEqual([
      expect.stringMatching(/^no\/where: GitHub has no repository no\/where/),
    ])
    github.faults.down.add('ada/wires')
    github.addIssue(REMOTE, { title: 'Three', author: SOMEBODY })
    expect(await states()).toEqual(['ada/lamps#1 Open', 'ada/lamps#2 Open', 'ada/wires#1 Open'])
    expect((await listTickets()).problems).toContainEqual(expect.stringMatching(/^ada\/wires: GitHub failed/))
    github.repo('ada/wires').hasIssues = false
    github.faults.down.clear()
    expect((await listTickets()).problems).toContainEqual(expect.stringMatching(/^ada\/wires: /))
  })

  test('a refused token is permanent, any other failure of all repositories is temporary', async () => {
    const { github, tracker, config, clock } = await bench()
    const query = { rules: config.tracker.eligible, tickets: [] }
    github.faults.down.add(REMOTE)
    expect(await tracker.listTickets(query)).toMatchObject({ refusal: { kind: 'unavailable' } })
    github.faults.down.clear()
    github.revokeToken(TOKEN)
    clock.jump(HOUR_MS)
    const refused = await tracker.listTickets(query)
    expect(refused).toMatchObject({ refusal: { kind: 'unauthorized' } })
    expect(JSON.stringify(refused)).not.toContain(TOKEN)
  })

  test('a comment on an issue is written once', async () => {
    const { github, tracker } = await bench()
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY, labels: ['Todo'] })
    const comment = (id: string) => tracker.comment?.(id, { key: 'run-1', text: 'run-1 changed nothing' })
    expect(await comment('ada/lamps#1')).toMatchObject({ ok: true })
    expect(await comment('ada/lamps#1')).toMatchObject({ ok: true })
    const { issues } = github.repo(REMOTE)
    expect([...issues.values()].flatMap(({ comments }) => comments).map(({ body }) => body)).toEqual([
      'run-1 changed nothing',
    ])
    expect(await comment('ada/lamps#9')).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
    expect(await comment('other/place#1')).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
  })

  test('a renamed repository keeps its tickets’ ids', async () => {
    const { github, states, tracker } = await bench()
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY, labels: ['Todo'] })
    expect(await states()).toEqual(['ada/lamps#1 Todo'])
    github.renameRepo(REMOTE, 'ada/lanterns')
    expect(await tracker.moveTicket('ada/lamps#1', 'In Review')).toMatchObject({ ok: true })
    expect(await states()).toEqual(['ada/lamps#1 In Review'])
  })

  test('with many repositories each is read less often', async () => {
    const repos = Object.fromEntries(
      Array.from({ length: 300 }, (_, index) => [`r${index}`, { remote: `ada/r${index}` }]),
    )
    const manual = createManualGithub(() => ({ json: [] }))
    // On a real clock a slow poll would count as a pause.
    const clock = createSettableClock()
    const { listTickets } = driverOn(
      { clients: { ...manual.clients, close: () => {} }, clock: { ...clock, jump: clock.wind } },
      configFor(undefined, repos),
    )
    await listTickets()
    await listTickets()
    expect(manual.requests.length).toBe(300)
    await listTickets()
    expect(manual.requests.length).toBe(600)
  })

  test.each([{}, [], null, 'gone', { number: '7' }])(
    'a reply without an issue (%j) does not mark the issue as gone',
    async (answer) => {
      const at = '2026-01-01T00:00:00Z'
      const issue = { number: 7, title: 'T', state: 'open', created_at: at, updated_at: at, labels: [] }
      let isListed = true
      const manual = createManualGithub(({ target }) => {
        if (target.includes('/issues?')) return { json: isListed ? [issue] : [] }
        return target.endsWith('/issues/7') ? { json: answer } : undefined
      })
      const { clients } = manual
      const clock = fastClock()
      const config = configFor(undefined, { web: { remote: REMOTE } })
      const { states } = driverOn({ clients: { ...clients, close: () => {} }, clock }, config)
      expect(await states()).toEqual([`${REMOTE}#7 Open`])
      isListed = false
      clock.jump(HOUR_MS)
      expect(await states()).toEqual([`${REMOTE}#7 Open`])
    },
  )

  test('a missing repository or token is reported with advice', async () => {
    const { listTickets, clients, clock, config } = await bench({})
    expect((await listTickets()).problems).toEqual([expect.stringMatching(/add one under repos/)])
    const bare = { ...config, tracker: { ...configDefaults.tracker, driver: 'github' as const } }
    const { tracker } = driverOn({ clients, clock }, bare)
    expect(await tracker.listTickets({ rules: config.tracker.eligible, tickets: [] })).toMatchObject({
      refusal: { kind: 'unauthorized', message: expect.stringMatching(/^GitHub needs a token/) },
    })
  })
})

describe('repositories', () => {
  const repoOf = async (repos: RepoMappings, ...labels: string[]) => {
    const { github, listTickets } = await bench(repos)
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY, labels })
    return (await listTickets()).tickets[0]?.ticket.repo
  }

  test('an issue belongs to its own repository, and to the matching one of several mappings', async () => {
    const two = { web: { remote: REMOTE, label: 'web' }, api: { remote: 'Ada/Lamps', label: 'api' } }
    expect(await repoOf({ web: { remote: REMOTE, label: 'other' } })).toBe('web')
    expect(await repoOf(two, 'API')).toBe('api')
    expect(await repoOf(two)).toBeUndefined()
  })

  test('repositories of the same name are distinguished by their owners', async () => {
    const { github, listTickets, tracker } = await bench({
      a: { remote: REMOTE },
      b: { remote: 'eve/lamps' },
    })
    await github.addRepo({ fullName: 'eve/lamps', members: { [ME]: 'push' } })
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY })
    github.addIssue('eve/lamps', { title: 'Two', body: 'Depends on ADA/lamps#1', author: SOMEBODY })
    const tickets = (await listTickets()).tickets.map(({ ticket }) => ticket)
    expect(tickets.map(({ identifier }) => identifier)).toEqual(['ada/lamps#1', 'eve/lamps#1'])
    expect(tickets[1]?.blockedBy).toEqual(['ada/lamps#1'])
    expect(granted(await tracker.projects())).toEqual([
      { id: REMOTE, name: REMOTE, url: `${github.origin}/ada/lamps`, teams: [] },
      { id: 'eve/lamps', name: 'eve/lamps', url: `${github.origin}/eve/lamps`, teams: [] },
    ])
  })
})

describe('moving', () => {
  test('new rules and new states apply at once', async () => {
    const { github, tracker, states, config, clock } = await bench()
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY, labels: ['Next'] })
    expect(await states()).toEqual(['ada/lamps#1 Open'])
    clock.jump(POLL_MS)
    const rules = { ...config.tracker.eligible, states: ['next'] }
    expect(await tracker.listTickets({ rules, tickets: [] })).toMatchObject({
      value: { tickets: [{ ticket: { state: 'Next' } }] },
    })
    await tracker.moveTicket('ada/lamps#1', 'Waiting')
    expect(github.issue(REMOTE, 1).labels).toEqual(['Waiting'])
    expect(await states()).toEqual(['ada/lamps#1 Waiting'])
  })

  test('an issue that somebody moved elsewhere stays there', async () => {
    const { github, tracker } = await bench()
    const issue = github.addIssue(REMOTE, { title: 'One', author: SOMEBODY, labels: ['bug'] })
    expect(await tracker.moveTicket('ada/lamps#1', 'In Progress', ['Todo'])).toMatchObject({
      refusal: { message: expect.stringContaining('was moved to Open meanwhile') },
    })
    expect(issue.labels).toEqual(['bug'])
    expect(await tracker.moveTicket('ada/lamps#1', 'Canceled', ['Todo'])).toMatchObject({
      refusal: { message: expect.stringContaining('was moved to Open meanwhile') },
    })
    expect(issue.state).toBe('open')
    expect(await tracker.moveTicket('ada/lamps#1', 'In Progress', ['Open'])).toMatchObject({ ok: true })
  })

  test('the labels doneState and releasedState are states unless they close the issue', async () => {
    const { github, states } = await bench(
      { web: { remote: REMOTE } },
      { doneState: 'Shipped', releasedState: 'Stuck' },
    )
    for (const label of ['Shipped', 'Stuck', 'Done'])
      github.addIssue(REMOTE, { title: label, author: SOMEBODY, labels: [label] })
    expect((await states()).sort()).toEqual(['ada/lamps#1 Shipped', 'ada/lamps#2 Stuck', 'ada/lamps#3 Open'])
  })

  async function moved(labels: string[], state: string, more: object = {}) {
    const made = await bench({ web: { remote: REMOTE } }, more)
    const issue = made.github.addIssue(REMOTE, { title: 'One', author: SOMEBODY, labels })
    made.github.counters.clear()
    const answer = await made.tracker.moveTicket('ada/lamps#1', state)
    return { ...made, issue, answer }
  }

  test.each([
    [['Todo', 'bug'], 'In Progress', ['bug', 'In Progress']],
    [['todo', 'In Progress'], 'In Review', ['In Review']],
    [['bug'], 'In Progress', ['bug', 'In Progress']],
    [['in progress'], 'In Progress', ['in progress']],
    [['In Progress', 'bug'], 'Open', ['bug']],
    [['a/b c', 'Todo'], 'Ready ✓', ['a/b c', 'Ready ✓']],
  ])('%j to %s leaves %j', async (labels, state, expected) => {
    const { issue, answer } = await moved(labels, state)
    expect([answer, issue.labels, issue.state]).toEqual([{ ok: true, value: undefined }, expected, 'open'])
  })

  test('a move to the current state writes nothing', async () => {
    const { answer, github } = await moved(['In Progress'], 'in progress')
    expect([answer.ok, github.counters.requests]).toEqual([true, 1])
  })

  test.each([
    ['Done', 'completed'],
    ['Cancelled', 'not_planned'],
  ])('the state %s closes the issue', async (state, reason) => {
    const { issue, answer, tracker } = await moved(['In Progress', 'bug'], state, { reviewState: state })
    expect(answer.ok).toBe(true)
    expect(issue).toMatchObject({ state: 'closed', stateReason: reason, labels: ['bug'] })
    expect(await tracker.moveTicket('ada/lamps#1', state)).toMatchObject({ ok: true })
    expect(await tracker.moveTicket('ada/lamps#1', 'In Progress')).toMatchObject({
      refusal: { kind: 'invalid', message: expect.stringMatching(/is closed, and stays so/) },
    })
    expect(issue.state).toBe('closed')
  })

  test('a label that somebody removed meanwhile counts as removed', async () => {
    const { github, tracker } = await bench()
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY, labels: ['Todo'] })
    const issue = github.issue(REMOTE, 1)
    const move = tracker.moveTicket('ada/lamps#1', 'In Progress')
    const added = () => issue.labels.includes('In Progress')
    while (!added()) await new Promise((resolve) => setImmediate(resolve))
    issue.labels = ['In Progress']
    expect(await move).toMatchObject({ ok: true })
    expect(issue.labels).toEqual(['In Progress'])
  })

  test.each([
    ['nonsense', 'unknown'],
    ['eve/other#1', 'unknown'],
    ['ada/lamps#4711', 'unknown'],
  ])('%s is %s', async (id, kind) => {
    const { tracker } = await bench()
    expect(await tracker.moveTicket(id, 'Done')).toMatchObject({ refusal: { kind } })
  })

  test('a forbidden move is not retried', async () => {
    const { github, tracker } = await bench()
    github.addIssue(REMOTE, { title: 'One', author: SOMEBODY })
    github.repo(REMOTE).members.set(ME, 'pull')
    expect(await tracker.moveTicket('ada/lamps#1', 'Todo')).toMatchObject({
      refusal: { kind: expect.stringMatching(/^(invalid|unknown)$/) },
    })
  })

  test('a pull request with that number is not moved', async () => {
    const { github, tracker } = await bench()
    await github.openPulls(REMOTE, 1, SOMEBODY)
    expect(await tracker.moveTicket('ada/lamps#1', 'Done')).toMatchObject({ refusal: { kind: 'unknown' } })
  })
})

describe('blockers recorded by GitHub', () => {
  const issue = (more: object = {}) => ({
    number: 1,
    title: 'One',
    state: 'open',
    labels: [],
    created_at: '2026-01-01T00:00:00Z',
    updated_at: '2026-01-01T00:00:00Z',
    issue_dependencies_summary: { blocked_by: 1, total_blocked_by: 1, blocking: 0, total_blocking: 0 },
    ...more,
  })
  const two = { number: 2, repository_url: 'https://api.github.com/repos/Ada/Lamps' }

  async function waiting(dependencies: ManualReply) {
    const manual = createManualGithub(({ target }) => {
      if (target.includes('/dependencies/')) return dependencies
      return target.includes('/issues?')
        ? { json: [issue(), issue({ number: 2, issue_dependencies_summary: null })] }
        : undefined
    })
    const made = await githubBench({ repos: [] })
    open.push(made)
    const driver = driverOn(
      { clients: { ...manual.clients, close: () => {} }, clock: made.clock },
      configFor(undefined, { web: { remote: REMOTE } }),
    )
    return { manual, ...driver }
  }

  test('are read once, and again when the issue changes', async () => {
    const { manual, listTickets } = await waiting({ json: [two, { number: 3 }, null] })
    for (let poll = 0; poll < 3; poll++) {
      const [first] = (await listTickets()).tickets.filter(({ ticket }) => ticket.id === 'ada/lamps#1')
      expect(first?.ticket.blockedBy).toEqual(['ada/lamps#2'])
    }
    expect(manual.targets().filter((target) => target.includes('/dependencies/')).length).toBe(1)
  })

  test('without access only the text counts, and an outage refuses the poll', async () => {
    const forbidden = await waiting({ status: 403, json: { message: 'Resource not accessible' } })
    expect((await forbidden.listTickets()).tickets.length).toBe(2)
    const down = await waiting({ status: 502, text: '' })
    await expect(down.listTickets()).rejects.toThrow(/unavailable/)
  })
})

describe('credentials', () => {
  const codehost = { driver: 'github' as const, token: 'ghp_code' }
  const tracker = { ...configDefaults.tracker, driver: 'github' as const }
  test.each([
    [{ tracker: { ...tracker, apiKey: 'ghp_own' }, codehost }, 'ghp_own', undefined],
    [{ tracker, codehost }, 'ghp_code', undefined],
    [
      { tracker, codehost: { ...codehost, apiUrl: 'https://x.example/api/v3' } },
      'ghp_code',
      'https://x.example/api/v3',
    ],
    [
      { tracker: { ...tracker, apiUrl: 'https://api.github.com/' }, codehost },
      'ghp_code',
      'https://api.github.com/',
    ],
    [{ tracker: { ...tracker, apiUrl: 'https://x.example/api/v3' }, codehost }, undefined, undefined],
    [{ tracker, codehost: { driver: 'local' as const, token: 'ghp_code' } }, undefined, undefined],
    [{ tracker, codehost: { driver: 'github' as const } }, undefined, undefined],
  ])('%j → %s', (part, token, apiUrl) => {
    const account = resolveGithubAccount({ ...configDefaults, ...part })
    expect([account?.token, account?.apiUrl]).toEqual([token, apiUrl])
  })

  test('without a credential no tracker is connected', async () => {
    const { clients, clock, close } = await githubBench({ repos: [] })
    open.push({ close })
    const ports = { clients, clock, log: createRecordingLog() }
    expect(createTracker({ ...configDefaults, tracker }, ports)).toBeUndefined()
    expect(createTracker({ ...configDefaults, tracker, codehost }, ports)).toBeDefined()
  })
})
