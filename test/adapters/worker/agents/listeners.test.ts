/** Tests of the outcome of each recorded stream, with figures taken from the streams themselves. */
import { describe, expect, test } from '@jest/globals'
import type { AgentExit, AgentTask } from '../../../../worker/agents/agent.ts'
import { AT, listeners, runListener, sample, summarize, taskOf, withModel } from './recorded-events.ts'

const summaryOf = (name: string, exit: AgentExit, more: Partial<AgentTask> = {}): string[] =>
  summarize(runListener(name.split('-')[0] as keyof typeof listeners, sample(name), exit, more))

describe('agentA', () => {
  test('a successful run has its last text, cost and session', () => {
    expect(summaryOf('claude-success', { code: 0 })).toEqual([
      'done',
      'summary: All done.',
      'claude-sonnet-4-5: 100 in, 40 out, 5000 read, 2000 written, $0.0099',
      'session 34a34271-881b-4535-879b-97782fb97f61',
      'spent at last: 1 turns, $0.0099',
      'events: 3 agent',
    ])
  })

  test('lines that repeat an answer count as one turn', () => {
    expect(summaryOf('claude-tool-use', { code: 0 })).toEqual([
      'done',
      'summary: All done.',
      'claude-sonnet-4-5: 200 in, 80 out, 10000 read, 4000 written, $0.0198',
      'session 11111111-2222-4333-8444-555555555555',
      'spent at last: 2 turns, $0.0198',
      'events: 6 agent',
    ])
  })

  test('the cost includes nested agents, the turns do not', () => {
    expect(summaryOf('claude-subagent', { code: 0 })).toEqual([
      'done',
      'summary: All done.',
      'claude-sonnet-4-5: 700 in, 280 out, 35000 read, 14000 written, $0.0693',
      'session 7adcee87-2991-45b3-9c80-ca2f59683eac',
      'spent at last: 2 turns, $0.0693',
      'events: 19 agent',
    ])
  })

  test('a resumed session costs only its new usage', () => {
    expect(
      summaryOf('claude-resume', { code: 0 }, { resume: '11111111-2222-4333-8444-555555555555' }),
    ).toEqual([
      'done',
      'summary: All done.',
      'claude-sonnet-4-5: 100 in, 40 out, 5000 read, 2000 written, $0.0099',
      'session 11111111-2222-4333-8444-555555555555',
      'spent at last: 1 turns, $0.0099',
      'events: 3 agent',
    ])
  })

  test('with a subscription the cost is an estimate', () => {
    expect(summaryOf('claude-oauth-allowed', { code: 0 })).toContain(
      'claude-sonnet-4-5: 100 in, 40 out, 5000 read, 2000 written, $0.0099 estimated',
    )
  })

  test('a denied tool does not fail the run', () => {
    expect(summaryOf('claude-permission-denied', { code: 0 })[0]).toBe('done')
  })

  test('a subscription limit reports when it ends', () => {
    expect(summaryOf('claude-usage-limit-oauth', { code: 1 })).toEqual([
      expect.stringMatching(/^limit: .* resets 2:17am \(UTC\)$/),
      'claude-sonnet-4-5: 0 in, 0 out, 0 read, 0 written, $0 estimated',
      expect.stringMatching(/^limit of agentA until 2026-11-21T02:17:52\.000Z: .* resets 2:17am \(UTC\)$/),
      'session e066d7cd-20d0-418e-a760-b82a45739837',
      'spent at last: 0 turns, $0',
      'events: 4 agent',
    ])
  })

  test('rate limiting of a key is a limit without an end', () => {
    const text =
      "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later."
    expect(summaryOf('claude-429-api-key', { code: 1 })).toEqual([
      `limit: ${text}`,
      'claude-sonnet-4-5: 0 in, 0 out, 0 read, 0 written, $0',
      `limit of agentA until ?: ${text}`,
      'session 64446ee3-e4a4-4c91-9690-bb82e4f257d3',
      'spent at last: 0 turns, $0',
      'events: 3 agent',
    ])
  })

  test.each([
    ['claude-bad-api-key', /^failed: Invalid API key · Fix external API key$/],
    ['claude-credit-low', /^failed: Credit balance is too low$/],
    ['claude-not-logged-in', /^failed: Not logged in · Please run \/login$/],
    ['claude-max-budget', /^failed: .*\(\$0\.005\); agent\.maxCostUsd /],
    ['claude-max-turns', /^failed: .*\(1\); agent\.maxTurns /],
    ['claude-overloaded', /^failed: API Error: 529 Overloaded\. .*\(127\.0\.0\.1:8081\)\.$/],
  ])('%s is a failure, whatever its subtype says', (name, first) => {
    expect(summaryOf(name, { code: 1 })[0]).toMatch(first)
  })

  test('a missing session is not reported as a session', () => {
    expect(summaryOf('claude-resume-unknown', { code: 1 }, { resume: '9' })).toEqual([
      expect.stringMatching(/^failed: .*: 99999999-2222-4333-8444-555555555555$/),
      'no model: 0 in, 0 out, 0 read, 0 written, $0 estimated',
      'spent at last: 0 turns, $0',
      'events: 1 agent',
    ])
  })

  test('an interrupted agent still reports its cost', () => {
    expect(summaryOf('claude-sigint', { code: 0 })).toEqual([
      expect.stringMatching(/^interrupted: /),
      'summary: w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10',
      'claude-sonnet-4-5: 10 in, 9 out, 0 read, 0 written, $0.000165',
      'session d6ef6c5e-f5c0-4b3c-8ea9-494f48677552',
      'spent at last: 1 turns, $0.000165',
      'events: 4 agent',
    ])
  })

  test.each([
    [{ code: 143 }, /^interrupted: .*SIGTERM before/],
    [{ signal: 'SIGTERM' }, /^interrupted: .*SIGTERM before/],
    [{ code: 137 }, /^failed: .*killed before .*memory/],
    [{ code: 0 }, /^failed: .*exit code 0 before/],
    [{ code: 1 }, /^failed: .*exit code 1 before/],
  ])('without a result, %j decides the verdict, with the observed usage', (exit, first) => {
    const lines = sample('claude-tool-use').slice(0, -1)
    expect(summarize(runListener('claude', lines, exit))).toEqual([
      expect.stringMatching(first),
      'summary: All done.',
      // Two answers of 100 in, 1 out, 5000 read and 2000 written: 0.0003 + 0.000015 + 0.0015 + 0.0075 dollars each.
      'claude-sonnet-4-5: 200 in, 2 out, 10000 read, 4000 written, $0.01863 estimated, partial',
      'session 11111111-2222-4333-8444-555555555555',
      'spent at last: 2 turns, $0.01863',
      'events: 5 agent',
    ])
  })

  test('an agent killed after its result is done', () => {
    expect(summaryOf('claude-success', { signal: 'SIGKILL' })[0]).toBe('done')
    expect(summaryOf('claude-success', { code: 1 })[0]).toMatch(/^failed: .*exit code 1 after/)
  })

  test('an agent that works on after its result is done only with the next result', () => {
    const [init = '', words = '', result = ''] = sample('claude-success')
    const secondWords = words.replaceAll('msg_1', 'msg_2')
    expect(summarize(runListener('claude', [init, words, result, secondWords], { code: 137 }))[0]).toMatch(
      /^failed: /,
    )
    const twice = summarize(runListener('claude', [init, words, result, secondWords, result], { code: 0 }))
    expect(twice.slice(0, 3)).toEqual([
      'done',
      'summary: All done.',
      'claude-sonnet-4-5: 200 in, 80 out, 10000 read, 4000 written, $0.0198',
    ])
  })

  test('several models become a breakdown, and their sum the entry', () => {
    const usage = { inputTokens: 10, outputTokens: 1, cacheReadInputTokens: 5, cacheCreationInputTokens: 2 }
    const result = {
      session_id: 's',
      is_error: false,
      result: 'Done.',
      model_usage_since_last_result: {
        'claude-opus-5-5': { ...usage, costUSD: 0.25, costBasis: 'list' },
        'claude-haiku-5-5': { ...usage, costUSD: 0.5, costBasis: 'list' },
      },
      type: 'result',
    }
    const more = { credential: { kind: 'api-key', value: 'sk-ant-api03-x' } } as const
    expect(summarize(runListener('claude', [JSON.stringify(result)], { code: 0 }, more))).toEqual([
      'done',
      'summary: Done.',
      'no model: 20 in, 2 out, 10 read, 4 written, $0.75',
      '  claude-opus-5-5: 10 in, 1 out, 5 read, 2 written, $0.25',
      '  claude-haiku-5-5: 10 in, 1 out, 5 read, 2 written, $0.5',
      'spent at last: 0 turns, $0.75',
      'events: 1 agent',
    ])
  })

  test('a model of unknown price makes the cost an estimate', () => {
    const lines = sample('claude-success').map((line) =>
      line.replaceAll('"costBasis":"list"', '"costBasis":"unknown"'),
    )
    expect(runListener('claude', lines, { code: 0 }).report.cost?.estimated).toBe(true)
  })

  test('the total of an older release is used for a new session only', () => {
    const lines = sample('claude-resume').map((line) =>
      line.replace('"model_usage_since_last_result"', '"something_else"'),
    )
    expect(runListener('claude', lines, { code: 0 }).report.cost).toMatchObject({
      inputTokens: 300,
      costUsd: 0.0297,
    })
    const resumed = runListener('claude', lines, { code: 0 }, { resume: 's' }).report.cost
    expect(resumed).toMatchObject({ inputTokens: 100, outputTokens: 40, costUsd: 0.0099, estimated: true })
  })
})

describe('agentB', () => {
  test('recovered errors are no failure, and tokens are split as for other agents', () => {
    expect(summaryOf('codex-tool-use', { code: 0 }, withModel('gpt-6-sol'))).toEqual([
      'done',
      'summary: All done.',
      // 2000 in all, of which 1200 read and 200 written: 0.0012 + 0.00024 + 0.0005 + 0.001 dollars.
      'gpt-6-sol: 600 in, 100 out, 1200 read, 200 written, $0.00294 estimated, partial',
      'spent at last: 2 turns, $0.00294',
      'events: 12 agent',
    ])
  })

  test('an unnamed model has no price', () => {
    expect(summaryOf('codex-resume', { code: 0 })).toEqual([
      'done',
      'summary: All done.',
      'no model: 900 in, 150 out, 1800 read, 300 written, no price estimated, partial',
      'spent at last: 1 turns',
      'events: 10 agent',
    ])
  })

  test('an exhausted plan reports when it resets', () => {
    const text =
      'You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at 2:22 AM.'
    expect(summaryOf('codex-usage-limit', { code: 1 })).toEqual([
      `limit: ${text}`,
      `limit of agentB until 2026-11-21T02:22:00.000Z: ${text}`,
      'events: 9 agent',
    ])
  })

  test.each([
    ['codex-quota', 'limit: Quota exceeded. Check your plan and billing details.'],
    ['codex-429', 'limit: exceeded retry limit, last status: 429 Too Many Requests'],
    [
      'codex-401',
      'failed: unexpected status 401 Unauthorized: Incorrect API key provided: sk-fake., url: http://127.0.0.1:8082/v1/responses',
    ],
  ])('%s: the reason is that of the stream', (name, first) => {
    expect(summaryOf(name, { code: 1 })[0]).toBe(first)
  })

  test('it reports no session', () => {
    expect(summaryOf('codex-resume', { code: 0 }).join()).not.toContain('session')
  })

  test.each([
    [{ code: 143 }, /^interrupted: .*SIGTERM before/],
    [{ code: 1 }, /^failed: .*exit code 1 before .*: no such model$/],
  ])('without a result, the exit %j decides the verdict', (exit, first) => {
    const lines = sample('codex-tool-use').slice(0, -1)
    expect(summarize(runListener('codex', lines, exit, {}, ['no such model', '']))[0]).toMatch(first)
  })
})

test.each([
  ['claude', 'claude-bad-api-key', { code: 1 }],
  ['claude', 'claude-not-logged-in', { code: 1 }],
  ['codex', 'codex-401', { code: 1 }],
  ['gemini', 'gemini-bad-key', { code: 144 }],
] as const)('%s: %s means that the credential is refused', (agent, name, exit) => {
  expect(runListener(agent, sample(name), exit).report.isCredentialRefused).toBe(true)
})

test.each([
  ['claude', 'claude-credit-low', { code: 1 }],
  ['claude', 'claude-success', { code: 0 }],
  ['codex', 'codex-quota', { code: 1 }],
  ['gemini', 'gemini-quota', { code: 1 }],
] as const)('%s: %s says nothing against the credential', (agent, name, exit) => {
  expect(runListener(agent, sample(name), exit).report).not.toHaveProperty('isCredentialRefused')
})

describe('agentC', () => {
  test('thinking counts as output, and cached tokens do not count as input', () => {
    expect(summaryOf('gemini-tool-use', { code: 0 })).toEqual([
      'done',
      'summary: All done.',
      // 2140 in all, 2000 of them the prompt with 1200 from the cache.
      'gemini-x: 800 in, 140 out, 1200 read, 0 written, no price estimated',
      'spent at last: 2 turns',
      'events: 6 agent',
    ])
    expect(summaryOf('gemini-success', { code: 0 })[2]).toBe(
      'gemini-x: 400 in, 70 out, 600 read, 0 written, no price estimated',
    )
  })

  test('an exhausted quota is a limit, a refused key a failure', () => {
    expect(summaryOf('gemini-quota', { code: 1 })).toEqual([
      'limit: You have exhausted your daily quota on this model.',
      'gemini-3.8-flash: 0 in, 0 out, 0 read, 0 written, $0 estimated',
      'limit of agentC until ?: You have exhausted your daily quota on this model.',
      'spent at last: 0 turns, $0',
      'events: 3 agent',
    ])
    expect(summaryOf('gemini-bad-key', { code: 144 })[0]).toBe(
      'failed: API key not valid. Please pass a valid API key.',
    )
  })

  test.each([
    [{ code: 41 }, /^failed: .*config set agent\.agentCApiKey$/],
    [{ code: 53 }, /^failed: .*limit of turns$/],
    [{ code: 130 }, /^interrupted: .*SIGINT before/],
    [{ code: 173 }, /^limit: .*exit code 173 before/],
  ])('without a result, the exit code %j gives the reason', (exit, first) => {
    expect(summarize(runListener('gemini', sample('gemini-success').slice(0, 1), exit))[0]).toMatch(first)
  })

  test('text in several chunks is one answer', () => {
    const [init = '', , words = '', result = ''] = sample('gemini-success')
    const lines = [init, words.replace('All done.', 'All '), words.replace('All done.', 'is well.'), result]
    expect(runListener('gemini', lines, { code: 0 }).report.summary).toBe('All is well.')
  })
})

test('output that is not JSON becomes a log line of its stream', () => {
  const listener = listeners.claude(taskOf())
  expect([
    ...listener.onOutputLine('npm warn x', AT),
    ...listener.onErrorLine('\u001b[31mred\u001b[0m', AT),
    ...listener.onOutputLine(' ', AT),
  ]).toEqual([
    { is: 'event', event: { type: 'log', at: AT, stream: 'stdout', text: 'npm warn x' } },
    { is: 'event', event: { type: 'log', at: AT, stream: 'stderr', text: 'red' } },
  ])
})
