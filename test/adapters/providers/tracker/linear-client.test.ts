/** Interpretation of Linear's replies and rate limits: the body decides, whatever the status. */
import { describe, expect, test } from '@jest/globals'
import type { ServiceRequest } from '../../../../providers/http/client-types.ts'
import type { HttpReply } from '../../../../providers/http/http-types.ts'
import { LinearClient } from '../../../../providers/tracker/linear/client.ts'
import { LINEAR_RATE_LIMITS, parseLinearEndpoint } from '../../../../providers/tracker/linear/rate-limits.ts'

const KEY = 'lin_api_a_secret'

function createClient(status: number, body: unknown, credential = KEY) {
  const requests: ServiceRequest[] = []
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const ask = async (request: ServiceRequest) => {
    requests.push(request)
    return { ok: true, value: { status, headers: {}, text } } as const
  }
  const client = new LinearClient({
    httpClient: { send: ask },
    graphqlUrl: 'https://x.example/graphql',
    credential,
  })
  return { requests, ask: () => client.send({ document: '{ a }', urgency: 'background' }) }
}

const error = (code: string, type: string, message = 'It says so', hint?: string) => ({
  errors: [{ message, extensions: { code, type, ...(hint && { userPresentableMessage: hint }) } }],
})

describe('the body tells the kind of failure', () => {
  test.each<[number, unknown, string, RegExp]>([
    [401, error('AUTHENTICATION_ERROR', 'authentication error'), 'unauthorized', /connect Linear again/],
    [400, error('AUTHENTICATION_ERROR', 'authentication error'), 'unauthorized', /tracker.apiKey/],
    [200, error('OTHER', 'authentication error'), 'unauthorized', /connect Linear again/],
    [400, error('RATELIMITED', 'ratelimited'), 'unavailable', /limits requests/],
    [200, error('RATELIMITED', 'ratelimited'), 'unavailable', /limits requests/],
    [429, error('RATELIMITED', 'ratelimited'), 'unavailable', /limits requests/],
    [
      200,
      error('INPUT_ERROR', 'invalid input', 'Entity not found: Issue', 'No issue.'),
      'unknown',
      /No issue$/,
    ],
    [400, error('INPUT_ERROR', 'invalid input', 'Argument Validation Error', 'bad'), 'invalid', /says: bad$/],
    [400, error('GRAPHQL_VALIDATION_FAILED', 'graphql error'), 'invalid', /It says so$/],
    [403, error('FORBIDDEN', 'forbidden'), 'forbidden', /It says so/],
    [200, error('X', 'feature not accessible'), 'forbidden', /It says so/],
    [200, error('X', 'lock timeout'), 'unavailable', /It says so/],
    [500, error('INTERNAL_SERVER_ERROR', 'internal error'), 'failed', /It says so/],
    [200, error('X', 'a word that nobody knows yet'), 'failed', /It says so/],
    [200, { errors: [{}] }, 'failed', /no reason given/],
    [200, { errors: ['odd', 7, null] }, 'failed', /no reason given/],
    [200, { data: { a: null }, ...error('FORBIDDEN', 'forbidden') }, 'forbidden', /It says so/],
    [200, { data: { a: 1 }, ...error('RATELIMITED', 'ratelimited') }, 'unavailable', /limits requests/],
  ])('%d %j: %s', async (status, body, kind, message) => {
    const answer = await createClient(status, body).ask()
    expect(answer).toMatchObject({ ok: false, refusal: { kind } })
    expect(answer.ok ? '' : answer.refusal.message).toMatch(message)
  })
})

describe('without errors in the body the status tells the kind of failure', () => {
  test.each<[number, unknown, string]>([
    [401, '', 'unauthorized'],
    [403, '<html>', 'forbidden'],
    [404, '<html>', 'failed'],
    [429, '', 'unavailable'],
    [500, '', 'unavailable'],
    [502, '<html>Bad gateway</html>', 'unavailable'],
    [200, '<html>A login page</html>', 'failed'],
    [200, '{"data":', 'failed'],
    [200, { data: null }, 'failed'],
    [200, [], 'failed'],
    [302, '', 'failed'],
  ])('%d %j: %s', async (status, body, kind) => {
    expect(await createClient(status, body).ask()).toMatchObject({ ok: false, refusal: { kind } })
  })
})

test('a reply with errors and data uses the data and reports the errors', async () => {
  const body = { data: { a: 1, b: null }, ...error('X', 'internal error', 'b is broken') }
  expect(await createClient(200, body).ask()).toEqual({
    ok: true,
    value: { data: { a: 1, b: null }, problems: ['Linear says: b is broken'] },
  })
})

test('messages contain neither the credential nor control characters', async () => {
  const answer = await createClient(
    400,
    error('INPUT_ERROR', 'invalid input', `bad ${KEY}\n\u001b[31m`),
  ).ask()
  expect(answer).toMatchObject({ refusal: { message: 'Linear says: bad ***��[31m' } })
})

test('a personal key is sent alone, an OAuth token as Bearer', async () => {
  const key = createClient(200, { data: { a: 1 } })
  await key.ask()
  expect(key.requests[0]).toMatchObject({ headers: { authorization: KEY }, writes: false })
  const token = createClient(200, { data: { a: 1 } }, 'lin_oauth_x')
  await token.ask()
  expect(token.requests[0]?.headers.authorization).toBe('Bearer lin_oauth_x')
})

describe('rate limits', () => {
  const NOW = 1_000_000
  const request: ServiceRequest = {
    method: 'POST',
    url: 'https://x.example',
    headers: {},
    urgency: 'background',
  }
  const reply = (status: number, body: unknown, headers: Record<string, string> = {}): HttpReply => ({
    status,
    headers,
    text: JSON.stringify(body),
  })
  const LIMITED = error('RATELIMITED', 'ratelimited')
  const counters = (requests: number, points: number) => ({
    'x-ratelimit-requests-limit': '1200',
    'x-ratelimit-requests-remaining': String(requests),
    'x-ratelimit-requests-reset': String(NOW + 5_000),
    'x-ratelimit-complexity-limit': '200000',
    'x-ratelimit-complexity-remaining': String(points),
    'x-ratelimit-complexity-reset': String(NOW + 9_000),
  })

  test('requests and points are separate budgets with resets in milliseconds', () => {
    expect(LINEAR_RATE_LIMITS.budgets(reply(200, {}, counters(7, 1_999)), request)).toEqual([
      { resource: 'requests', limit: 1_200, remaining: 7, resetsAt: NOW + 5_000 },
      { resource: 'complexity', limit: 200_000, remaining: 1_999, resetsAt: NOW + 9_000 },
    ])
    expect(LINEAR_RATE_LIMITS.budgets(reply(200, {}), request)).toEqual([])
    expect(
      LINEAR_RATE_LIMITS.budgets(reply(200, {}, { 'x-ratelimit-requests-remaining': '-1' }), request),
    ).toEqual([])
  })

  test.each<[string, HttpReply, number | undefined]>([
    ['nothing is wrong', reply(200, { data: {} }), undefined],
    ['a ticket that speaks of it', reply(200, { data: { title: 'RATELIMITED' }, errors: [] }), undefined],
    ['another error', reply(400, error('INPUT_ERROR', 'invalid input', 'RATELIMITED?')), undefined],
    ['200, and no word of how long', reply(200, LIMITED), 60_000],
    ['400, and it says how long', reply(400, LIMITED, { 'retry-after': '12' }), 12_000],
    ['429 without a body', reply(429, ''), 60_000],
    ['no requests left', reply(400, LIMITED, counters(0, 10)), 5_000],
    ['neither requests nor points left', reply(400, LIMITED, counters(0, 0)), 9_000],
    [
      'a reset that has passed',
      reply(400, LIMITED, { ...counters(0, 10), 'x-ratelimit-requests-reset': '5' }),
      60_000,
    ],
    ['a reset in a thousand years', reply(429, '', { 'retry-after': '999999999' }), 3_600_000],
  ])('%s', (_, reply, wait) => {
    expect(LINEAR_RATE_LIMITS.tooManyRequestsMs(reply, NOW)).toBe(wait)
  })
})

describe('addresses', () => {
  test.each([
    [undefined, 'https://api.linear.app/graphql', 'https://linear.app/oauth/authorize'],
    [
      'https://api.linear.app/graphql',
      'https://api.linear.app/graphql',
      'https://linear.app/oauth/authorize',
    ],
    ['http://127.0.0.1:80', 'http://127.0.0.1/graphql', 'http://127.0.0.1/oauth/authorize'],
    [
      'http://127.0.0.1:8080/graphql/',
      'http://127.0.0.1:8080/graphql',
      'http://127.0.0.1:8080/oauth/authorize',
    ],
    [
      'https://x.example/linear/',
      'https://x.example/linear/graphql',
      'https://x.example/linear/oauth/authorize',
    ],
  ])('%s', (apiUrl, graphqlUrl, authorizeUrl) => {
    expect(parseLinearEndpoint(apiUrl)).toMatchObject({ ok: true, value: { graphqlUrl, authorizeUrl } })
  })

  test.each([
    'nowhere',
    'http://x.example',
    'ftp://127.0.0.1',
    'https://u:p@x.example',
    'https://u@x.example',
  ])('a credential is never sent to %s', (apiUrl) => {
    expect(parseLinearEndpoint(apiUrl)).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
  })
})
