/** Issues that the host creates on the fake GitHub: their place, their repository, and what GitHub refuses. */
import { afterEach, expect, test } from '@jest/globals'
import type { NewTicket, TrackedTicket } from '../../../../core/ports/tracker.ts'
import type { Result } from '../../../../core/result.ts'
import { isEligible } from '../../../../core/tickets/eligibility.ts'
import { configDefaults, type ServiceConfig } from '../../../../protocol/config.ts'
import { createGithubTracker } from '../../../../providers/tracker/github/tracker.ts'
import { githubBench, ME, REMOTE, SOMEBODY, TOKEN } from '../codehost/github-fixture.ts'

const POLL_MS = 30_000
const RULES = configDefaults.tracker.eligible
const SECOND = 'ada/wires'

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const resource of open.splice(0)) await resource.close()
})

async function bench(
  repos: ServiceConfig['repos'] = { web: { remote: REMOTE } },
  role: 'push' | 'pull' = 'push',
) {
  const members = { [ME]: role, [SOMEBODY]: 'push' } as const
  const made = await githubBench({
    repos: [REMOTE, SECOND].map((fullName) => ({ fullName, members })),
  })
  open.push({
    close: async () => {
      const wrong = [...made.github.violations, ...made.github.counters.bugs]
      await made.close()
      expect(wrong).toEqual([])
    },
  })
  const tracker = {
    ...configDefaults.tracker,
    driver: 'github' as const,
    apiKey: TOKEN,
    apiUrl: made.github.apiUrl,
  }
  const config: ServiceConfig = { ...configDefaults, tracker, repos }
  const driver = createGithubTracker({ ...made, config })
  const create = (more: Partial<NewTicket> = {}): Promise<Result<TrackedTicket>> => {
    if (driver.createTicket === undefined) throw new Error('it creates tickets')
    const key = (more.repo ?? undefined)?.key
    return driver.createTicket({
      title: 'Mend the lamp',
      description: 'It is dark.',
      priority: 0,
      labels: [],
      repos,
      rules: RULES,
      isEligible: true,
      ...more,
      ...(key === undefined ? {} : { repo: { key, mapping: repos[key] ?? { remote: '' } } }),
    })
  }
  const created = async (more: Partial<NewTicket> = {}): Promise<TrackedTicket> => {
    const answer = await create(more)
    if (!answer.ok) throw new Error(`${answer.refusal.kind}: ${answer.refusal.message}`)
    return answer.value
  }
  const listed = async () => {
    made.clock.jump(POLL_MS)
    const answer = await driver.listTickets({ rules: RULES, tickets: [] })
    if (!answer.ok) throw new Error(answer.refusal.message)
    return answer.value.tickets
  }
  return { ...made, create, created, listed }
}

test('a started ticket is an open issue with the label of the first eligible state', async () => {
  const { created, listed, github } = await bench()
  await listed()
  const tracked = await created({
    priority: 2,
    labels: ['bug'],
    rules: { ...RULES, labels: ['agent'], assignees: [ME] },
  })
  expect(tracked).toMatchObject({
    closed: false,
    ticket: {
      id: `${REMOTE}#1`,
      identifier: 'lamps#1',
      title: 'Mend the lamp',
      description: 'It is dark.',
      state: 'Todo',
      priority: 2,
      labels: expect.arrayContaining(['bug', 'agent', 'priority: high']),
      assignee: ME,
      repo: 'web',
    },
  })
  expect(isEligible(tracked, { ...RULES, labels: ['agent'], assignees: [ME] })).toBe(true)
  expect(await listed()).toEqual([tracked])
  expect(github.addIssue(REMOTE, { title: 'next', author: SOMEBODY }).number).toBe(2)
})

test('a waiting ticket is open without the label of an eligible state', async () => {
  const { created, create } = await bench()
  const tracked = await created({ isEligible: false, labels: ['bug'] })
  expect(tracked.ticket).toMatchObject({ state: 'Open', labels: ['bug'] })
  const labelled = { ...RULES, states: ['Open'], labels: ['agent'] }
  const without = await created({ isEligible: false, labels: ['agent', 'bug'], rules: labelled })
  expect(without.ticket.labels).toEqual(['bug'])
  expect(await create({ isEligible: false, rules: { ...RULES, states: [] } })).toMatchObject({
    refusal: { kind: 'conflict' },
  })
})

test('the repository is the named one, the only one, or the one that the labels tell', async () => {
  const { created, create } = await bench({
    web: { remote: REMOTE, label: 'web' },
    page: { remote: REMOTE, label: 'page' },
    wires: { remote: SECOND },
  })
  const page = { key: 'page', mapping: { remote: REMOTE } }
  expect((await created({ repo: page })).ticket).toMatchObject({
    repo: 'page',
    project: REMOTE,
    labels: ['page'],
  })
  expect((await created({ labels: ['web'] })).ticket).toMatchObject({ repo: 'web', project: REMOTE })
  expect((await created()).ticket).toMatchObject({ repo: 'wires', project: SECOND })
  expect(await create({ labels: ['web', 'page'] })).toMatchObject({
    refusal: { kind: 'invalid', message: expect.stringMatching(/^\/repo: 2 repositories fit/) },
  })
})

test('without the right to push GitHub leaves labels out, and the issue is there', async () => {
  const { created } = await bench(undefined, 'pull')
  expect((await created()).ticket).toMatchObject({ state: 'Open', labels: [] })
})

test('what cannot be created is refused with GitHub’s reason', async () => {
  const { create, github } = await bench()
  expect(await create({ rules: { ...RULES, projects: [SECOND] } })).toMatchObject({
    refusal: { kind: 'conflict' },
  })
  expect(await create({ description: 'x'.repeat(65_537) })).toMatchObject({
    refusal: { kind: 'invalid', message: expect.stringMatching(/^\/description: /) },
  })
  github.repo(REMOTE).hasIssues = false
  expect(await create()).toMatchObject({
    refusal: { kind: 'gone', message: expect.stringMatching(/disabled/) },
  })
})
