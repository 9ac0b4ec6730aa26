/** GitHub issues as tickets, and the blockers that their text names. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { configDefaults } from '../../../../protocol/config.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { Ticket } from '../../../../protocol/run.ts'
import {
  formatTicketId,
  listStateNames,
  parseTicketId,
  toGithubIssue,
  toTrackedTicket,
} from '../../../../providers/tracker/github/issue.ts'
import { parseBlockers } from '../../../../providers/tracker/github/tickets.ts'
import { measureCpuMs } from '../../../support/cpu-time.ts'

const isTicket = createChecker(Ticket)

const json = (more: object = {}) => ({
  number: 12,
  title: 'Mend the lamp',
  body: 'It is dark.',
  html_url: 'https://github.com/ada/lamps/issues/12',
  state: 'open',
  labels: [],
  assignees: [],
  created_at: '2026-11-01T10:00:00Z',
  updated_at: '2026-11-02T10:00:00Z',
  ...more,
})

const names = listStateNames({
  rules: { ...configDefaults.tracker.eligible, states: ['Todo', 'Next'] },
  startedState: 'In Progress',
  reviewState: 'In Review',
})

function tracked(more: object, assignees: string[] = []) {
  const issue = toGithubIssue(json(more), 'ada/lamps')
  if (issue === undefined) throw new Error('no issue')
  const rest = { identifier: 'lamps#12', blockedBy: [], assignees }
  const found = toTrackedTicket(issue, { ...rest, stateNames: names })
  expect(isTicket(found.ticket)).toMatchObject({ ok: true })
  return found
}

const labels = (...names: string[]) => ({ labels: names.map((name) => ({ id: 1, name, color: 'ededed' })) })

test('a title turns no words around it', () => {
  expect(tracked({ title: 'bad \u202egnp.exe' }).ticket.title).toBe('bad \ufffdgnp.exe')
})

describe('states', () => {
  test('the target of a move counts as a state, whatever was configured before', () => {
    const rules = { ...configDefaults.tracker.eligible, states: ['Todo', 'Open'] }
    expect(listStateNames({ rules, startedState: 'Doing', moveTargets: ['doing', 'Checking'] })).toEqual([
      'checking',
      'doing',
      'todo',
    ])
  })

  test.each([
    [['bug'], 'Open', ['bug']],
    [['bug', 'todo'], 'todo', ['bug']],
    [['TODO', 'In Progress'], 'In Progress', []],
    [['Next', 'Todo'], 'Todo', []],
    [['In Progress', 'In Review', 'bug'], 'In Review', ['bug']],
  ])('an open issue labelled %j is in the state %s', (names, state, others) => {
    const { ticket, closed } = tracked(labels(...names))
    expect([ticket.state, ticket.labels, closed]).toEqual([state, others, false])
  })

  test('a closed issue has the state Closed, whatever its labels', () => {
    expect(tracked({ ...labels('Todo'), state: 'closed' })).toMatchObject({
      closed: true,
      ticket: { state: 'Closed', labels: [] },
    })
  })
})

describe('priorities', () => {
  test.each([
    [[], 0],
    [['bug', 'high'], 0],
    [['urgent'], 1],
    [['P0'], 1],
    [['p1', 'P3'], 1],
    [['priority: high'], 2],
    [['Priority/Medium'], 3],
    [['prio-low'], 4],
    [['low priority', 'priority:2'], 2],
    [['priority: whatever'], 0],
    [['priority: constructor'], 0],
  ])('%j → %d', (names, priority) => {
    expect(tracked(labels(...names)).ticket.priority).toBe(priority)
  })
})

describe('reading', () => {
  test('pull requests and malformed values are not issues', () => {
    expect(
      toGithubIssue(json({ pull_request: { url: 'https://api.github.com/x' } }), 'ada/lamps'),
    ).toBeUndefined()
    for (const value of [null, 3, 'x', [], {}, json({ number: 0 }), json({ created_at: 'soon' })]) {
      expect(toGithubIssue(value, 'ada/lamps')).toBeUndefined()
    }
  })

  test('an assignee named by the rules is preferred', () => {
    const two = { assignees: [{ login: 'eve' }, { login: 'ada' }] }
    expect(tracked(two).ticket.assignee).toBe('eve')
    expect(tracked(two, ['Ada']).ticket.assignee).toBe('ada')
  })

  test('any reply of GitHub is a valid ticket or none', () => {
    const anything = fc.record(
      {
        number: fc.oneof(fc.integer(), fc.anything()),
        title: fc.oneof(fc.string({ unit: 'binary' }), fc.anything()),
        body: fc.oneof(fc.string(), fc.constant('x'.repeat(200_000)), fc.anything()),
        html_url: fc.oneof(fc.webUrl(), fc.constant('javascript:alert(1)'), fc.anything()),
        state: fc.oneof(fc.constantFrom('open', 'closed'), fc.anything()),
        labels: fc.oneof(fc.array(fc.oneof(fc.string(), fc.record({ name: fc.string() }))), fc.anything()),
        assignees: fc.oneof(fc.array(fc.record({ login: fc.string() })), fc.anything()),
        created_at: fc.oneof(fc.constant('2026-11-01T10:00:00Z'), fc.string()),
        updated_at: fc.oneof(fc.constant('+275760-01-01T00:00:00Z'), fc.anything()),
      },
      { requiredKeys: ['created_at'] },
    )
    fc.assert(
      fc.property(anything, (value) => {
        const issue = toGithubIssue(value, 'ada/lamps')
        if (issue === undefined) return
        const rest = { identifier: 'lamps#1', blockedBy: [], assignees: [] }
        expect(isTicket(toTrackedTicket(issue, { ...rest, stateNames: ['todo'] }).ticket)).toMatchObject({
          ok: true,
        })
      }),
      { numRuns: 300 },
    )
  })
})

describe('ids', () => {
  test('an id resolves to its issue, and ids of other trackers do not', () => {
    expect(parseTicketId(formatTicketId({ remote: 'ada/lamps', number: 12 }))).toEqual({
      remote: 'ada/lamps',
      number: 12,
    })
    for (const id of ['ENG-12', 'lamps#12', 'ada/lamps#0', 'ada/lamps#x', 'ada/lamps', ''])
      expect(parseTicketId(id)).toBeUndefined()
  })
})

describe('blockers', () => {
  const ids = (body: string) => parseBlockers(body, 'ada/lamps', 'github.com').map(formatTicketId)

  test.each([
    ['Blocked by #12', ['ada/lamps#12']],
    ['**Depends on:** #1, #2 and eve/wires#3', ['ada/lamps#1', 'ada/lamps#2', 'eve/wires#3']],
    ['- [ ] depends on GH-7', ['ada/lamps#7']],
    ['* Blocked by https://github.com/eve/wires/issues/4.', ['eve/wires#4']],
    ['Blocked by https://elsewhere.example/eve/wires/issues/4', []],
    ['- [x] Blocked by #12', []],
    ['We are not blocked by #12', []],
    ['Blocked by #1 because of #2', ['ada/lamps#1']],
    ['<!-- Blocked by #12 -->Depends on #3', ['ada/lamps#3']],
    ['<!-- Blocked by #12', []],
    ['```\nBlocked by #12\n```\nBlocked by #3', ['ada/lamps#3']],
    ['> Blocked by #12', []],
    ['Blocked by #12\r\nDepends on #13\r\n', ['ada/lamps#12', 'ada/lamps#13']],
    ['Blocked by the weather', []],
  ])('%j → %j', (body, expected) => {
    expect(ids(body)).toEqual(expected)
  })

  test('a long hostile text is read quickly', () => {
    const nasty = ['<!--'.repeat(20_000), 'Blocked by '.repeat(9_000), `Blocked by ${'#1 '.repeat(300)}`]
    const tookMs = measureCpuMs(() => {
      for (const text of [...nasty, 'Blocked by #1\n'.repeat(9_000)]) ids(text)
    })
    expect(tookMs).toBeLessThan(2_000)
    expect(ids('Blocked by #1\n'.repeat(9_000)).length).toBeLessThanOrEqual(256)
  })
})
