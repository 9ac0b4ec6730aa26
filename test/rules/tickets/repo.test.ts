/** Which repository a ticket's work goes to; every refusal says what to change. */
import { expect, test } from '@jest/globals'
import { chooseRepo } from '../../../core/tickets/repo.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { sampleTicket } from './samples.ts'

type Repos = ServiceConfig['repos']

const told = (odd: Partial<Ticket>, repos: Repos): string => {
  const answer = chooseRepo(sampleTicket(odd), repos)
  return answer.ok ? answer.value.key : `${answer.refusal.kind}: ${answer.refusal.message}`
}

const repos: Repos = {
  web: { remote: 'o/web', label: 'web' },
  api: { remote: 'o/api', trackerProject: 'Backend' },
  rest: { remote: 'o/rest' },
}

test.each<[string, Partial<Ticket>, string]>([
  ['its own key first', { repo: 'rest', labels: ['web'], project: 'Backend' }, 'rest'],
  ['then its labels', { labels: ['bug', 'Web'], project: 'Backend' }, 'web'],
  ['then its project', { labels: ['bug'], project: 'backend' }, 'api'],
  ['else the one for everything', { labels: ['bug'], project: 'Other' }, 'rest'],
])('%s', (_, ticket, key) => {
  expect(told(ticket, repos)).toBe(key)
})

test('the mapping comes with its key', () => {
  expect(chooseRepo(sampleTicket({ repo: 'web' }), repos)).toEqual({
    ok: true,
    value: { key: 'web', mapping: repos.web },
  })
})

test('a key that nobody configured is refused: nothing goes to a repository by a typo', () => {
  for (const repo of ['wbe', 'toString', '__proto__']) {
    expect(told({ repo }, repos)).toBe(
      `invalid: ENG-t-1 names the repository ${repo}, which is not a key under repos; use one of web, api, rest, or add it`,
    )
  }
})

test('without any repository there is nothing to choose from', () => {
  expect(told({ repo: 'web' }, {})).toBe(
    'invalid: no repository is configured; add one under repos, such as {"web": {"remote": "owner/web"}}',
  )
})

test('where none fits, the sentence lists what would', () => {
  const { web, api } = repos
  expect(told({}, { ...(web && { web }), ...(api && { api }) })).toBe(
    'invalid: no repository is for ENG-t-1: give it a label (web), or put it into a project (Backend), ' +
      'or leave label and trackerProject out of the one mapping under repos that is for everything else',
  )
})

test('where two fit, the better one; where none is better, neither', () => {
  const split: Repos = {
    docs: { remote: 'o/docs', trackerProject: 'P', label: 'docs' },
    main: { remote: 'o/main', trackerProject: 'P' },
    other: { remote: 'o/other', trackerProject: 'Q', label: 'docs' },
  }
  expect(told({ project: 'P' }, split)).toBe('main')
  expect(told({ project: 'P', labels: ['docs'] }, split)).toBe('docs')
  expect(told({ project: 'Q', labels: ['docs'] }, split)).toBe('other')
  expect(told({ labels: ['docs'] }, split)).toBe(
    'invalid: ENG-t-1 fits more than one repository (docs, other): ' +
      'name one in the ticket (repo), or tell them apart by label or trackerProject under repos',
  )
  expect(told({}, { a: { remote: 'o/a' }, b: { remote: 'o/b' } })).toMatch(
    /more than one repository \(a, b\)/,
  )
})
