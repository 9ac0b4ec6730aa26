/** Issues that the host creates at the fake Linear: their ids, their place, and what is refused. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { NewTicket, TrackedTicket } from '../../../../core/ports/tracker.ts'
import type { Result } from '../../../../core/result.ts'
import { isEligible } from '../../../../core/tickets/eligibility.ts'
import { type LinearBench, linearBench, TODO } from './linear-fixture.ts'

let bench: LinearBench

beforeEach(async () => {
  bench = await linearBench()
  bench.linear.world.team({ key: 'ENG', name: 'Engineering' })
})
afterEach(() => bench.stop())

function create(more: Partial<NewTicket> = {}): Promise<Result<TrackedTicket>> {
  if (bench.tracker.createTicket === undefined) throw new Error('it creates tickets')
  return bench.tracker.createTicket({
    title: 'Mend the lamp',
    description: 'It is dark.',
    priority: 0,
    labels: [],
    rules: TODO,
    repos: {},
    isEligible: true,
    ...more,
  })
}

async function created(more: Partial<NewTicket> = {}): Promise<TrackedTicket> {
  const answer = await create(more)
  if (!answer.ok) throw new Error(`${answer.refusal.kind}: ${answer.refusal.message}`)
  return answer.value
}

test('a started ticket is in the first eligible state that the team has, and the next poll lists it', async () => {
  const tracked = await created({ priority: 2, rules: { ...TODO, states: ['Ready', 'todo'] } })
  expect(tracked).toMatchObject({
    closed: false,
    ticket: { title: 'Mend the lamp', description: 'It is dark.', state: 'Todo', priority: 2, labels: [] },
  })
  expect(await bench.eligible()).toEqual([tracked.ticket.identifier])
  expect(bench.linear.world.issues).toHaveLength(1)
})

test('labels, project and assignee of the rules make it eligible', async () => {
  const { world } = bench.linear
  for (const name of ['Agent', 'bug', 'web']) world.label(name)
  world.project({ name: 'Lamps' })
  const mapping = { remote: 'ada/web', label: 'web', trackerProject: 'Lamps' }
  const rules = { states: ['Todo'], labels: ['agent'], projects: ['lamps'], assignees: ['me'] }
  const tracked = await created({
    labels: ['Bug'],
    rules,
    repo: { key: 'web', mapping },
    repos: { web: mapping },
  })
  expect(isEligible(tracked, rules)).toBe(true)
  expect(tracked.ticket).toMatchObject({ labels: ['Agent', 'bug', 'web'], project: 'Lamps' })
})

test('a label of the team is preferred to one of the workspace', async () => {
  const { world } = bench.linear
  const [team = null] = world.teams
  world.label('bug')
  const own = world.label('bug', team)
  world.label('bug', world.team({ key: 'OPS' }))
  world.project({ name: 'Lamps', teams: team === null ? [] : [team] })
  await created({ labels: ['bug'], rules: { ...TODO, projects: ['Lamps'] } })
  expect(world.issues[0]?.labels.map(({ id }) => id)).toEqual([own.id])
})

test('without a rule for states the team decides', async () => {
  expect((await created({ rules: { ...TODO, states: [] } })).ticket.state).toBe('Backlog')
})

describe('a waiting ticket', () => {
  test('is in a state of the backlog', async () => {
    expect((await created({ isEligible: false })).ticket.state).toBe('Backlog')
  })

  test('is in another state for waiting where the backlog is eligible, or lacks the eligible label', async () => {
    const eligibleBacklog = { ...TODO, states: ['Backlog'] }
    expect((await created({ isEligible: false, rules: eligibleBacklog })).ticket.state).toBe('Triage')
    bench.linear.world.label('agent')
    const labelled = { ...TODO, states: [], labels: ['agent'] }
    const tracked = await created({ isEligible: false, labels: ['agent'], rules: labelled })
    expect(tracked.ticket.labels).toEqual([])
    expect(await create({ isEligible: false, rules: { ...TODO, states: [] } })).toMatchObject({
      refusal: { kind: 'conflict' },
    })
  })
})

describe('refused, and nothing is created', () => {
  afterEach(() => expect(bench.linear.world.issues.map(({ title }) => title)).toEqual([]))

  test('a label that Linear lacks: of the request 400, of the settings 409', async () => {
    expect(await create({ labels: ['odd'] })).toMatchObject({
      refusal: { kind: 'invalid', message: expect.stringMatching(/^\/labels: .*odd/) },
    })
    expect(await create({ rules: { ...TODO, labels: ['odd'] } })).toMatchObject({
      refusal: { kind: 'conflict' },
    })
  })

  test('a team, a project, a state or a person that cannot be told', async () => {
    const { world } = bench.linear
    world.project({ name: 'Lamps' })
    for (const rules of [
      { ...TODO, projects: ['Wires'] },
      { ...TODO, states: ['Ready', 'Done'] },
      { ...TODO, assignees: ['nobody'] },
    ])
      expect(await create({ rules })).toMatchObject({ refusal: { kind: 'conflict' } })
    world.team({ key: 'OPS' })
    expect(await create()).toMatchObject({
      refusal: { kind: 'conflict', message: expect.stringMatching(/team/) },
    })
  })

  test('a repository that nothing at Linear can tell', async () => {
    bench.linear.world.label('page')
    const repos = { web: { remote: 'ada/web' }, page: { remote: 'ada/page', label: 'page' } }
    const repo = { key: 'web', mapping: repos.web }
    expect(await create({ repo, repos, labels: ['page'] })).toMatchObject({ refusal: { kind: 'conflict' } })
  })

  test('a lost credential', async () => {
    bench.linear.faults.add({ kind: 'authentication' })
    expect(await create()).toMatchObject({ refusal: { kind: 'unauthorized' } })
  })
})

test('an outage during the mutation is reported, and no second issue is created', async () => {
  bench.linear.faults.add({ kind: 'html', status: 502 }, { where: (name) => name === 'CreateIssue' })
  expect(await create()).toMatchObject({ refusal: { kind: 'unavailable' } })
  bench.linear.faults.clear()
  await created()
  expect(bench.linear.world.issues).toHaveLength(1)
})
