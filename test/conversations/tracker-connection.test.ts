/**
 * The tracker's tokens: refreshed once however many requests were refused, on disk before they are used, and never lost
 * when the provider is unreachable for a while.
 */
import { expect, test } from '@jest/globals'
import { CONNECT_AGAIN } from '../../actors/accounts/oauth-redirects.ts'
import { TOKEN_EXPIRED } from '../../actors/tracker/tracker-connection.machine.ts'
import type { TokenPair } from '../../core/ports/accounts.ts'
import type { Tracker } from '../../core/ports/tracker.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { noProviders } from '../support/no-providers.ts'
import {
  configWith,
  HostConversation,
  ScriptedTracker,
  ticket,
  trackerConnectionOf,
} from './host-conversation.ts'

const HOUR_MS = 3_600_000
const IN_AN_HOUR = new Date(new ManualClock().now() + HOUR_MS).toISOString()
const AN_HOUR_AGO = new Date(new ManualClock().now() - HOUR_MS).toISOString()

/** Issues tokens `a-n` and `r-n`. Only the newest of each is valid, and each refresh invalidates both. */
class ScriptedTokenProvider {
  /** The valid access token; undefined when none is. */
  good: string | undefined = 'a-0'
  refreshable: string | undefined = 'r-0'
  refreshes = 0
  /** The tokens used in requests for tickets. */
  used: string[] = []
  /** Answered instead of the next new pair. */
  refusal: Result<TokenPair> | undefined
  /** Awaited before a new pair is answered. */
  hold: Promise<void> = Promise.resolve()
  expiresAt: () => string | undefined = () => undefined
  readonly tickets = new ScriptedTracker()
  #given = 0

  tracker({ tracker: { apiKey } }: ServiceConfig): Tracker | undefined {
    if (apiKey === undefined) return undefined
    const asked = async <T>(answer: () => Promise<Result<T>>): Promise<Result<T>> => {
      this.used.push(apiKey)
      return apiKey === this.good ? answer() : no('unauthorized', 'the token is not valid')
    }
    return {
      listTickets: () => asked(() => this.tickets.listTickets()),
      watch: () => () => {},
      moveTicket: () => asked(async () => yes(undefined)),
      projects: () => asked(async () => yes([{ id: 'p', name: 'Lamps', teams: [] }])),
    }
  }

  async refresh(token: string): Promise<Result<TokenPair>> {
    this.refreshes += 1
    if (this.refusal !== undefined) return this.refusal
    if (token !== this.refreshable) return no('unauthorized', 'invalid_grant: connect Linear again')
    this.#given += 1
    const pair = { accessToken: `a-${this.#given}`, refreshToken: `r-${this.#given}` }
    this.good = pair.accessToken
    this.refreshable = pair.refreshToken
    await this.hold
    const expiresAt = this.expiresAt()
    return yes(expiresAt === undefined ? pair : { ...pair, expiresAt })
  }
}

/** @param prepare called before the host starts */
async function startWithTracker(
  tracker: object = {},
  prepare: (provider: ScriptedTokenProvider) => void = () => {},
) {
  const host = new HostConversation(
    configWith({
      tracker: { driver: 'linear', apiKey: 'a-0', refreshToken: 'r-0', pollSeconds: 30, ...tracker },
    }),
  )
  const provider = new ScriptedTokenProvider()
  prepare(provider)
  host.overrides = {
    tracker: (config) => provider.tracker(config),
    accounts: {
      ...noProviders.accounts,
      refreshTrackerToken: (_, token) => provider.refresh(token),
      checkTracker: async ({ tracker: { apiKey } }) =>
        apiKey === provider.good ? yes('Ada') : no('unauthorized', 'the token is not valid'),
    },
  }
  await host.start()
  return { host, provider }
}

const storedTracker = async (host: HostConversation) =>
  JSON.parse((await host.store.config.read()) ?? '{}').tracker
const status = trackerConnectionOf
const statesOf = (pushes: ReturnType<HostConversation['recordPushes']>) =>
  pushes.flatMap((push) => (push.type === 'linear-status' ? [push.linearStatus.state] : []))

/** A promise and the function that resolves it. */
function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

test('twenty requests that are refused at once share one refresh, and each is answered', async () => {
  const { host, provider } = await startWithTracker()
  const { open, opened } = gate()
  provider.good = undefined
  provider.hold = opened
  const answers = Array.from({ length: 20 }, () => host.hostApi.trackerProjects())
  await host.settle()
  expect(provider.refreshes).toBe(1)
  open()
  await host.settle()
  for (const answer of await Promise.all(answers)) expect(answer).toMatchObject({ ok: true })
  expect(provider.refreshes).toBe(1)
  expect(status(host)).toEqual({ state: 'connected' })
})

test('a new pair is on disk before it is used', async () => {
  const { host, provider } = await startWithTracker()
  provider.good = undefined
  provider.used = []
  let storedAtFirstUse: unknown
  const { refreshToken } = await storedTracker(host)
  expect(refreshToken).toBe('r-0')
  const projects = host.hostApi.trackerProjects()
  const original = provider.tickets.listTickets.bind(provider.tickets)
  provider.tickets.listTickets = async () => {
    storedAtFirstUse ??= await storedTracker(host)
    return original()
  }
  await host.succeeded(projects)
  await host.advance(30)
  expect(storedAtFirstUse).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1' })
  expect(provider.used.filter((token) => token === 'a-1').length).toBeGreaterThan(1)
})

test('killed before the new pair was on disk, the host tries the old one, and reports when that is refused', async () => {
  const { host, provider } = await startWithTracker()
  const { opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void host.hostApi.trackerProjects()
  await host.settle()
  // The provider has issued the new pair, but the host lost it.
  provider.hold = Promise.resolve()
  await host.crash()
  await host.advance(1)
  expect(await storedTracker(host)).toMatchObject({ apiKey: 'a-0', refreshToken: 'r-0' })
  expect(status(host)).toEqual({ state: 'auth-error', error: 'invalid_grant: connect Linear again' })
})

test('when the provider accepts the last refresh token once more, the same kill costs nothing', async () => {
  const { host, provider } = await startWithTracker()
  const { opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void host.hostApi.trackerProjects()
  await host.settle()
  provider.hold = Promise.resolve()
  provider.refreshable = 'r-0'
  await host.crash()
  await host.advance(1)
  expect(await storedTracker(host)).toMatchObject({ apiKey: 'a-2', refreshToken: 'r-2' })
  expect(status(host)).toEqual({ state: 'connected' })
})

test('a token is refreshed five minutes before it expires', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - host.clock.now()
  provider.expiresAt = () => new Date(host.clock.now() + 4 * HOUR_MS).toISOString()
  await host.advance(left / 1000 - 301)
  expect(provider.refreshes).toBe(0)
  await host.advance(2)
  expect(provider.refreshes).toBe(1)
  expect(await storedTracker(host)).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1' })
  // Nobody has connected an account.
  expect(host.store.actions).toEqual([])
  await host.advance(4 * 3600 - 310)
  expect(provider.refreshes).toBe(1)
  await host.advance(30)
  expect(provider.refreshes).toBe(2)
})

test('an unreachable provider changes nothing that people see while the token is valid', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - host.clock.now()
  provider.refusal = no('unavailable', 'Linear did not answer')
  await host.advance(left / 1000 - 60)
  expect(provider.refreshes).toBeGreaterThan(1)
  expect(status(host)).toEqual({ state: 'connected' })
})

test('polling pauses when the token has expired, and continues once a refresh succeeds', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - host.clock.now()
  const pushes = host.recordPushes()
  provider.refusal = no('unavailable', 'Linear did not answer')
  provider.tickets.put(ticket('ENG-1'))
  await host.advance(left / 1000 + 600)
  expect(status(host)).toEqual({ state: 'refresh-failing', error: 'Linear did not answer' })
  const pollsBefore = provider.tickets.polls
  await host.advance(600)
  expect(provider.tickets.polls).toBe(pollsBefore)
  expect(host.runOf('ENG-1').status).toBe('queued')
  provider.refusal = undefined
  await host.advance(600)
  expect(status(host)).toEqual({ state: 'connected' })
  expect(provider.tickets.polls).toBeGreaterThan(pollsBefore)
  expect(statesOf(pushes).filter((state, at, all) => state !== all[at - 1])).toEqual([
    'refresh-failing',
    'connected',
  ])
})

test('a token that has expired before the start is refreshed before anything is asked with it', async () => {
  const { open, opened } = gate()
  const { host, provider } = await startWithTracker({ tokenExpiresAt: AN_HOUR_AGO }, (tokens) => {
    tokens.hold = opened
  })
  await host.advance(60)
  expect([provider.used, provider.refreshes]).toEqual([[], 1])
  expect(status(host)).toEqual({ state: 'refresh-failing', error: TOKEN_EXPIRED.refreshing })
  const pushes = host.recordPushes()
  provider.tickets.put(ticket('ENG-1'))
  provider.expiresAt = () => new Date(host.clock.now() + HOUR_MS).toISOString()
  open()
  await host.settle()
  expect(status(host)).toEqual({ state: 'connected' })
  expect(new Set(provider.used)).toEqual(new Set(['a-1']))
  expect(statesOf(pushes)).toEqual(['connected'])
  expect(host.runOf('ENG-1').status).toBe('queued')
})

test('a token that has expired before the start is not used while it cannot be refreshed', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: AN_HOUR_AGO }, (tokens) => {
    tokens.refusal = no('unavailable', 'Linear did not answer')
  })
  await host.advance(300)
  expect(status(host)).toEqual({ state: 'refresh-failing', error: 'Linear did not answer' })
  expect((await host.settled(host.hostApi.trackerProjects())).ok).toBe(false)
  expect(provider.used).toEqual([])
  provider.refusal = undefined
  await host.advance(600)
  expect(status(host)).toEqual({ state: 'connected' })
  expect(new Set(provider.used)).toEqual(new Set(['a-1']))
})

test('an expired token without a refresh token is not used: a person has to connect again', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: AN_HOUR_AGO, refreshToken: undefined })
  await host.advance(300)
  expect(status(host)).toEqual({ state: 'auth-error', error: TOKEN_EXPIRED.dead })
  expect([provider.used, provider.refreshes]).toEqual([[], 0])
})

test('a token that expired while the computer slept is refreshed before the next request', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: IN_AN_HOUR })
  await host.advance(60)
  provider.used = []
  provider.good = undefined
  host.clock.jumpWallClock(8 * HOUR_MS)
  await host.advance(60)
  expect(status(host)).toEqual({ state: 'connected' })
  expect(new Set(provider.used)).toEqual(new Set(['a-1']))
  expect(provider.refreshes).toBe(1)
})

test('a provider whose tokens have expired when they arrive is not asked in a loop', async () => {
  const { host, provider } = await startWithTracker(
    { tokenExpiresAt: AN_HOUR_AGO, pollSeconds: 300 },
    (tokens) => {
      tokens.expiresAt = () => AN_HOUR_AGO
    },
  )
  await host.advance(60)
  expect(provider.refreshes).toBeLessThanOrEqual(13)
  expect(provider.used.length).toBeGreaterThan(0)
})

test('a refused refresh token stops the polling until a person connects again', async () => {
  const { host, provider } = await startWithTracker()
  provider.good = undefined
  provider.refreshable = undefined
  await host.advance(31)
  expect(status(host)).toEqual({ state: 'auth-error', error: 'invalid_grant: connect Linear again' })
  provider.used = []
  await host.advance(600)
  expect(provider.used).toEqual([])
  expect(provider.refreshes).toBe(1)
})

test('while the credential is known to be refused the tracker gets no request', async () => {
  const { host, provider } = await startWithTracker()
  provider.good = undefined
  provider.refreshable = undefined
  await host.advance(31)
  provider.used = []
  expect(await host.settled(host.hostApi.trackerProjects())).toMatchObject({
    refusal: { message: expect.stringContaining(CONNECT_AGAIN) },
  })
  expect(provider.used).toEqual([])
})

test('a token that lasts less than five minutes is refreshed at half its lifetime, and not in a loop', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - host.clock.now()
  provider.expiresAt = () => new Date(host.clock.now() + 60_000).toISOString()
  await host.advance(left / 1000 - 299)
  expect(provider.refreshes).toBe(1)
  await host.advance(60)
  expect(provider.refreshes).toBeLessThanOrEqual(3)
})

test('a token that is refused right after it was refreshed needs a person', async () => {
  const { host, provider } = await startWithTracker()
  provider.good = undefined
  const refresh = provider.refresh.bind(provider)
  provider.refresh = async (token) => {
    const pair = await refresh(token)
    provider.good = undefined
    return pair
  }
  await host.advance(31)
  expect(status(host).state).toBe('auth-error')
  expect(provider.refreshes).toBe(1)
})

test('a key without a refresh token that is refused needs a person at once', async () => {
  const { host, provider } = await startWithTracker({ refreshToken: '' })
  provider.good = undefined
  await host.advance(31)
  expect(status(host)).toEqual({ state: 'auth-error', error: 'the token is not valid' })
  expect(provider.refreshes).toBe(0)
})

test('a person who enters the same key again, and it works, is connected', async () => {
  const { host, provider } = await startWithTracker({ refreshToken: undefined })
  provider.good = undefined
  await host.advance(31)
  expect(status(host).state).toBe('auth-error')
  // The provider erred, or a person enabled the key again.
  provider.good = 'a-0'
  const given = await host.settled(host.hostApi.changeCredentials({ trackerApiKey: 'a-0' }))
  expect(given).toMatchObject({ ok: true, value: { results: { tracker: { ok: true } } } })
  await host.settle()
  expect(status(host)).toEqual({ state: 'connected' })
  provider.used = []
  await host.advance(31)
  expect(provider.used.length).toBeGreaterThan(0)
})

test('another credential keeps the tickets until they are listed with it', async () => {
  const { host, provider } = await startWithTracker({ refreshToken: undefined })
  provider.tickets.put(ticket('ENG-1'))
  await host.advance(31)
  provider.good = 'a-9'
  provider.tickets.answer = no('unavailable', 'Linear did not answer')
  await host.succeeded(host.hostApi.changeCredentials({ trackerApiKey: 'a-9' }))
  await host.advance(60)
  expect(provider.used).toContain('a-9')
  expect(host.hostApi.tickets()).toHaveLength(1)
})

test('a request that cannot be sent fails at once with the reason', async () => {
  const { host, provider } = await startWithTracker()
  provider.good = undefined
  provider.refusal = no('unavailable', 'Linear did not answer')
  await host.advance(31)
  expect(status(host).state).toBe('refresh-failing')
  expect(await host.settled(host.hostApi.trackerProjects())).toMatchObject({ refusal: { kind: 'invalid' } })
})

test('a person who disconnects while a token is being refreshed wins', async () => {
  const { host, provider } = await startWithTracker()
  const { open, opened } = gate()
  provider.good = undefined
  provider.hold = opened
  const asked = host.hostApi.trackerProjects()
  await host.settle()
  await host.succeeded(host.hostApi.changeCredentials({ trackerApiKey: '' }))
  open()
  expect(await host.settled(asked)).toMatchObject({ ok: false })
  expect(await storedTracker(host)).not.toHaveProperty('apiKey')
  expect(status(host)).toEqual({ state: 'disconnected' })
})

test('while the disk is full the new pair waits, and no other is requested', async () => {
  const { host, provider } = await startWithTracker()
  const replace = host.store.config.replace.bind(host.store.config)
  let isFull = true
  host.store.config.replace = async (expected, text) => {
    if (isFull) throw new Error('ENOSPC: no space left on device')
    return replace(expected, text)
  }
  provider.good = undefined
  await host.advance(120)
  expect(status(host).state).toBe('refresh-failing')
  expect(provider.refreshes).toBe(1)
  isFull = false
  await host.advance(600)
  expect(status(host)).toEqual({ state: 'connected' })
  expect(provider.refreshes).toBe(1)
  expect(await storedTracker(host)).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1' })
})

test('other settings that change during a refresh start no second refresh', async () => {
  const { host, provider } = await startWithTracker()
  const { open, opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void host.hostApi.trackerProjects()
  await host.settle()
  await host.succeeded(host.hostApi.changeSettings({ tracker: { pollSeconds: 60 } }))
  await host.advance(1)
  open()
  await host.advance(61)
  expect(provider.refreshes).toBe(1)
  expect(status(host)).toEqual({ state: 'connected' })
  expect(await storedTracker(host)).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1', pollSeconds: 60 })
})

test('other settings do not lose a pair that could not be saved before them', async () => {
  const { host, provider } = await startWithTracker()
  const replace = host.store.config.replace.bind(host.store.config)
  host.store.config.replace = async () => {
    throw new Error('ENOSPC: no space left on device')
  }
  provider.good = undefined
  await host.advance(120)
  expect(status(host).state).toBe('refresh-failing')
  host.store.config.replace = replace
  await host.succeeded(host.hostApi.changeSettings({ tracker: { pollSeconds: 60 } }))
  await host.advance(600)
  expect(provider.refreshes).toBe(1)
  expect(status(host)).toEqual({ state: 'connected' })
})

test('the outcome of an earlier refresh token does not affect the one that a person has just connected', async () => {
  const { host, provider } = await startWithTracker()
  const { open, opened } = gate()
  const asked: string[] = []
  provider.good = undefined
  provider.refreshable = 'r-9'
  const refresh = provider.refresh.bind(provider)
  provider.refresh = async (token) => {
    asked.push(token)
    const early = gate()
    if (token === 'r-9') provider.hold = early.opened
    const answer = refresh(token)
    if (token === 'r-0') await opened
    // The old token is denied while the refresh of the new one is under way.
    else host.clock.after(5_000, early.open)
    return answer
  }
  void host.hostApi.trackerProjects()
  await host.settle()
  const before = (await host.store.config.read()) ?? ''
  await host.store.config.replace(before, before.replace('a-0', 'a-9').replace('r-0', 'r-9'))
  await host.advance(2)
  expect(asked).toEqual(['r-0', 'r-9'])
  open()
  await host.advance(60)
  expect(asked).toEqual(['r-0', 'r-9'])
  expect(status(host)).toEqual({ state: 'connected' })
})

test('a host that stops in order first saves the pair that it requested', async () => {
  const { host, provider } = await startWithTracker()
  const { open, opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void host.hostApi.trackerProjects()
  await host.settle()
  const restarted = host.restart()
  open()
  await restarted
  await host.advance(1)
  expect(provider.refreshes).toBe(1)
  expect(status(host)).toEqual({ state: 'connected' })
})

test('no token is shown to people or logged', async () => {
  const { host, provider } = await startWithTracker()
  const pushes = host.recordPushes()
  provider.good = undefined
  await host.advance(31)
  provider.refreshable = undefined
  provider.good = undefined
  await host.advance(60)
  const shown = JSON.stringify([pushes, host.log.lines, host.hostApi.hello(), host.hostApi.config()])
  expect(shown).not.toMatch(/"[ar]-\d"/)
})
