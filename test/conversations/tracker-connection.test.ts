/**
 * The tracker's tokens: refreshed once however many were refused, on disk before they are used, and never lost to a
 * provider that is away for a while.
 */
import { expect, test } from '@jest/globals'
import type { Tracker } from '../../core/ports.ts'
import type { TokenPair } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { noNeighbours } from '../support/no-providers.ts'
import { configWith, HostConversation, ScriptedTracker, ticket } from './host-conversation.ts'

const HOUR_MS = 3_600_000
const IN_AN_HOUR = new Date(new ManualClock().now() + HOUR_MS).toISOString()

/** Gives out tokens `a-n` and `r-n`; only the newest of each are worth anything, and each refresh retires both. */
class ScriptedTokenProvider {
  /** The access token that is good; undefined: none is. */
  good: string | undefined = 'a-0'
  refreshable: string | undefined = 'r-0'
  refreshes = 0
  /** The tokens with which it was asked for tickets. */
  used: string[] = []
  /** In place of the next new pair. */
  refusal: Result<TokenPair> | undefined
  /** Before a new pair is answered. */
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

async function startWithTracker(tracker: object = {}) {
  const host = new HostConversation(
    configWith({
      tracker: { driver: 'linear', apiKey: 'a-0', refreshToken: 'r-0', pollSeconds: 30, ...tracker },
    }),
  )
  const provider = new ScriptedTokenProvider()
  host.overrides = {
    tracker: (config) => provider.tracker(config),
    accounts: {
      ...noNeighbours.accounts,
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
const status = (host: HostConversation) => host.hostApi.hello().linearStatus
/** A promise, and how to keep it. */
function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

test('twenty who are refused at once share one refresh, and each is answered', async () => {
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

test('killed before the new pair was on disk, the host tries with the old one, and says so when that is dead', async () => {
  const { host, provider } = await startWithTracker()
  const { opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void host.hostApi.trackerProjects()
  await host.settle()
  // The provider has given it out; nobody will ever hear of it.
  provider.hold = Promise.resolve()
  await host.crash()
  await host.advance(1)
  expect(await storedTracker(host)).toMatchObject({ apiKey: 'a-0', refreshToken: 'r-0' })
  expect(status(host)).toEqual({ state: 'auth-error', error: 'invalid_grant: connect Linear again' })
})

test('where the provider takes the last refresh token once more, the same kill costs nothing', async () => {
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

test('a token is refreshed five minutes before it runs out', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - host.clock.now()
  provider.expiresAt = () => new Date(host.clock.now() + 4 * HOUR_MS).toISOString()
  await host.advance(left / 1000 - 301)
  expect(provider.refreshes).toBe(0)
  await host.advance(2)
  expect(provider.refreshes).toBe(1)
  expect(await storedTracker(host)).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1' })
  await host.advance(4 * 3600 - 310)
  expect(provider.refreshes).toBe(1)
  await host.advance(30)
  expect(provider.refreshes).toBe(2)
})

test('a provider that is away while the token is good changes nothing that people see', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - host.clock.now()
  provider.refusal = no('unavailable', 'Linear did not answer')
  await host.advance(left / 1000 - 60)
  expect(provider.refreshes).toBeGreaterThan(1)
  expect(status(host)).toEqual({ state: 'connected' })
})

test('run out and not refreshed, polling pauses, and goes on by itself once a refresh succeeds', async () => {
  const { host, provider } = await startWithTracker({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - host.clock.now()
  const pushes = host.recordPushes()
  provider.refusal = no('unavailable', 'Linear did not answer')
  provider.tickets.put(ticket('ENG-1'))
  await host.advance(left / 1000 + 600)
  expect(status(host)).toEqual({ state: 'refresh-failing', error: 'Linear did not answer' })
  const looks = provider.tickets.polls
  await host.advance(600)
  expect(provider.tickets.polls).toBe(looks)
  expect(host.runOf('ENG-1').status).toBe('queued')
  provider.refusal = undefined
  await host.advance(600)
  expect(status(host)).toEqual({ state: 'connected' })
  expect(provider.tickets.polls).toBeGreaterThan(looks)
  expect(pushes.flatMap((push) => (push.type === 'linear-status' ? [push.linearStatus.state] : []))).toEqual([
    'refresh-failing',
    'connected',
  ])
})

test('a refresh token that is dead stops the polling until a person connects anew', async () => {
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

test('while the credential is known to be dead the tracker is not asked for anything else either', async () => {
  const { host, provider } = await startWithTracker()
  provider.good = undefined
  provider.refreshable = undefined
  await host.advance(31)
  provider.used = []
  expect(await host.settled(host.hostApi.trackerProjects())).toMatchObject({
    refusal: { message: expect.stringContaining('connect the tracker again') },
  })
  expect(provider.used).toEqual([])
})

test('a token that lasts less than five minutes is renewed at half its time, and not without end', async () => {
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

test('a person who gives the same key once more, and is told that it works, is connected', async () => {
  const { host, provider } = await startWithTracker({ refreshToken: undefined })
  provider.good = undefined
  await host.advance(31)
  expect(status(host).state).toBe('auth-error')
  // It was the provider's mistake, or somebody has switched the key on again.
  provider.good = 'a-0'
  const given = await host.settled(host.hostApi.changeCredentials({ trackerApiKey: 'a-0' }))
  expect(given).toMatchObject({ ok: true, value: { results: { tracker: { ok: true } } } })
  await host.settle()
  expect(status(host)).toEqual({ state: 'connected' })
  provider.used = []
  await host.advance(31)
  expect(provider.used.length).toBeGreaterThan(0)
})

test('whoever asks while nothing can be asked is told why, and does not wait', async () => {
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

test('a disk that takes nothing keeps the new pair waiting, and asks for no other', async () => {
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

test('other settings that come into force while a token is being refreshed ask for no second one', async () => {
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

test('other settings do not cost the pair that could not be written before them', async () => {
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

test('what becomes of an earlier refresh token says nothing of the one that a person has just connected', async () => {
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
    // The old one is denied while the new one is under way.
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

test('stopped in order, the host first writes the pair that it has asked for', async () => {
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

test('no token is in what people or the log are told', async () => {
  const { host, provider } = await startWithTracker()
  const pushes = host.recordPushes()
  provider.good = undefined
  await host.advance(31)
  provider.refreshable = undefined
  provider.good = undefined
  await host.advance(60)
  const told = JSON.stringify([pushes, host.log.lines, host.hostApi.hello(), host.hostApi.config()])
  expect(told).not.toMatch(/"[ar]-\d"/)
})
