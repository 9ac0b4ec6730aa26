/** The configuration that `switchyard init` plans from its answers, and the repository of a checkout. */
import { describe, expect, test } from '@jest/globals'
import { parseGithubAddress } from '../../../../bin/cli/init/find-tools.ts'
import { findAmbiguousRepos, type InitAnswers, planConfig } from '../../../../bin/cli/init/plan-config.ts'
import { decideChange } from '../../../../core/settings/change.ts'
import { readConfig } from '../../../../core/settings/read.ts'
import { isEligible } from '../../../../core/tickets/eligibility.ts'
import type { CompletedConfig } from '../../../../protocol/config.ts'
import { listStateNames, toTrackedTicket } from '../../../../providers/tracker/github/issue.ts'

const configOf = (stored: object = {}): CompletedConfig => {
  const read = readConfig(JSON.stringify(stored))
  if (!read.ok) throw new Error(read.refusal.message)
  return read.value
}
const answers = (more: Partial<InitAnswers> = {}): InitAnswers => ({
  driver: 'github',
  repository: 'acme/api',
  starts: { is: 'label', name: 'Todo' },
  ...more,
})
const written = (given: InitAnswers, stored: object = {}): CompletedConfig => {
  const current = configOf(stored)
  const decided = decideChange(current, planConfig(current, given).patch, () => undefined)
  if (!decided.ok) throw new Error(decided.refusal.message)
  return decided.value
}

test('a first configuration names tracker, rule, repository and what a run may cost, and is paused', () => {
  expect(written(answers()).stored).toEqual({
    tracker: { driver: 'github', eligible: { states: ['Todo'] } },
    agent: { maxCostUsd: 20 },
    repos: { api: { remote: 'acme/api' } },
    policy: { paused: true },
  })
  expect(planConfig(configOf(), answers()).changes).toEqual([
    'tracker.driver = "github"',
    'tracker.eligible.states = ["Todo"]',
    'agent.maxCostUsd = 20',
    'repos.api = {"remote": "acme/api"}',
    'policy.paused = true',
  ])
})

/** An issue as GitHub's tracker lists it under a configuration. */
const issueWith = (labels: readonly string[], { effective: { tracker } }: CompletedConfig) =>
  toTrackedTicket(
    {
      remote: 'acme/api',
      number: 1,
      title: 'Say hello',
      body: '',
      url: '',
      isOpen: true,
      labels,
      assignees: [],
      author: 'ada',
      authorMayWrite: true,
      blockerCount: 0,
      createdAt: '2026-03-01T08:30:00.000Z',
      updatedAt: '2026-03-01T08:30:00.000Z',
    },
    {
      stateNames: listStateNames({ rules: tracker.eligible }),
      assignees: [],
      identifier: 'api#1',
      blockedBy: [],
    },
  )

test.each<[string, InitAnswers['starts'], readonly boolean[]]>([
  ['with the usual label', { is: 'label', name: 'Todo' }, [true, false, false]],
  ['with another label', { is: 'label', name: 'agent' }, [false, true, false]],
  ['all open ones', { is: 'all' }, [true, true, true]],
])('issues on GitHub start %s', (_, starts, expected) => {
  for (const before of [{}, { tracker: { eligible: { states: ['Ready'], labels: ['old'] } } }]) {
    const config = written(answers({ starts }), before)
    const found = [['Todo'], ['agent'], []].map((labels) =>
      isEligible(issueWith(labels, config), config.effective.tracker.eligible),
    )
    expect(found).toEqual(expected)
  }
})

test('a label of Linear narrows the states, and a state replaces them', () => {
  const linear = (starts: InitAnswers['starts']) =>
    written(answers({ driver: 'linear', starts }), { tracker: { eligible: { states: ['Ready'] } } }).effective
      .tracker.eligible
  expect(linear({ is: 'label', name: 'agent' })).toMatchObject({ states: ['Ready'], labels: ['agent'] })
  expect(linear({ is: 'state', name: 'Todo' })).toMatchObject({ states: ['Todo'], labels: [] })
  expect(linear({ is: 'all' })).toMatchObject({ states: [], labels: [] })
})

describe('an existing configuration', () => {
  test('keeps what was not asked for', () => {
    const before = {
      tracker: { driver: 'github', apiKey: 'ghp_mine' },
      sandbox: { concurrency: 5 },
      repos: { web: { remote: 'acme/web', setup: 'npm ci' } },
    }
    const { stored } = written(answers(), before)
    expect(stored).toMatchObject({
      ...before,
      policy: { paused: true },
      repos: { api: { remote: 'acme/api' } },
    })
  })

  test('is not changed by the same answers', () => {
    const { stored } = written(answers())
    expect(planConfig(configOf(stored), answers())).toMatchObject({ patch: {}, changes: [] })
  })

  test('keeps the key of a repository, and gives a second one of that name another key', () => {
    expect(planConfig(configOf({ repos: { mine: { remote: 'Acme/API' } } }), answers()).repoKey).toBe('mine')
    const taken = { api: { remote: 'other/api' }, 'acme-api': { remote: 'third/acme-api' } }
    expect(planConfig(configOf({ repos: taken }), answers()).repoKey).toBe('api-2')
    expect(planConfig(configOf(), answers({ repository: 'acme/.github' })).repoKey).toBe('github')
    expect(planConfig(configOf({ repos: { api: { remote: 'other/api' } } }), answers()).repoKey).toBe(
      'acme-api',
    )
  })

  test('keeps what a run may cost there', () => {
    expect(written(answers(), { agent: { maxCostUsd: 3 } }).stored.agent).toEqual({ maxCostUsd: 3 })
  })

  test('keeps its agent; a first one has the agent that is installed', () => {
    const provider = (stored: object) =>
      written(answers({ agent: 'agentB' }), stored).effective.agent.provider
    expect([provider({}), provider({ agent: { provider: 'agentA' } })]).toEqual(['agentB', 'agentA'])
    expect(written(answers({ agent: 'agentA' })).stored.agent?.provider).toBeUndefined()
  })
})

test('repositories among which a ticket can not choose are named', () => {
  const repos = {
    api: { remote: 'acme/api' },
    web: { remote: 'acme/web' },
    ios: { remote: 'a/b', label: 'ios' },
  }
  const named = (driver: string) => findAmbiguousRepos(configOf({ tracker: { driver }, repos }).effective)
  expect([named('linear'), named('github')]).toEqual([['api', 'web'], []])
})

test.each([
  ['git@github.com:acme/api.git', 'acme/api'],
  ['https://github.com/acme/api', 'acme/api'],
  ['https://ann:ghp_secret@github.com/acme/api.git/', 'acme/api'],
  ['ssh://git@github.com/acme/a.pi.git', 'acme/a.pi'],
  ['ssh://git@ssh.github.com:443/acme/api.git', 'acme/api'],
  ['https://gitlab.com/acme/api.git', undefined],
  ['https://github.com.evil.example/acme/api', undefined],
  ['https://evil.example/github.com/acme/api', undefined],
  ['https://github.com/acme', undefined],
  ['/srv/git/github.com/acme/api', undefined],
])('the origin %s is %s', (address, repository) => {
  expect(parseGithubAddress(address)).toBe(repository)
})
