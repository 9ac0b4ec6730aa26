/** Interpretation of GitHub's rate limits and refusals. */
import { describe, expect, test } from '@jest/globals'
import { parseGithubAddress } from '../../../../providers/github/address.ts'
import { toRefusal } from '../../../../providers/github/errors.ts'
import { GITHUB_RATE_LIMITS } from '../../../../providers/github/rate-limits.ts'
import type { ServiceRequest } from '../../../../providers/http/client-types.ts'
import type { HttpReply } from '../../../../providers/http/http-types.ts'

const NOW = 1_700_000_000_000
const requestTo = (url: string): ServiceRequest => ({ method: 'GET', url, headers: {}, urgency: 'person' })
const reply = (status: number, headers: Record<string, string> = {}, body: object = {}): HttpReply => ({
  status,
  headers,
  text: JSON.stringify(body),
})

describe('limits', () => {
  test.each([
    ['https://api.github.com/repos/ada/lamps/pulls', 'core'],
    ['https://api.github.com/graphql', 'graphql'],
    ['https://code.example/api/graphql', 'graphql'],
    ['https://api.github.com/search/issues?q=x', 'search'],
    ['https://api.github.com/repos/ada/search', 'core'],
  ])('%s draws from %s', (url, resource) => {
    expect(GITHUB_RATE_LIMITS.resourceOf(requestTo(url))).toBe(resource)
  })

  test('a reply reports the budget and its reset time in seconds', () => {
    const text = {
      'x-ratelimit-limit': '5000',
      'x-ratelimit-remaining': '4999',
      'x-ratelimit-reset': '1700003600',
      'x-ratelimit-resource': 'graphql',
    }
    const asked = requestTo('https://api.github.com/user')
    expect(GITHUB_RATE_LIMITS.budgets(reply(200, text), asked)).toEqual([
      { resource: 'graphql', limit: 5000, remaining: 4999, resetsAt: 1_700_003_600_000 },
    ])
    expect(GITHUB_RATE_LIMITS.budgets(reply(200), asked)).toEqual([])
    expect(GITHUB_RATE_LIMITS.budgets(reply(200, { 'x-ratelimit-limit': 'many' }), asked)).toEqual([])
  })

  const limited = { data: null, errors: [{ type: 'RATE_LIMITED', message: 'API rate limit exceeded' }] }
  test.each([
    ['an answer', reply(200), undefined],
    ['a refusal for another reason', reply(403, { 'x-ratelimit-remaining': '12' }), undefined],
    ['429 that names seconds', reply(429, { 'retry-after': '7' }), 7_000],
    ['429 that names nothing', reply(429), 60_000],
    [
      'the hour is used up',
      reply(403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1700000100' }),
      100_000,
    ],
    [
      'an end that only a clock ten hours behind can take for so late',
      reply(403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1700039600' }),
      3_600_000,
    ],
    ['an end that is past', reply(429, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1' }), 0],
    [
      'too many at once',
      reply(403, { 'x-ratelimit-remaining': '40' }, { message: 'You have exceeded a secondary rate limit.' }),
      60_000,
    ],
    ['GraphQL says it with 200', reply(200, {}, limited), 60_000],
    [
      'a comment that only says the words',
      reply(200, {}, { data: { body: '"type":"RATE_LIMITED"' } }),
      undefined,
    ],
    ['a field that only looks like it', reply(200, {}, { data: [{ type: 'RATE_LIMITED' }] }), undefined],
  ])('%s', (_, text, pause) => {
    expect(GITHUB_RATE_LIMITS.tooManyRequestsMs(text, NOW)).toBe(pause)
  })
})

describe('refusals', () => {
  const message = (text: string, errors: unknown = undefined) => ({ message: text, errors })
  test.each([
    [401, message('Bad credentials'), 'unauthorized'],
    [403, message('Resource not accessible by personal access token'), 'forbidden'],
    [404, message('Not Found'), 'unknown'],
    [405, message('Pull Request is not mergeable'), 'conflict'],
    [409, message('Head branch was modified. Review and try the merge again.'), 'conflict'],
    [410, message('This issue was deleted'), 'gone'],
    [422, message('Validation Failed', [{ field: 'body', code: 'missing_field' }]), 'invalid'],
    [422, message('Validation Failed', [{ message: 'state cannot be changed. It is gone.' }]), 'conflict'],
    [422, message('Unprocessable Entity', ['Can not approve your own pull request']), 'conflict'],
    [429, message('slow down'), 'unavailable'],
    [500, message('oops'), 'unavailable'],
    [301, message('Moved Permanently'), 'invalid'],
  ])('%i %j → %s', (status, body, kind) => {
    expect(toRefusal(reply(status, {}, body), 'pull request 1 of ada/lamps').refusal.kind).toBe(kind)
  })

  test('GitHub’s message and its errors are passed on in printable form', () => {
    const text = message('Validation Failed', [
      { message: 'No\u001b[2J' },
      'more',
      { field: 'base', code: 'invalid' },
    ])
    expect(toRefusal(reply(422, {}, text), 'it').refusal.message).toBe(
      'GitHub says of it: Validation Failed: No�[2J: more: base invalid',
    )
  })

  test('a missing permission of a token is named', () => {
    const headers = { 'x-accepted-github-permissions': 'checks=read' }
    expect(toRefusal(reply(403, headers, message('No')), 'it').refusal.message).toMatch(/needs checks=read/)
  })
})

describe('addresses', () => {
  test.each([
    [undefined, 'https://api.github.com/graphql', 'https://github.com'],
    ['https://code.example/api/v3/', 'https://code.example/api/graphql', 'https://code.example'],
    ['https://api.acme.ghe.com', 'https://api.acme.ghe.com/graphql', 'https://acme.ghe.com'],
    ['http://127.0.0.1:99', 'http://127.0.0.1:99/graphql', 'http://127.0.0.1:99'],
  ])('%s', (api, graphql, site) => {
    expect(parseGithubAddress(api)).toMatchObject({ ok: true, value: { graphql, site } })
  })

  test('an invalid address is reported with its field', () => {
    expect(parseGithubAddress('http://code.example', 'tracker.apiUrl')).toMatchObject({
      refusal: { message: expect.stringMatching(/^tracker\.apiUrl must begin with https/) },
    })
    expect(parseGithubAddress('https://a:b@code.example', 'tracker.apiUrl')).toMatchObject({
      refusal: { message: expect.stringMatching(/use tracker\.apiKey$/) },
    })
  })
})
