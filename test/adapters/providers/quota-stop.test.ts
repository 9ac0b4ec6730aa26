/**
 * A rate limit stops the whole host: after the first rejection no request for that resource starts until the time that
 * the service named. Then one request goes ahead, and the others follow once it was served.
 *
 * Requests that were already running at the first rejection may be rejected as well.
 */
import { afterEach, describe, expect, test } from '@jest/globals'
import type { Result } from '../../../core/result.ts'
import { authorizationHeader } from '../../../providers/tracker/linear/rate-limits.ts'
import {
  type HostWithProviders,
  type HostWithProvidersOptions,
  startHostWithProviders,
  TOKEN,
} from '../../support/quota/host-with-providers.ts'
import { countOne, HOUR_MS, type MeterEntry, MINUTE_MS, peak } from '../../support/quota/meter.ts'

const REPOS = 4
const FEW: HostWithProvidersOptions = { tracker: 'linear key', repos: REPOS, tickets: 20, eligible: 5 }
/** Long poll intervals, so that tests about GitHub send few requests to Linear. */
const CALM: HostWithProvidersOptions = { ...FEW, pollSeconds: 900 }
const POLL_MS = 30_000
const ROUND_MS = 2 * MINUTE_MS
const STATED_SECONDS = 300
const STATED_MS = STATED_SECONDS * 1_000
/** Longer than a person's request may wait. */
const PATIENCE_SECONDS = 30

const open: HostWithProviders[] = []

/** Starts a host and lets it run until its caches are filled. */
async function startHost(options: HostWithProvidersOptions = FEW): Promise<HostWithProviders> {
  const place = await startHostWithProviders(options)
  open.push(place)
  place.host.start()
  await place.clock.advance(ROUND_MS + 1_000)
  place.meter.forget()
  return place
}

afterEach(async () => {
  for (const place of open.splice(0)) await place.close()
})

/** Advances the clock until the promise settles. */
async function answerFor<T>({ clock }: HostWithProviders, asked: Promise<Result<T>>): Promise<Result<T>> {
  let answer: Result<T> | undefined
  void asked.then((result) => {
    answer = result
  })
  await clock.settle()
  for (let waited = 0; answer === undefined && waited < PATIENCE_SECONDS; waited++) await clock.advance(1_000)
  if (answer === undefined) throw new Error('a person waits in vain')
  return answer
}

/** The distinct errors on the page of pull requests. */
async function pullErrors(place: HostWithProviders): Promise<string[]> {
  const page = await answerFor(place, place.host.hostApi.pulls())
  return page.ok ? [...new Set(page.value.errors.map(({ message }) => message))] : [page.refusal.message]
}

const projects = (place: HostWithProviders) => answerFor(place, place.host.hostApi.trackerProjects())

const isRefused = ({ status }: MeterEntry): boolean => status >= 400

/** The requests that started after the first rejection. */
function afterTheFirstRefusal(entries: readonly MeterEntry[]): MeterEntry[] {
  const first = Math.min(...entries.filter(isRefused).map(({ ended }) => ended))
  return entries.filter(({ began }) => began > first)
}

/** How often a message with these fields was logged. */
function countLogLines({ log }: HostWithProviders, what: RegExp, about: object = {}): number {
  return log.lines.filter(
    ({ message, fields }) =>
      what.test(message) &&
      Object.entries(about).every(([name, value]) => Reflect.get(fields, name) === value),
  ).length
}

const BLOCKED_MESSAGE = /^requests .* paused$/
const OPEN_MESSAGE = /^requests .* allowed again$/
const RESERVED_MESSAGE = /reserved for people$/

// ---- GitHub ----------------------------------------------------------------------------------------------------------

interface RateLimitCase {
  readonly faults: Partial<HostWithProviders['github']['faults']>
  readonly statedMs: number
  /** The latest end of the pause after two rejections. */
  readonly overMs: number
}

const HOUR: Omit<RateLimitCase, 'faults'> = { statedMs: HOUR_MS - ROUND_MS, overMs: HOUR_MS + ROUND_MS }
const PAUSE: Omit<RateLimitCase, 'faults'> = { statedMs: STATED_MS, overMs: 3 * STATED_MS }

const RATE_LIMIT_CASES: [string, RateLimitCase][] = [
  [
    '429 with Retry-After',
    { faults: { secondary: { status: 429, retryAfterSeconds: STATED_SECONDS } }, ...PAUSE },
  ],
  [
    '403 with Retry-After',
    { faults: { secondary: { status: 403, retryAfterSeconds: STATED_SECONDS } }, ...PAUSE },
  ],
  [
    'a secondary limit and no time',
    { faults: { secondary: { status: 403 } }, ...PAUSE, statedMs: MINUTE_MS },
  ],
  ['that the hourly budget is used up, as 403', { faults: { primary: 403 }, ...HOUR }],
  ['that the hourly budget is used up, as 429', { faults: { primary: 429 }, ...HOUR }],
]

describe.each(RATE_LIMIT_CASES)('GitHub says %s', (_, { faults, statedMs, overMs }) => {
  test.each(['background', 'person'] as const)('first to a request of kind %s', async (urgency) => {
    const place = await startHost(CALM)
    const { clock, github, meter } = place
    Object.assign(github.faults, faults)
    const refusedAt = urgency === 'person' ? clock.now() : clock.now() + ROUND_MS - 1_000
    if (urgency === 'person') await pullErrors(place)
    else await clock.advance(ROUND_MS - 1_000)
    const core = meter.of('core')
    expect([core.length > 0, afterTheFirstRefusal(core)]).toEqual([true, []])

    meter.forget()
    if (statedMs > MINUTE_MS) expect(await pullErrors(place)).toEqual([UNTIL_WHEN])
    await clock.advance(refusedAt + statedMs - clock.now() - 2_000)
    expect(meter.of('core')).toEqual([])

    // The limit still holds, and a single probe finds that out.
    await clock.advance(ROUND_MS + 4_000)
    expect(meter.of('core')).toHaveLength(1)
    Object.assign(github.faults, { primary: undefined, secondary: undefined })
    await clock.advance(overMs)
    const statuses = meter.of('core').map(({ status }) => status)
    expect(statuses.filter((status) => status >= 400)).toHaveLength(1)
    expect(statuses.length).toBeGreaterThan(2 * REPOS)
    expect(await pullErrors(place)).toEqual([])
    // GraphQL has a budget of its own, and pauses of its own.
    const countOthers = (what: RegExp) =>
      countLogLines(place, what) - countLogLines(place, what, { resource: 'graphql' })
    expect([countOthers(BLOCKED_MESSAGE), countOthers(OPEN_MESSAGE)]).toEqual([1, 1])
    expect(place.host.hostApi.hello().linearStatus).toMatchObject({ state: 'connected' })
  })
})

const UNTIL_WHEN = expect.stringMatching(
  /^the rate limit of GitHub is reached; no request is sent before \S+ \S+ UTC$/,
)

test('a used-up GraphQL budget, reported with status 200, stops only GraphQL', async () => {
  const place = await startHost(CALM)
  const { clock, github, meter, host } = place
  github.faults.matching = /graphql/
  github.faults.primary = 403
  const openPull = () => answerFor(place, host.hostApi.pull('r1', 1))
  expect(await openPull()).toMatchObject({ ok: false })
  for (let clicks = 0; clicks < 5; clicks++) expect(await openPull()).toMatchObject({ ok: false })
  expect(meter.of('graphql')).toHaveLength(1)
  expect(await pullErrors(place)).toEqual([])
  github.faults.primary = undefined
  await clock.advance(HOUR_MS)
  expect(await openPull()).toMatchObject({ ok: true })
  expect([countLogLines(place, BLOCKED_MESSAGE), countLogLines(place, OPEN_MESSAGE)]).toEqual([1, 1])
  expect(countLogLines(place, BLOCKED_MESSAGE, { resource: 'graphql' })).toBe(1)
})

test('the last part of the hourly budget is reserved for people, and polling stops', async () => {
  const hourly = 40
  const place = await startHost({ ...CALM, limits: { hourly } })
  const { clock, github, meter, remotes } = place
  const change = () => {
    for (const remote of remotes) github.addComment(remote, 1, { author: 'bo', body: String(clock.now()) })
  }
  for (let rounds = 0; rounds < 8; rounds++) {
    change()
    await clock.advance(ROUND_MS)
  }
  const spent = meter.of('core').filter(({ status }) => status === 200).length
  expect(hourly - spent - REPOS).toBeGreaterThanOrEqual(hourly * 0.2 - REPOS)
  expect([countLogLines(place, RESERVED_MESSAGE), countLogLines(place, BLOCKED_MESSAGE)]).toEqual([1, 0])

  meter.forget()
  await clock.advance(3 * ROUND_MS)
  expect(meter.of('core')).toEqual([])
  expect(await pullErrors(place)).toEqual([])
  expect(meter.of('core').length).toBeGreaterThanOrEqual(2 * REPOS)

  // Without any budget left no request is sent.
  change()
  await pullErrors(place)
  change()
  expect(await pullErrors(place)).toEqual([
    expect.stringMatching(/request budget of GitHub for this credential is used up.* UTC/),
  ])
  expect(github.counters.refusedPrimary).toBe(0)
  meter.forget()
  await clock.advance(10 * MINUTE_MS)
  expect(meter.of('core')).toEqual([])
  await clock.advance(HOUR_MS - 10 * MINUTE_MS)
  expect(await pullErrors(place)).toEqual([])
  expect(countLogLines(place, RESERVED_MESSAGE)).toBe(1)
  expect([countLogLines(place, BLOCKED_MESSAGE), countLogLines(place, OPEN_MESSAGE)]).toEqual([1, 1])
})

test('repeated loads of a page stay within the quota per minute and show everything', async () => {
  const place = await startHost({ ...CALM, repos: 20 })
  const { clock, github, meter, host } = place
  for (let loads = 0; loads < 60; loads++) {
    expect(await pullErrors(place)).toEqual([])
    await clock.advance(1_000)
  }
  expect(github.counters.refusedSecondary).toBe(0)
  // On a busy machine more than a minute passes while the answers come.
  expect(peak(meter.of('core'), MINUTE_MS, countOne)).toBeLessThanOrEqual(0.8 * 900)
  // After a change the page shows the new state.
  expect(await answerFor(place, host.hostApi.closePull('r1', 1))).toMatchObject({ ok: true })
  const page = await answerFor(place, host.hostApi.pulls())
  if (!page.ok) throw new Error(page.refusal.message)
  const closed = page.value.pulls.find(({ repo, number }) => repo === 'r1' && number === 1)
  expect(closed === undefined || closed.state === 'closed').toBe(true)
})

test('a thousand blocked issues are read within the quota per minute', async () => {
  const place = await startHostWithProviders({ tracker: 'github', repos: 1, tickets: 990 })
  open.push(place)
  place.host.start()
  await place.clock.advance(4 * MINUTE_MS)
  expect(place.github.counters.refusedSecondary).toBe(0)
  expect(place.host.hostApi.hello().linearStatus).toMatchObject({ state: 'connected' })
  expect(place.github.counters.route(BLOCKED_BY).requests).toBeGreaterThan(900)
})

const BLOCKED_BY = 'GET /repos/{owner}/{repo}/issues/{issue_number}/dependencies/blocked_by'

// ---- Linear ----------------------------------------------------------------------------------------------------------

describe.each([400, 200, 429] as const)('Linear says RATELIMITED with status %i', (status) => {
  test.each(['background', 'person'] as const)('first to a request of kind %s', async (urgency) => {
    const place = await startHost()
    const { clock, linear, meter, host } = place
    const end = linear.faults.add({ kind: 'ratelimited', status, retryAfterSeconds: STATED_SECONDS })
    const before = clock.now()
    if (urgency === 'person') expect(await projects(place)).toMatchObject({ ok: false })
    else await clock.advance(POLL_MS)
    expect(meter.of('linear')).toHaveLength(1)

    meter.forget()
    expect(await projects(place)).toMatchObject({ refusal: { message: LINEAR_UNTIL_WHEN } })
    await clock.advance(before + STATED_MS - clock.now() - 2_000)
    expect(meter.of('linear')).toEqual([])
    await clock.advance(2 * POLL_MS)
    expect(meter.of('linear')).toHaveLength(1)

    end()
    await clock.advance(3 * STATED_MS)
    expect(await projects(place)).toMatchObject({ ok: true })
    expect(host.hostApi.hello().linearStatus).toMatchObject({ state: 'connected' })
    expect(meter.of('linear').length).toBeGreaterThan(10)
    expect([countLogLines(place, BLOCKED_MESSAGE), countLogLines(place, OPEN_MESSAGE)]).toEqual([1, 1])
  })
})

const LINEAR_UNTIL_WHEN = expect.stringMatching(
  /^the rate limit of Linear is reached; .* before \S+ \S+ UTC$/,
)

describe.each(['linear key', 'linear oauth'] as const)('with a %s', (tracker) => {
  test.each(['requests', 'points'] as const)(
    'used-up %s stop all requests until the quota is refilled',
    async (what) => {
      const place = await startHost({ ...FEW, tracker })
      const { clock, linear, meter } = place
      linear.quotaOf(authorizationHeader(place.trackerKey)).drain(what)
      for (let clicks = 0; clicks < 3; clicks++)
        expect(await projects(place)).toMatchObject({ refusal: { message: LINEAR_UNTIL_WHEN } })
      await clock.advance(HOUR_MS - MINUTE_MS)
      expect(meter.of('linear')).toHaveLength(1)
      await clock.advance(2 * MINUTE_MS)
      expect(await projects(place)).toMatchObject({ ok: true })
      expect(meter.of('linear').filter(isRefused)).toHaveLength(1)
      expect([countLogLines(place, BLOCKED_MESSAGE), countLogLines(place, OPEN_MESSAGE)]).toEqual([1, 1])
    },
  )

  test('the remaining budget is reserved for people, and polling resumes after the reset', async () => {
    const place = await startHost({ ...FEW, tracker })
    const { clock, linear, meter } = place
    const quota = linear.quotaOf(authorizationHeader(place.trackerKey))
    while (Number(quota.headers(0)['X-RateLimit-Requests-Remaining']) > quota.limits.requests * 0.1)
      quota.takeRequest()
    await clock.advance(2 * POLL_MS)
    meter.forget()
    await clock.advance(4 * POLL_MS)
    expect(meter.of('linear')).toEqual([])
    expect(await projects(place)).toMatchObject({ ok: true })
    expect(countLogLines(place, RESERVED_MESSAGE)).toBe(1)
    await clock.advance(HOUR_MS)
    expect(meter.of('linear').length).toBeGreaterThan(10)
    expect(meter.of('linear').filter(isRefused)).toEqual([])
    expect(place.host.hostApi.hello().linearStatus).toMatchObject({ state: 'connected' })
  })
})

test('pull requests and issues of one account share their rate limit', async () => {
  const place = await startHost({ tracker: 'github', repos: REPOS })
  const { clock, github, meter } = place
  expect(place.trackerKey).toBe(TOKEN)
  github.faults.secondary = { status: 403, retryAfterSeconds: STATED_SECONDS }
  expect(await pullErrors(place)).toHaveLength(1)
  meter.forget()
  await clock.advance(STATED_MS - 2_000)
  expect(meter.of('core')).toEqual([])
  expect(place.host.hostApi.hello().linearStatus).toMatchObject({
    error: expect.stringMatching(/rate limit/),
  })
  github.faults.secondary = undefined
  await clock.advance(ROUND_MS)
  expect(place.host.hostApi.hello().linearStatus).toMatchObject({ state: 'connected' })
  expect(await pullErrors(place)).toEqual([])
})
