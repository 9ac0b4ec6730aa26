/** Linear as a tracker, against the fake Linear. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { TrackedTicket } from '../../../../core/ports/tracker.ts'
import { openBlockers } from '../../../../core/tickets/blockers.ts'
import { isEligible } from '../../../../core/tickets/eligibility.ts'
import { configDefaults, type ServiceConfig } from '../../../../protocol/config.ts'
import { createTracker } from '../../../../providers/tracker/registry.ts'
import type { FakeLinear } from '../../../support/linear/linear.ts'
import type { IssueRow } from '../../../support/linear/rows.ts'
import { type LinearBench, linearBench, NO_RULES, namesOf, TODO } from './linear-fixture.ts'

let bench: LinearBench
let linear: FakeLinear

beforeEach(async () => {
  bench = await linearBench()
  linear = bench.linear
  linear.world.team({ key: 'ENG', name: 'Engineering' })
})

afterEach(() => bench.stop())

const find = (tickets: readonly TrackedTicket[], { id }: IssueRow) =>
  tickets.find(({ ticket }) => ticket.id === id)

// The fake accepts any function of a name, although its type is narrower.
const only = (wanted: string, nth = 1) => {
  let seen = 0
  return ((what: string) => what === wanted && ++seen === nth) as (what: string) => true
}

const waitsFor = (tickets: readonly TrackedTicket[], issue: IssueRow): string[] => {
  const byId = new Map(tickets.map((tracked) => [tracked.ticket.id, tracked]))
  const tracked = byId.get(issue.id)
  return tracked === undefined ? ['not shown'] : openBlockers(tracked.ticket, byId)
}

describe('a ticket', () => {
  test('holds all fields of its issue', async () => {
    const { world, viewer } = linear
    const project = world.project({ name: 'Lamps' })
    const blocker = world.issue({ title: 'First', state: 'Backlog' })
    const issue = world.issue({
      title: 'Mend the lamp',
      description: 'It **flickers**.',
      priority: 2,
      assignee: viewer,
      project,
      labels: ['ui', 'bug'],
      blockedBy: [blocker],
    })
    const { tickets, problems } = await bench.listTickets()
    expect(problems).toEqual([])
    expect(find(tickets, issue)).toEqual({
      closed: false,
      aliases: {
        assignee: ['Ada Lovelace', 'ada@acme.example', 'me'],
        project: [project.id, project.slugId],
      },
      ticket: {
        id: issue.id,
        identifier: 'ENG-2',
        title: 'Mend the lamp',
        description: 'It **flickers**.',
        url: issue.url,
        state: 'Todo',
        priority: 2,
        labels: ['bug', 'ui'],
        assignee: 'ada',
        project: 'Lamps',
        branchName: issue.branchName,
        blockedBy: [blocker.id],
        createdAt: '2026-01-01T00:00:00.000Z',
        updatedAt: '2026-01-01T00:00:00.000Z',
      },
    })
  })

  test('is cut to the limits of a ticket', async () => {
    const issue = linear.world.issue({
      title: `\u202e${'t'.repeat(20_000)}`,
      description: 'd'.repeat(200_000),
    })
    const shown = find((await bench.listTickets()).tickets, issue)
    expect(shown?.ticket.title).toHaveLength(16 * 1024)
    expect(shown?.ticket.title).toMatch(/^\ufffdt/)
    expect(shown?.ticket.description).toHaveLength(128 * 1024)
  })

  test('with unusually many labels and relations is read completely', async () => {
    const labels = Array.from({ length: 40 }, (_, n) => `label ${n}`)
    const blockers = Array.from({ length: 30 }, (_, n) =>
      linear.world.issue({ title: `${n}`, state: 'Backlog' }),
    )
    const issue = linear.world.issue({ title: 'x', labels, blockedBy: blockers })
    const rules = { ...NO_RULES, labels: ['label 39'] }
    const { tickets } = await bench.listTickets({ rules })
    const ticket = find(tickets, issue)?.ticket
    expect(ticket?.labels).toEqual(labels.toSorted())
    expect(ticket?.blockedBy.toSorted()).toEqual(blockers.map(({ id }) => id).sort())
    expect(linear.counts).toEqual({ Eligible: 1, LongIssue: 1, Issues: 1 })
  })

  test('with an invalid form is reported once and affects no other', async () => {
    const { world } = linear
    const odd = world.issue({ title: 'Odd' })
    Reflect.set(odd, 'identifier', 'ENG-'.repeat(100))
    const fine = world.issue({ title: 'Fine' })
    for (let polls = 0; polls < 3; polls++) {
      const { tickets, problems } = await bench.listTickets({ tickets: [odd.id] })
      expect(namesOf(tickets)).toEqual([fine.identifier])
      expect(problems).toEqual([expect.stringMatching(/^ENG-ENG-.*: \/identifier: /)])
    }
    expect(linear.counts.Issues).toBe(undefined)
    expect(bench.log.lines).toHaveLength(1)
    bench.later(() => world.change(odd, { title: 'Odd still' }))
    Reflect.set(odd, 'identifier', 'ENG-1')
    expect(await bench.listTickets()).toMatchObject({ problems: [], tickets: { length: 2 } })
  })
})

describe('the eligible filter', () => {
  test('follows the rules, whichever name they use', async () => {
    const { world, viewer } = linear
    const bob = world.user({ name: 'Bob', displayName: 'bobby', email: 'bob@acme.example' })
    const [lamps, gates] = [world.project({ name: 'Lamps' }), world.project({ name: 'Gates' })]
    const first = world.issue({
      title: 'one',
      assignee: viewer,
      project: lamps,
      labels: ['agent'],
    }).identifier
    const second = world.issue({ title: 'two', assignee: bob, project: gates, labels: ['Bug'] }).identifier
    world.issue({ title: 'three', state: 'Backlog' })
    world.issue({ title: 'four', state: 'Done', assignee: bob, project: gates, labels: ['bug'] })
    const rows: [Partial<ServiceConfig['tracker']['eligible']>, string[]][] = [
      [{ states: [' tODO '] }, [first, second]],
      [{ states: ['Backlog'] }, ['ENG-3']],
      [{ states: ['Done'] }, []],
      [{ states: ['todo', 'backlog'] }, [first, second, 'ENG-3']],
      [{}, [first, second, 'ENG-3']],
      [{ labels: ['BUG'] }, [second]],
      [{ labels: ['agent', 'bug'] }, [first, second]],
      [{ projects: ['lamps'] }, [first]],
      [{ projects: [gates.slugId] }, [second]],
      [{ projects: [gates.id.toUpperCase()] }, [second]],
      [{ projects: ['lamps', gates.id] }, [first, second]],
      [{ assignees: ['me'] }, [first]],
      [{ assignees: ['BOB@acme.example'] }, [second]],
      [{ assignees: ['Bobby'] }, [second]],
      [{ assignees: ['bob', 'me'] }, [first, second]],
      [{ assignees: ['nobody'] }, []],
      [{ states: ['Todo'], labels: ['agent'], projects: ['Gates'] }, []],
    ]
    for (const [rules, expected] of rows) {
      expect([rules, await bench.eligible({ ...NO_RULES, ...rules })]).toEqual([rules, expected])
    }
  })

  test('reads page by page', async () => {
    for (let n = 0; n < 120; n++) linear.world.issue({ title: `${n}` })
    expect(await bench.eligible()).toHaveLength(120)
    expect(linear.counts).toEqual({ Eligible: 3 })
  })

  test('reports more than a thousand tickets as long as there are so many', async () => {
    for (let n = 0; n < 1_040; n++) linear.world.issue({ title: `${n}` })
    for (let polls = 0; polls < 2; polls++) {
      const { tickets, problems } = await bench.listTickets()
      expect(tickets).toHaveLength(1_000)
      expect(problems).toEqual([
        expect.stringMatching(/only the 1000 most recently changed.*narrow tracker.eligible/),
      ])
    }
    expect(linear.points).toBeLessThan(100_000)
  })
})

describe('from poll to poll', () => {
  test('without changes a poll costs almost nothing', async () => {
    for (let n = 0; n < 30; n++) linear.world.issue({ title: `${n}` })
    await bench.listTickets()
    linear.forget()
    expect((await bench.listTickets()).tickets).toHaveLength(30)
    expect(linear.counts).toEqual({ Changes: 1 })
    expect(linear.points).toBeLessThan(200)
  })

  test('a ticket enters, changes, leaves and returns', async () => {
    linear.world.issue({ title: 'old' })
    expect(await bench.eligible()).toEqual(['ENG-1'])
    const issue = bench.later((world) => world.issue({ title: 'new' }))
    expect(await bench.eligible()).toEqual(['ENG-1', 'ENG-2'])
    bench.later((world) => world.change(issue, { title: 'newer' }))
    expect(find((await bench.listTickets()).tickets, issue)?.ticket.title).toBe('newer')
    bench.later((world) => world.change(issue, { state: 'In Progress' }))
    const left = await bench.listTickets()
    expect(find(left.tickets, issue)).toMatchObject({ closed: false, ticket: { state: 'In Progress' } })
    bench.later((world) => world.change(issue, { state: 'Duplicate' }))
    expect(find((await bench.listTickets()).tickets, issue)?.closed).toBe(true)
    bench.later((world) => world.change(issue, { state: 'Todo' }))
    expect(await bench.eligible()).toEqual(['ENG-1', 'ENG-2'])
    expect(linear.counts.Eligible).toBe(1)
  })

  test('irrelevant changes are not read', async () => {
    linear.world.issue({ title: 'ours' })
    await bench.listTickets()
    for (let n = 0; n < 20; n++) bench.later((world) => world.issue({ title: `${n}`, state: 'Backlog' }))
    linear.forget()
    expect(namesOf((await bench.listTickets()).tickets)).toEqual(['ENG-1'])
    expect(linear.counts).toEqual({ Changes: 1 })
  })

  test('many changes are listed further back, and only changed issues are read', async () => {
    linear.world.issue({ title: 'ours' })
    await bench.listTickets()
    linear.forget()
    for (let n = 0; n < 600; n++) {
      bench.pass(100)
      linear.world.issue({ title: `${n}`, state: n % 6 === 0 ? 'Todo' : 'Backlog' })
    }
    expect(await bench.eligible()).toHaveLength(101)
    expect(linear.counts).toEqual({ Changes: 4, Issues: 2 })
    linear.forget()
    expect(await bench.eligible()).toHaveLength(101)
    expect(linear.counts).toEqual({ Changes: 1 })
  })

  test('too many changes cause a full read', async () => {
    linear.world.issue({ title: 'ours' })
    await bench.listTickets()
    linear.forget()
    for (let n = 0; n < 1_100; n++) {
      bench.pass(100)
      linear.world.issue({ title: `${n}`, state: 'Backlog' })
    }
    expect(await bench.eligible()).toEqual(['ENG-1'])
    expect(linear.counts).toEqual({ Changes: 5, Eligible: 1 })
    bench.later((world) => world.issue({ title: 'one more' }))
    expect(await bench.eligible()).toHaveLength(2)
    linear.forget()
    expect(await bench.eligible()).toHaveLength(2)
    expect(linear.counts).toEqual({ Changes: 1 })
  })

  test('hundreds of simultaneous changes are read once', async () => {
    linear.world.issue({ title: 'ours' })
    await bench.listTickets()
    bench.later((world) =>
      Array.from({ length: 400 }, (_, n) => world.issue({ title: `${n}`, state: 'Backlog' })),
    )
    await bench.listTickets()
    linear.forget()
    for (let polls = 0; polls < 3; polls++) await bench.listTickets()
    expect(linear.counts).toEqual({ Changes: 3 })
  })

  test('changes without a new instant appear in the next full read', async () => {
    const project = linear.world.project({ name: 'Lamps' })
    const issue = linear.world.issue({ title: 'x', project })
    await bench.listTickets()
    project.name = 'Lights'
    const shown = async () => find((await bench.listTickets()).tickets, issue)?.ticket.project
    expect(await shown()).toBe('Lamps')
    bench.pass(10 * 60_000)
    expect(await shown()).toBe('Lights')
  })

  test('polling an empty workspace is cheap, too', async () => {
    await bench.listTickets()
    linear.forget()
    expect((await bench.listTickets()).tickets).toEqual([])
    expect(linear.points).toBeLessThan(200)
    bench.later((world) => world.issue({ title: 'the first' }))
    expect(await bench.eligible()).toEqual(['ENG-1'])
  })

  test('new rules find other tickets at once', async () => {
    linear.world.issue({ title: 'x', state: 'Backlog' })
    linear.world.issue({ title: 'y' })
    expect(await bench.eligible()).toEqual(['ENG-2'])
    expect(await bench.eligible({ ...TODO, states: ['Backlog'] })).toEqual(['ENG-1'])
  })

  test('too frequent polls answer from the cache', async () => {
    const issue = linear.world.issue({ title: 'x' })
    const listTickets = () => bench.tracker.listTickets({ rules: TODO, tickets: [] })
    for (let n = 0; n < 50; n++)
      expect(await listTickets()).toMatchObject({ ok: true, value: { tickets: { length: 1 } } })
    expect(linear.calls).toHaveLength(10)
    const finished = linear.world.issue({ title: 'y', state: 'Done' })
    const polled = await bench.tracker.listTickets({ rules: TODO, tickets: [finished.id] })
    expect(polled.ok && namesOf(polled.value.tickets)).toEqual([issue.identifier, finished.identifier])
  })
})

describe('requested tickets', () => {
  test('are listed in any state', async () => {
    const { world } = linear
    const [moved, archived, removed] = ['a', 'b', 'c'].map((title) =>
      world.issue({ title, state: 'In Progress' }),
    )
    if (!moved || !archived || !removed) throw new Error('three were made')
    const query = { tickets: [moved.id, archived.id, removed.id, 'some-file', 'owner/name#3'] }
    expect(namesOf((await bench.listTickets(query)).tickets)).toEqual(['ENG-1', 'ENG-2', 'ENG-3'])
    bench.later(() => world.change(moved, { state: 'Canceled' }))
    bench.later(() => world.archive(archived))
    bench.later(() => world.remove(removed))
    const closed = async () => {
      const { tickets } = await bench.listTickets(query)
      return [moved, archived, removed].map((issue) => find(tickets, issue)?.closed)
    }
    expect(await closed()).toEqual([true, true, false])
    bench.pass(10 * 60_000)
    expect(await closed()).toEqual([true, true, true])
    linear.forget()
    await bench.listTickets(query)
    expect(linear.counts).toEqual({ Changes: 1 })
  })

  test('are requested once when they do not exist', async () => {
    const query = { tickets: ['00000000-0000-4000-8000-000000000000'] }
    await bench.listTickets(query)
    linear.forget()
    expect((await bench.listTickets(query)).tickets).toEqual([])
    expect(linear.counts).toEqual({ Changes: 1 })
  })

  test('a deleted eligible ticket counts as closed', async () => {
    const [gone, stays] = [linear.world.issue({ title: 'x' }), linear.world.issue({ title: 'y' })]
    await bench.listTickets()
    linear.world.remove(gone)
    bench.pass(10 * 60_000)
    const { tickets } = await bench.listTickets()
    expect([find(tickets, gone)?.closed, find(tickets, stays)?.closed]).toEqual([true, false])
  })
})

describe('blockers', () => {
  test('block a ticket while they are open, and again when reopened', async () => {
    const { world } = linear
    const blocker = world.issue({ title: 'first', state: 'In Progress' })
    const done = world.issue({ title: 'long done', state: 'Done' })
    const related = world.issue({ title: 'akin', state: 'In Progress' })
    const issue = world.issue({ title: 'second', blockedBy: [blocker, done] })
    world.relate('related', related, issue)
    const waiting = async () => waitsFor((await bench.listTickets()).tickets, issue)
    expect(await waiting()).toEqual(['ENG-1'])
    bench.later(() => world.change(blocker, { state: 'Done' }))
    expect(await waiting()).toEqual([])
    bench.later(() => world.change(done, { state: 'In Progress' }))
    expect(await waiting()).toEqual(['ENG-2'])
    expect(await bench.eligible()).toEqual(['ENG-4'])
  })

  test('that appear and disappear are seen at the next poll', async () => {
    const { world } = linear
    const [issue, blocker] = [world.issue({ title: 'x' }), world.issue({ title: 'y', state: 'Backlog' })]
    const waiting = async () => waitsFor((await bench.listTickets()).tickets, issue)
    expect(await waiting()).toEqual([])
    world.blocks(blocker, issue)
    expect(await waiting()).toEqual(['ENG-2'])
    expect(await bench.eligible()).toEqual(['ENG-1'])
    world.relations.length = 0
    expect(await waiting()).toEqual([])
    world.blocks(blocker, issue)
    expect(await waiting()).toEqual(['ENG-2'])
    linear.forget()
    expect(await waiting()).toEqual(['ENG-2'])
    expect(linear.counts).toEqual({ Changes: 1 })
  })

  test('that are not accessible are not requested repeatedly', async () => {
    const { world } = linear
    const [issue, blocker] = [world.issue({ title: 'x' }), world.issue({ title: 'y', state: 'Backlog' })]
    await bench.listTickets()
    const relation = world.blocks(blocker, issue)
    relation.archivedAt = linear.now()
    for (let polls = 0; polls < 3; polls++)
      expect(waitsFor((await bench.listTickets()).tickets, issue)).toEqual([])
    expect(linear.counts).toEqual({ Eligible: 1, Changes: 3, Issues: 1 })
  })

  test('that block each other are listed', async () => {
    const { world } = linear
    const [first, second] = [world.issue({ title: 'x' }), world.issue({ title: 'y', state: 'Backlog' })]
    world.blocks(first, second)
    world.blocks(second, first)
    const { tickets } = await bench.listTickets()
    expect([waitsFor(tickets, first), waitsFor(tickets, second)]).toEqual([['ENG-2'], ['ENG-1']])
  })
})

describe('failures', () => {
  const kindOf = async (tickets: string[] = []): Promise<string> => {
    bench.pass(30_000)
    const polled = await bench.tracker.listTickets({ rules: TODO, tickets })
    return polled.ok ? namesOf(polled.value.tickets).join(' ') : polled.refusal.kind
  }

  test('have a kind, and the next poll recovers', async () => {
    linear.world.issue({ title: 'x' })
    expect(await kindOf()).toBe('ENG-1')
    linear.faults.add({ kind: 'html', status: 502 }, { times: 1 })
    expect(await kindOf()).toMatch(/^(unavailable|failed)$/)
    linear.faults.add({ kind: 'reset' }, { times: 1 })
    expect(await kindOf()).toBe('failed')
    linear.faults.add({ kind: 'internal' }, { times: 1 })
    expect(await kindOf()).toBe('failed')
    bench.later((world) => world.issue({ title: 'y' }))
    expect(await kindOf()).toBe('ENG-1 ENG-2')
  })

  test('a refused key is not sent again right away', async () => {
    linear.world.issue({ title: 'x' })
    linear.faults.add({ kind: 'authentication' }, { times: 1 })
    expect(await kindOf()).toBe('unauthorized')
    const asked = { ...linear.counts }
    expect(await kindOf()).toBe('unauthorized')
    expect(linear.counts).toEqual(asked)
  })

  test('an interrupted full read continues at its page', async () => {
    for (let n = 0; n < 120; n++) linear.world.issue({ title: `${n}` })
    linear.faults.add({ kind: 'internal' }, { times: 1, where: only('Eligible', 3) })
    expect(await kindOf()).toBe('failed')
    bench.later((world) => world.change(world.issues[7] as IssueRow, { state: 'Done' }))
    expect(await bench.eligible()).toHaveLength(120)
    expect(linear.counts).toEqual({ Eligible: 4 })
    expect(await bench.eligible()).toHaveLength(119)
  })

  test('a partial reply is used, and nothing counts as gone', async () => {
    const issue = linear.world.issue({ title: 'x' })
    await bench.listTickets()
    bench.later((world) => world.change(issue, { title: 'y' }))
    linear.faults.add(
      { kind: 'partial', path: ['issues', 'nodes', 0], message: 'Oops' },
      { times: 1, where: only('Issues') },
    )
    const patchy = await bench.listTickets()
    expect(patchy.problems).toEqual(['Linear says: Oops'])
    expect(find(patchy.tickets, issue)).toMatchObject({ closed: false, ticket: { title: 'x' } })
    const { tickets, problems } = await bench.listTickets()
    expect([find(tickets, issue)?.ticket.title, problems]).toEqual(['y', []])
  })

  test('a missing list does not count as empty', async () => {
    linear.world.issue({ title: 'x' })
    linear.faults.add({ kind: 'partial', path: ['issues'] }, { times: 1 })
    expect(await kindOf()).toBe('failed')
    expect(await kindOf()).toBe('ENG-1')
    linear.faults.add({ kind: 'partial', path: ['entered'] }, { times: 1 })
    bench.later((world) => world.issue({ title: 'y' }))
    expect(await kindOf()).toBe('failed')
    expect(await kindOf()).toBe('ENG-1 ENG-2')
  })

  test('a rate limit stops requests until it ends', async () => {
    linear.world.issue({ title: 'x' })
    linear.faults.add({ kind: 'ratelimited', status: 400, retryAfterSeconds: 300 })
    expect(await kindOf()).toBe('unavailable')
    linear.faults.clear()
    linear.forget()
    for (let polls = 0; polls < 5; polls++) expect(await kindOf()).toBe('unavailable')
    expect(await bench.tracker.projects()).toMatchObject({ refusal: { kind: 'unavailable' } })
    expect(linear.calls).toEqual([])
  })

  test('an unknown key is refused and never revealed', async () => {
    const key = 'lin_api_not_a_key'
    const answer = await bench.open(key).listTickets({ rules: TODO, tickets: [] })
    expect(answer).toMatchObject({ ok: false, refusal: { kind: 'unauthorized' } })
    expect(JSON.stringify([answer, bench.log.lines])).not.toContain(key)
  })
})

describe('moving a ticket', () => {
  test('takes a state’s name or id of the ticket’s own team, and is visible at once', async () => {
    const { world } = linear
    const otherTeam = world.team({ key: 'OPS', states: [{ name: 'in progress', type: 'started' }] })
    const issue = world.issue({ title: 'x' })
    await bench.listTickets()
    expect(await bench.tracker.moveTicket(issue.id, ' in progress ')).toEqual({ ok: true, value: undefined })
    expect(issue.state).toMatchObject({ name: 'In Progress', team: { key: 'ENG' } })
    const review = issue.team.states.find(({ name }) => name === 'In Review')
    expect(await bench.tracker.moveTicket(issue.identifier, review?.id ?? '')).toMatchObject({ ok: true })
    expect(issue.state).toBe(review)
    for (let n = 0; n < 20; n++) await bench.tracker.listTickets({ rules: TODO, tickets: [] })
    await bench.tracker.moveTicket(issue.id, 'done')
    const polled = await bench.tracker.listTickets({ rules: TODO, tickets: [] })
    expect(polled.ok && find(polled.value.tickets, issue)).toMatchObject({
      closed: true,
      ticket: { state: 'Done' },
    })
    expect(linear.counts).toMatchObject({ TeamStates: 1, MoveIssue: 3 })
    const foreign = await bench.tracker.moveTicket(issue.id, otherTeam.states[0]?.id ?? '', ['done'])
    expect(foreign).toMatchObject({ refusal: { kind: 'invalid' } })
  })

  test('to the current state changes nothing', async () => {
    const issue = linear.world.issue({ title: 'x' })
    expect(await bench.tracker.moveTicket(issue.id, 'todo')).toEqual({ ok: true, value: undefined })
    expect(linear.counts).toEqual({ Whereabouts: 1 })
  })

  test('out of an unexpected state is refused', async () => {
    const issue = linear.world.issue({ title: 'x', state: 'Backlog' })
    expect(await bench.tracker.moveTicket(issue.id, 'In Progress', ['todo', 'In Review'])).toMatchObject({
      refusal: {
        kind: 'gone',
        message: expect.stringContaining(`${issue.identifier} was moved to Backlog`),
      },
    })
    expect(issue.state.name).toBe('Backlog')
    expect(await bench.tracker.moveTicket(issue.id, 'In Progress', ['backlog'])).toMatchObject({ ok: true })
  })

  test.each(['Done', 'Canceled', 'Duplicate'])('that somebody moved to %s is refused', async (state) => {
    const issue = linear.world.issue({ title: 'x', state })
    expect(await bench.tracker.moveTicket(issue.id, 'In Review')).toMatchObject({
      refusal: {
        kind: 'gone',
        message: expect.stringContaining(`${issue.identifier} was moved to ${state}`),
      },
    })
    expect(issue.state.name).toBe(state)
    expect(await bench.tracker.moveTicket(issue.id, 'In Review', [state])).toMatchObject({ ok: true })
  })

  test('to an unknown state names the existing ones', async () => {
    const issue = linear.world.issue({ title: 'x' })
    expect(await bench.tracker.moveTicket(issue.id, 'Doing\n')).toEqual({
      ok: false,
      refusal: {
        kind: 'invalid',
        message:
          'the team ENG has no state Doing�; it has Triage, Backlog, Todo, In Progress, In Review, Done, Canceled, Duplicate',
      },
    })
  })

  test('with an unknown id is unknown, and an invalid id is never requested', async () => {
    const absent = await bench.tracker.moveTicket('00000000-0000-4000-8000-000000000000', 'Done')
    expect(absent).toMatchObject({ refusal: { kind: 'unknown' } })
    expect(await bench.tracker.moveTicket('../x', 'Done')).toMatchObject({ refusal: { kind: 'unknown' } })
    expect(linear.calls).toHaveLength(1)
  })

  test('can be repeated after a lost reply', async () => {
    const issue = linear.world.issue({ title: 'x' })
    linear.faults.add({ kind: 'cut' }, { times: 1, where: only('MoveIssue') })
    expect(await bench.tracker.moveTicket(issue.id, 'Done')).toMatchObject({ ok: false })
    expect(issue.state.name).toBe('Done')
    expect(await bench.tracker.moveTicket(issue.id, 'Done')).toMatchObject({ ok: true })
    expect(linear.counts.MoveIssue).toBe(1)
  })

  test('without permission is refused', async () => {
    const issue = linear.world.issue({ title: 'x' })
    const { accessToken } = linear.grant({ scopes: ['read'] })
    const answer = await bench.open(accessToken).moveTicket(issue.id, 'Done')
    expect(answer).toMatchObject({
      refusal: { kind: 'forbidden', message: expect.stringContaining('write') },
    })
  })
})

test('a comment is written once, and an unknown issue is named', async () => {
  const issue = linear.world.issue({ title: 'x' })
  const comment = (id: string, key: string) =>
    bench.tracker.comment?.(id, { key, text: `${key} changed nothing` })
  expect(await comment(issue.id, 'run-1')).toMatchObject({ ok: true })
  expect(await comment(issue.identifier, 'run-1')).toMatchObject({ ok: true })
  expect(await comment(issue.id, 'run-2')).toMatchObject({ ok: true })
  expect(linear.world.comments).toMatchObject([
    { body: 'run-1 changed nothing', issue: { id: issue.id } },
    { body: 'run-2 changed nothing', issue: { id: issue.id } },
  ])
  expect(await comment('nope', 'run-1')).toMatchObject({ refusal: { kind: 'unknown' } })
})

describe('the link to the pull request', () => {
  test('is idempotent', async () => {
    const issue = linear.world.issue({ title: 'x' })
    const url = 'https://github.com/acme/web/pull/7'
    expect(await bench.link(issue.id, { url, title: 'Mend it' })).toMatchObject({ ok: true })
    expect(await bench.link(issue.id, { url, title: 'Mend it' })).toMatchObject({ ok: true })
    expect(linear.world.attachments).toMatchObject([{ url, title: 'Mend it', issue: { id: issue.id } }])
  })

  test('has a title, and is never a file', async () => {
    const issue = linear.world.issue({ title: 'x' })
    await bench.link(issue.id, { url: 'https://x.example/1', title: '' })
    await bench.link(issue.id, { url: 'https://x.example/2', title: 'y'.repeat(5_000) })
    await bench.link(issue.id, { url: 'file:///tmp/1.json', title: 'z' })
    expect(linear.world.attachments.map(({ title }) => title)).toEqual([
      'https://x.example/1',
      'y'.repeat(255),
    ])
    expect(await bench.link('nope', { url: 'https://x.example', title: 'x' })).toMatchObject({
      refusal: { kind: 'unknown' },
    })
  })
})

test('projects are listed by name, with their teams', async () => {
  const { world } = linear
  for (let n = 0; n < 130; n++) world.project({ name: `Project ${300 - n}` })
  const listed = await bench.tracker.projects()
  if (!listed.ok) throw new Error(listed.refusal.message)
  expect(listed.value).toHaveLength(130)
  const [first] = listed.value
  expect(first).toEqual({
    id: expect.any(String),
    name: 'Project 171',
    key: expect.stringMatching(/^[0-9a-f]{12}$/),
    url: expect.stringContaining('/project/'),
    state: 'In Progress',
    teams: ['Engineering'],
  })
  linear.faults.add({ kind: 'forbidden' })
  expect(await bench.tracker.projects()).toMatchObject({ refusal: { kind: 'forbidden' } })
})

test('an hour of polling stays far below half of the smallest quota', async () => {
  const { world } = linear
  for (let n = 0; n < 100; n++) world.issue({ title: `${n}` })
  await bench.listTickets()
  linear.forget()
  const hours = 1
  for (let polls = 0; polls < hours * 120; polls++) {
    if (polls % 3 === 0) world.change(world.issues[polls % 100] as IssueRow, { title: `${polls}` })
    if (polls % 10 === 0)
      await bench.tracker.moveTicket(world.issues[(polls / 10) % 100]?.id ?? '', 'In Progress')
    await bench.listTickets()
  }
  expect(linear.points / hours).toBeLessThan(60_000)
  expect(linear.calls.length / hours).toBeLessThan(250)
}, 60_000)

test('after any sequence of changes, the eligible tickets are correct', async () => {
  const state = fc.constantFrom('Backlog', 'Todo', 'In Progress', 'Done')
  const label = fc.constantFrom('agent', 'bug')
  const act = fc.oneof(
    fc.record({ is: fc.constant('make' as const), state, labels: fc.uniqueArray(label) }),
    fc.record({ is: fc.constant('move' as const), which: fc.nat(20), state }),
    fc.record({ is: fc.constant('label' as const), which: fc.nat(20), labels: fc.uniqueArray(label) }),
    fc.record({ is: fc.constant('archive' as const), which: fc.nat(20) }),
    fc.record({ is: fc.constant('block' as const), which: fc.nat(20), by: fc.nat(20) }),
    fc.record({ is: fc.constant('fail' as const) }),
    fc.record({ is: fc.constant('poll' as const) }),
  )
  const rules = { ...TODO, labels: ['AGENT'] }
  const isExpectedEligible = (issue: IssueRow) =>
    issue.archivedAt === null &&
    issue.state.name === 'Todo' &&
    issue.labels.some(({ name }) => name === 'agent')
  const isOver = ({ archivedAt, state }: IssueRow) => archivedAt !== null || state.type === 'completed'
  const namesOfOpenBlockers = ({ relations }: FakeLinear['world'], issue: IssueRow) =>
    relations
      .filter(
        (relation) => relation.relatedIssue === issue && relation.issue !== issue && !isOver(relation.issue),
      )
      .map((relation) => relation.issue.identifier)
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 30 }), async (acts) => {
      const own = await linearBench()
      const { world, faults } = own.linear
      world.team({ key: 'ENG' })
      try {
        for (const step of acts) {
          const issue =
            'which' in step ? world.issues[step.which % Math.max(1, world.issues.length)] : undefined
          own.pass(500)
          if (step.is === 'make') world.issue({ title: 'x', state: step.state, labels: step.labels })
          else if (step.is === 'fail') faults.add({ kind: 'internal' }, { times: 1 })
          else if (step.is === 'poll') await own.tracker.listTickets({ rules, tickets: [] })
          else if (issue === undefined) continue
          else if (step.is === 'move') world.change(issue, { state: step.state })
          else if (step.is === 'label') world.change(issue, { labels: step.labels })
          else if (step.is === 'archive') world.archive(issue)
          // A further blocker of a blocked ticket appears only in the next full read.
          else if (world.relations.every(({ relatedIssue }) => relatedIssue !== issue))
            world.blocks(world.issues[step.by % world.issues.length] as IssueRow, issue)
        }
        faults.clear()
        const cared = world.issues.slice(0, 2)
        const { tickets } = await own.listTickets({ rules, tickets: cared.map(({ id }) => id) })
        const eligible = tickets.filter((tracked) => isEligible(tracked, rules))
        expect(namesOf(eligible)).toEqual(
          world.issues
            .filter(isExpectedEligible)
            .map(({ identifier }) => identifier)
            .sort(),
        )
        for (const issue of world.issues.filter(isExpectedEligible))
          expect(waitsFor(tickets, issue)).toEqual(namesOfOpenBlockers(world, issue))
        expect(cared.map((issue) => find(tickets, issue)?.closed)).toEqual(cared.map(isOver))
      } finally {
        await own.stop()
      }
    }),
    { numRuns: 25 },
  )
}, 60_000)

test('no tracker exists without a credential', () => {
  const ports = { clock: { monotonic: () => 0 } as never, log: bench.log, clients: bench.clients }
  expect(createTracker(configDefaults, ports)).toBe(undefined)
})
