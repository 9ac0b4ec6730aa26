/** GitHub as a code host, against a loopback server with scripted replies. */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import type { CodeHost } from '../../../../core/ports/code-host.ts'
import { createCodeHost } from '../../../../providers/codehost/registry.ts'
import { createHttp, retryAfterMs } from '../../../../providers/http/http.ts'

const TOKEN = 'ghp_secret'

interface RecordedRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

interface ScriptedReply {
  readonly status: number
  readonly json?: unknown
  readonly text?: string
  readonly headers?: Record<string, string>
}

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const resource of open.splice(0)) await resource.close()
})

/** Answers the replies in order, and repeats the last one. */
async function github(replies: readonly ScriptedReply[], token: string | undefined = TOKEN) {
  const requests: RecordedRequest[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => (body += part))
    request.on('end', () => {
      requests.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body })
      const reply = replies[Math.min(requests.length, replies.length) - 1]
      response.writeHead(reply?.status ?? 500, { 'content-type': 'application/json', ...reply?.headers })
      response.end(reply?.text ?? JSON.stringify(reply?.json ?? {}))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const http = createHttp({ clock: realClock, random: realRandom })
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()))
  open.push(http, { close })
  const made = createCodeHost({ driver: 'github', apiUrl: origin }, token, { http, clock: realClock })
  if (!made.ok) throw new Error(made.refusal.message)
  return { host: made.value, requests, origin }
}

const repo = { full_name: 'ada/lamps' }
const pull = (more: object = {}) => ({
  number: 12,
  html_url: 'https://github.com/ada/lamps/pull/12',
  draft: false,
  head: { ref: 'mend', repo },
  base: { ref: 'main', repo },
  ...more,
})
const find = (host: CodeHost) => host.findPull('ada/lamps', 'mend', 'main')
const order = { remote: 'ada/lamps', head: 'mend', base: 'main', title: 'Mend', body: 'Words', draft: true }

describe('addresses', () => {
  const address = (apiUrl?: string) => {
    const http = createHttp({ clock: realClock, random: realRandom })
    open.push(http)
    const codehost = { driver: 'github' as const, ...(apiUrl === undefined ? {} : { apiUrl }) }
    const made = createCodeHost(codehost, TOKEN, { http, clock: realClock })
    return made.ok ? made.value.gitAddress('ada/lamps') : made.refusal.message
  }

  test.each([
    [undefined, 'https://github.com/ada/lamps.git'],
    ['https://api.github.com/', 'https://github.com/ada/lamps.git'],
    ['https://code.example/api/v3', 'https://code.example/ada/lamps.git'],
    ['http://127.0.0.1:99', 'http://127.0.0.1:99/ada/lamps.git'],
    ['http://code.example/api/v3', expect.stringMatching(/must begin with https/)],
    ['https://ada:x@code.example/api/v3', expect.stringMatching(/must not hold a user/)],
    ['nonsense', expect.stringMatching(/is not a URL/)],
  ])('%s → %s', (apiUrl, expected) => {
    expect(address(apiUrl)).toEqual(expected)
  })
})

describe('finding', () => {
  test('asks for exactly this branch, and accepts only a pull request of it', async () => {
    const fork = pull({ number: 1, head: { ref: 'mend', repo: { full_name: 'eve/lamps' } } })
    const others = [
      pull({ number: 2, head: { ref: 'other', repo } }),
      pull({ number: 3, base: { ref: 'dev', repo } }),
      pull({ number: 4, head: { ref: 'mend', repo: null } }),
      null,
      5,
    ]
    const { host, requests } = await github([{ status: 200, json: [fork, ...others, pull({ draft: true })] }])
    expect(await find(host)).toEqual({
      ok: true,
      value: { number: 12, url: 'https://github.com/ada/lamps/pull/12', state: 'draft' },
    })
    expect(requests[0]).toMatchObject({
      method: 'GET',
      url: '/repos/ada/lamps/pulls?state=open&head=ada%3Amend&base=main&per_page=10',
      headers: {
        authorization: `Bearer ${TOKEN}`,
        'x-github-api-version': '2022-11-28',
        'user-agent': 'switchyard',
      },
    })
    expect(await find((await github([{ status: 200, json: [fork] }])).host)).toEqual({
      ok: true,
      value: undefined,
    })
  })

  test('redirects of a renamed repository are followed within the origin only', async () => {
    const { host, requests } = await github([
      { status: 301, headers: { location: '/repositories/7/pulls' } },
      { status: 200, json: [pull()] },
    ])
    expect(await find(host)).toMatchObject({ ok: true, value: { number: 12 } })
    expect(requests[1]).toMatchObject({
      url: '/repositories/7/pulls',
      headers: { authorization: `Bearer ${TOKEN}` },
    })
    const elsewhere = await github([{ status: 200, json: [pull()] }])
    const away = await github([
      { status: 302, headers: { location: `${elsewhere.origin}/repos/ada/lamps/pulls` } },
    ])
    expect(await find(away.host)).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
    expect(elsewhere.requests).toEqual([])
    const round = await github([{ status: 301, headers: { location: '/again' } }])
    expect(await find(round.host)).toMatchObject({
      refusal: { message: expect.stringMatching(/in circles/) },
    })
  })

  test.each<[ScriptedReply, string, RegExp]>([
    [{ status: 401, json: { message: 'Bad credentials' } }, 'unauthorized', /refused the token; connect/],
    [{ status: 403, json: { message: 'Resource not accessible' } }, 'forbidden', /Resource not accessible/],
    [
      { status: 403, json: { message: 'limit' }, headers: { 'x-ratelimit-remaining': '0' } },
      'unavailable',
      /limits requests/,
    ],
    [
      { status: 429, json: { message: 'slow' }, headers: { 'retry-after': '3600' } },
      'unavailable',
      /limits requests/,
    ],
    [{ status: 404, json: { message: 'Not Found' } }, 'unknown', /no repository ada\/lamps/],
    [
      { status: 422, json: { message: 'Validation Failed', errors: ['bad', { message: 'worse' }] } },
      'invalid',
      /Validation Failed: bad: worse/,
    ],
    [{ status: 200, text: '<html>' }, 'failed', /is not a pull request/],
    [{ status: 200, json: [pull({ html_url: 'javascript:alert(1)' })] }, 'failed', /is not a pull request/],
    [{ status: 418, text: 'tea\u001b[2J' }, 'invalid', /answered 418/],
    [{ status: 410, text: 'gone' }, 'invalid', /answered 410/],
    [{ status: 409, text: 'two at once' }, 'failed', /answered 409/],
  ])('%j → %s', async (reply, kind, message) => {
    const { host } = await github([reply])
    const answer = await find(host)
    expect(answer).toMatchObject({ ok: false, refusal: { kind, message: expect.stringMatching(message) } })
    expect(JSON.stringify(answer)).not.toContain(TOKEN)
  })

  const DATE = 'Sun, 01 Mar 2026 08:00:00 GMT'
  const inAnHour = String(Date.parse(DATE) / 1000 + 3600)
  test.each<[number, Record<string, string>, number | undefined]>([
    [403, { 'retry-after': '3600' }, 3_600_000],
    [429, { 'retry-after': 'Sun, 01 Mar 2026 08:30:00 GMT' }, 1_800_000],
    [403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': inAnHour }, 3_600_000],
    [403, { 'x-ratelimit-remaining': '0' }, 60_000],
    [503, { 'retry-after': '90' }, 90_000],
    [403, {}, undefined],
    [404, { 'retry-after': '90' }, undefined],
  ])('%i with %j: no retry within %s ms', async (status, headers, againAfterMs) => {
    // Measured by GitHub's clock, because this machine's may be wrong by hours.
    const { host } = await github([{ status, headers: { ...headers, date: DATE } }])
    for (const answer of [await find(host), await host.hasComment('ada/lamps', 1, 'x')])
      expect(answer.ok ? answer : answer.refusal.retryAfterMs).toBe(againAfterMs)
  })

  test('a short outage is retried, a lasting one is reported', async () => {
    const { host, requests } = await github([
      { status: 502 },
      { status: 429, headers: { 'retry-after': '0' } },
      { status: 200, json: [pull()] },
    ])
    expect(await find(host)).toMatchObject({ ok: true, value: { number: 12 } })
    expect(requests).toHaveLength(3)
    const down = await github([{ status: 503 }])
    expect(await find(down.host)).toMatchObject({ refusal: { kind: 'failed' } })
    expect(down.requests).toHaveLength(3)
  })

  test('an unreachable server and an endless reply are refused', async () => {
    const { host } = await github([{ status: 200, text: 'x'.repeat(17 * 1024 * 1024) }])
    expect(await find(host)).toMatchObject({
      refusal: { message: expect.stringMatching(/more than \d+ bytes/) },
    })
    const gone = await github([{ status: 200 }])
    await open.pop()?.close()
    const answer = await find(gone.host)
    expect(answer).toMatchObject({
      refusal: { kind: 'failed', message: expect.stringMatching(/ECONNREFUSED/) },
    })
  })

  test('an invalid repository name is never requested', async () => {
    const { host, requests } = await github([{ status: 200, json: [] }])
    expect(await host.findPull('../user', 'x', 'main')).toMatchObject({ refusal: { kind: 'invalid' } })
    expect(requests).toEqual([])
  })
})

describe('opening', () => {
  test('sends all fields', async () => {
    const { host, requests } = await github([{ status: 201, json: pull({ draft: true }) }])
    expect(await host.openPull(order)).toMatchObject({ ok: true, value: { number: 12, state: 'draft' } })
    expect(requests[0]).toMatchObject({ method: 'POST', url: '/repos/ada/lamps/pulls' })
    expect(JSON.parse(requests[0]?.body ?? '')).toEqual({
      title: 'Mend',
      head: 'mend',
      base: 'main',
      body: 'Words',
      draft: true,
      maintainer_can_modify: true,
    })
  })

  test('an existing pull request is a conflict', async () => {
    const errors = [
      { resource: 'PullRequest', code: 'custom', message: 'A pull request already exists for ada:mend.' },
    ]
    const { host } = await github([{ status: 422, json: { message: 'Validation Failed', errors } }])
    expect(await host.openPull(order)).toMatchObject({ refusal: { kind: 'conflict' } })
  })

  test('is not retried when the first request may have taken effect', async () => {
    const { host, requests } = await github([{ status: 502 }, { status: 201, json: pull() }])
    expect(await host.openPull(order)).toMatchObject({ refusal: { kind: 'failed' } })
    expect(requests).toHaveLength(1)
  })
})

test('the retry time is given in seconds or as a date', () => {
  const now = Date.UTC(2026, 0, 1)
  expect(retryAfterMs('7', now)).toBe(7_000)
  expect(retryAfterMs('1.5', now)).toBe(1_500)
  expect(retryAfterMs('30.5', now)).toBe(30_500)
  expect(retryAfterMs('-5', now)).toBeUndefined()
  expect(retryAfterMs('Thu, 01 Jan 2026 00:00:05 GMT', now)).toBe(5_000)
  expect(retryAfterMs('Wed, 31 Dec 2025 00:00:05 GMT', now)).toBe(0)
  expect(retryAfterMs('soon', now)).toBeUndefined()
  expect(retryAfterMs(undefined, now)).toBeUndefined()
})
