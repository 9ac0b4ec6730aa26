/** Tests of eligibility rules. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { isEligible } from '../../../core/tickets/eligibility.ts'
import { configDefaults, type ServiceConfig } from '../../../protocol/config.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { tracked } from './samples.ts'

type Rules = ServiceConfig['tracker']['eligible']

const open: Rules = { states: [], labels: [], projects: [], assignees: [] }

test('by default, tickets in the state Todo', () => {
  const { eligible } = configDefaults.tracker
  expect(isEligible(tracked({ state: 'Todo' }), eligible)).toBe(true)
  expect(isEligible(tracked({ state: ' TODO' }), eligible)).toBe(true)
  expect(isEligible(tracked({ state: 'Backlog' }), eligible)).toBe(false)
})

test.each<[Partial<Rules>, Partial<Ticket>, boolean]>([
  [{}, {}, true],
  [{ labels: ['agent', 'ui'] }, { labels: ['bug', 'UI'] }, true],
  [{ labels: ['agent'] }, { labels: ['bug'] }, false],
  [{ labels: ['agent'] }, {}, false],
  [{ projects: ['Lamps'] }, { project: 'lamps' }, true],
  [{ projects: ['Lamps'] }, {}, false],
  [{ assignees: ['ada', 'bob'] }, { assignee: 'bob' }, true],
  [{ assignees: ['ada'] }, { assignee: 'adam' }, false],
  [{ labels: ['agent'], projects: ['Lamps'] }, { labels: ['agent'], project: 'Doors' }, false],
])('%j of %j: %p', (rules, ticket, expected) => {
  expect(isEligible(tracked(ticket), { ...open, ...rules })).toBe(expected)
})

test('a person and a project may be named by their aliases', () => {
  const shown = tracked({ project: 'Lamps', assignee: 'ada' })
  const known = { ...shown, aliases: { assignee: ['ada@acme.example', 'me'], project: ['1a2b'] } }
  for (const rules of [
    { assignees: ['ME'] },
    { assignees: ['ada'] },
    { projects: ['1A2B'] },
    { projects: ['lamps'] },
  ]) {
    expect(isEligible(known, { ...open, ...rules })).toBe(true)
  }
  expect(isEligible(known, { ...open, assignees: ['1a2b'] })).toBe(false)
  expect(isEligible(shown, { ...open, assignees: ['me'] })).toBe(false)
})

const name = fc.constantFrom('a', 'B', 'c')
const names = fc.uniqueArray(name, { maxLength: 3 })
const anyRules = fc.record({ states: names, labels: names, projects: names, assignees: names })
const anyTicket = fc.record(
  { state: name, labels: names, project: name, assignee: name },
  { requiredKeys: ['state', 'labels'] },
)

test('a closed ticket is eligible under no rules', () => {
  fc.assert(fc.property(anyRules, anyTicket, (rules, ticket) => !isEligible(tracked(ticket, true), rules)))
})

test('empty lists allow every open ticket', () => {
  fc.assert(fc.property(anyTicket, (ticket) => isEligible(tracked(ticket), open)))
})

test('a ticket is eligible when, and only when, each list alone would allow it', () => {
  const lists = ['states', 'labels', 'projects', 'assignees'] as const
  fc.assert(
    fc.property(anyRules, anyTicket, (rules, ticket) => {
      const alone = lists.map((list) => isEligible(tracked(ticket), { ...open, [list]: rules[list] }))
      expect(isEligible(tracked(ticket), rules)).toBe(alone.every(Boolean))
    }),
  )
})

test('one more name in a list that is not empty never makes a ticket ineligible', () => {
  fc.assert(
    fc.property(anyRules, anyTicket, name, (rules, ticket, more) => {
      fc.pre(rules.labels.length > 0 && isEligible(tracked(ticket), rules))
      expect(isEligible(tracked(ticket), { ...rules, labels: [...rules.labels, more] })).toBe(true)
    }),
  )
})
