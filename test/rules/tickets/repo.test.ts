/** Tests of the choice of a repository; every refusal says what to change. */
import { expect, test } from '@jest/globals'
import { chooseRepo, withRepo } from '../../../core/tickets/repo.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { sampleTicket } from './samples.ts'

type Repos = ServiceConfig['repos']

const choiceOrRefusal = (odd: Partial<Ticket>, repos: Repos): string => {
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
  expect(choiceOrRefusal(ticket, repos)).toBe(key)
})

test('the choice contains the mapping and its key', () => {
  expect(chooseRepo(sampleTicket({ repo: 'web' }), repos)).toEqual({
    ok: true,
    value: { key: 'web', mapping: repos.web },
  })
})

test('a ticket is shown with the repository that is chosen, and kept as it is without one', () => {
  const repoOf = (odd: Partial<Ticket>, from = repos) => withRepo(sampleTicket(odd), from).repo
  expect([repoOf({ labels: ['web'] }), repoOf({ repo: 'gone' }), repoOf({}, {})]).toEqual([
    'web',
    'gone',
    undefined,
  ])
  const own = sampleTicket({ repo: 'web' })
  expect(withRepo(own, repos)).toBe(own)
})

test('an unknown key is refused', () => {
  for (const repo of ['wbe', 'toString', '__proto__']) {
    expect(choiceOrRefusal({ repo }, repos)).toBe(
      `invalid: no repository is for ENG-t-1: the ticket names ${repo}, which is not a key under repos; use one of web, api, rest, or add it`,
    )
  }
})

test('without any configured repository the ticket is refused', () => {
  expect(choiceOrRefusal({ repo: 'web' }, {})).toBe(
    'invalid: no repository is for ENG-t-1: add one under repos, such as {"web": {"remote": "owner/web"}}',
  )
})

test('without a match the refusal lists what would match', () => {
  const { web, api } = repos
  expect(choiceOrRefusal({}, { ...(web && { web }), ...(api && { api }) })).toBe(
    'invalid: no repository is for ENG-t-1: give it a label (web), or put it into a project (Backend), ' +
      'or leave label and trackerProject out of the one mapping under repos that is for everything else',
  )
})

test('of two matches the better one is chosen; if none is better, both are refused', () => {
  const split: Repos = {
    docs: { remote: 'o/docs', trackerProject: 'P', label: 'docs' },
    main: { remote: 'o/main', trackerProject: 'P' },
    site: { remote: 'o/site', trackerProject: 'Q', label: 'docs' },
  }
  expect(choiceOrRefusal({ project: 'P' }, split)).toBe('main')
  expect(choiceOrRefusal({ project: 'P', labels: ['docs'] }, split)).toBe('docs')
  expect(choiceOrRefusal({ project: 'Q', labels: ['docs'] }, split)).toBe('site')
  expect(choiceOrRefusal({ labels: ['docs'] }, split)).toBe('invalid: 2 repositories fit ENG-t-1: docs, site')
  expect(choiceOrRefusal({}, { a: { remote: 'o/a' }, b: { remote: 'o/b' } })).toBe(
    'invalid: 2 repositories fit ENG-t-1: a, b',
  )
})
