/** The place of a new ticket: in the first eligible state, or where it is not eligible. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { NewTicket } from '../../../core/ports/tracker.ts'
import { isEligible } from '../../../core/tickets/eligibility.ts'
import { chooseRepoFor, placeNewTicket } from '../../../core/tickets/new-ticket.ts'
import { aTicket } from '../run/runs.ts'

const NO_RULES: NewTicket['rules'] = { states: [], labels: [], projects: [], assignees: [] }
const asked = (more: Partial<NewTicket> = {}): NewTicket => ({
  title: 'Mend the lamp',
  description: '',
  priority: 0,
  labels: ['bug'],
  repos: {},
  rules: { ...NO_RULES, states: ['Todo', 'Ready'] },
  isEligible: true,
  ...more,
})

describe('the place', () => {
  const lamps = { key: 'lamps', mapping: { remote: 'ada/lamps', trackerProject: 'Lamps' } }
  const labelled = { ...NO_RULES, labels: ['Agent', 'Bug'] }
  test.each<[string, Partial<NewTicket>, object]>([
    ['the first eligible state', {}, { state: 'Todo', labels: ['bug'] }],
    ['the tracker’s own state without a rule', { rules: NO_RULES }, { state: undefined }],
    ['an eligible label that the request names', { rules: labelled }, { labels: ['bug'] }],
    ['the first eligible label otherwise', { rules: labelled, labels: [] }, { labels: ['Agent'] }],
    [
      'the project of the repository',
      { repo: lamps, rules: { ...NO_RULES, projects: ['Wires'] } },
      { project: 'Lamps' },
    ],
    ['the first project of the rules', { rules: { ...NO_RULES, projects: ['Wires'] } }, { project: 'Wires' }],
    ['each label once', { labels: ['bug', 'Bug '] }, { labels: ['bug'] }],
    ['the state for waiting', { isEligible: false }, { state: 'Backlog', labels: ['bug'] }],
    [
      'no eligible label where all states are',
      { isEligible: false, rules: labelled },
      { state: 'Backlog', labels: [] },
    ],
  ])('is %s', (_, request, expected) => {
    expect(placeNewTicket(asked(request), 'Backlog')).toMatchObject({ ok: true, value: expected })
  })

  test('there is none for waiting where everything is eligible', () => {
    for (const rules of [NO_RULES, { ...NO_RULES, states: ['backlog'] }])
      expect(placeNewTicket(asked({ isEligible: false, rules }), 'Backlog')).toMatchObject({
        refusal: { kind: 'conflict' },
      })
  })

  test('makes the ticket eligible, or not, under any rules', () => {
    const names = fc.subarray(['Backlog', 'Todo', 'agent', 'bug', 'Lamps'])
    const rules = fc.record({ states: names, labels: names, projects: names, assignees: names })
    fc.assert(
      fc.property(rules, names, fc.boolean(), (wanted, labels, isWanted) => {
        const place = placeNewTicket(asked({ rules: wanted, labels, isEligible: isWanted }), 'Backlog')
        fc.pre(place.ok)
        const { state = 'Todo', project, assignee } = place.value
        const ticket = {
          ...aTicket,
          state,
          labels: [...place.value.labels],
          ...(project === undefined ? {} : { project }),
          ...(assignee === undefined ? {} : { assignee }),
        }
        expect(isEligible({ ticket, closed: false }, wanted)).toBe(isWanted)
      }),
    )
  })
})

test('the repository is chosen by labels and project as for any ticket', () => {
  const repos = {
    web: { remote: 'ada/web', label: 'bug' },
    lamps: { remote: 'ada/lamps', trackerProject: 'Lamps' },
  }
  const ticket = asked({ repos })
  expect(chooseRepoFor(ticket, { labels: ['bug'], project: undefined })).toMatchObject({
    value: { key: 'web' },
  })
  expect(chooseRepoFor(ticket, { labels: [], project: 'Lamps' })).toMatchObject({ value: { key: 'lamps' } })
  expect(chooseRepoFor(ticket, { labels: [], project: undefined })).toMatchObject({ ok: false })
})
