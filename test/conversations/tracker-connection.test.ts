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
import { configWith, HandTracker, ticket, Yarn } from './host-conversation.ts'

const HOUR_MS = 3_600_000
const IN_AN_HOUR = new Date(new ManualClock().now() + HOUR_MS).toISOString()

/** Gives out tokens `a-n` and `r-n`; only the newest of each are worth anything, and each refresh retires both. */
class Provider {
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
  readonly tickets = new HandTracker()
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

async function linked(tracker: object = {}) {
  const y = new Yarn(
    configWith({
      tracker: { driver: 'linear', apiKey: 'a-0', refreshToken: 'r-0', pollSeconds: 30, ...tracker },
    }),
  )
  const provider = new Provider()
  y.around = {
    tracker: (config) => provider.tracker(config),
    accounts: {
      ...noNeighbours.accounts,
      refreshTrackerToken: (_, token) => provider.refresh(token),
      checkTracker: async ({ tracker: { apiKey } }) =>
        apiKey === provider.good ? yes('Ada') : no('unauthorized', 'the token is not valid'),
    },
  }
  await y.start()
  return { y, provider }
}

const stored = async (y: Yarn) => JSON.parse((await y.store.config.read()) ?? '{}').tracker
const status = (y: Yarn) => y.desk.hello().linearStatus
/** A promise, and how to keep it. */
function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

test('twenty who are refused at once share one refresh, and each is answered', async () => {
  const { y, provider } = await linked()
  const { open, opened } = gate()
  provider.good = undefined
  provider.hold = opened
  const answers = Array.from({ length: 20 }, () => y.desk.trackerProjects())
  await y.settle()
  expect(provider.refreshes).toBe(1)
  open()
  await y.settle()
  for (const answer of await Promise.all(answers)) expect(answer).toMatchObject({ ok: true })
  expect(provider.refreshes).toBe(1)
  expect(status(y)).toEqual({ state: 'connected' })
})

test('a new pair is on disk before it is used', async () => {
  const { y, provider } = await linked()
  provider.good = undefined
  provider.used = []
  let storedAtFirstUse: unknown
  const { refreshToken } = await stored(y)
  expect(refreshToken).toBe('r-0')
  const projects = y.desk.trackerProjects()
  const original = provider.tickets.listTickets.bind(provider.tickets)
  provider.tickets.listTickets = async () => {
    storedAtFirstUse ??= await stored(y)
    return original()
  }
  await y.done(projects)
  await y.pass(30)
  expect(storedAtFirstUse).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1' })
  expect(provider.used.filter((token) => token === 'a-1').length).toBeGreaterThan(1)
})

test('killed before the new pair was on disk, the host tries with the old one, and says so when that is dead', async () => {
  const { y, provider } = await linked()
  const { opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void y.desk.trackerProjects()
  await y.settle()
  // The provider has given it out; nobody will ever hear of it.
  provider.hold = Promise.resolve()
  await y.crash()
  await y.pass(1)
  expect(await stored(y)).toMatchObject({ apiKey: 'a-0', refreshToken: 'r-0' })
  expect(status(y)).toEqual({ state: 'auth-error', error: 'invalid_grant: connect Linear again' })
})

test('where the provider takes the last refresh token once more, the same kill costs nothing', async () => {
  const { y, provider } = await linked()
  const { opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void y.desk.trackerProjects()
  await y.settle()
  provider.hold = Promise.resolve()
  provider.refreshable = 'r-0'
  await y.crash()
  await y.pass(1)
  expect(await stored(y)).toMatchObject({ apiKey: 'a-2', refreshToken: 'r-2' })
  expect(status(y)).toEqual({ state: 'connected' })
})

test('a token is refreshed five minutes before it runs out', async () => {
  const { y, provider } = await linked({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - y.clock.now()
  provider.expiresAt = () => new Date(y.clock.now() + 4 * HOUR_MS).toISOString()
  await y.pass(left / 1000 - 301)
  expect(provider.refreshes).toBe(0)
  await y.pass(2)
  expect(provider.refreshes).toBe(1)
  expect(await stored(y)).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1' })
  await y.pass(4 * 3600 - 310)
  expect(provider.refreshes).toBe(1)
  await y.pass(30)
  expect(provider.refreshes).toBe(2)
})

test('a provider that is away while the token is good changes nothing that people see', async () => {
  const { y, provider } = await linked({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - y.clock.now()
  provider.refusal = no('unavailable', 'Linear did not answer')
  await y.pass(left / 1000 - 60)
  expect(provider.refreshes).toBeGreaterThan(1)
  expect(status(y)).toEqual({ state: 'connected' })
})

test('run out and not refreshed, polling pauses, and goes on by itself once a refresh succeeds', async () => {
  const { y, provider } = await linked({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - y.clock.now()
  const pushes = y.watch()
  provider.refusal = no('unavailable', 'Linear did not answer')
  provider.tickets.put(ticket('ENG-1'))
  await y.pass(left / 1000 + 600)
  expect(status(y)).toEqual({ state: 'refresh-failing', error: 'Linear did not answer' })
  const looks = provider.tickets.looks
  await y.pass(600)
  expect(provider.tickets.looks).toBe(looks)
  expect(y.runOf('ENG-1').status).toBe('queued')
  provider.refusal = undefined
  await y.pass(600)
  expect(status(y)).toEqual({ state: 'connected' })
  expect(provider.tickets.looks).toBeGreaterThan(looks)
  expect(pushes.flatMap((push) => (push.type === 'linear-status' ? [push.linearStatus.state] : []))).toEqual([
    'refresh-failing',
    'connected',
  ])
})

test('a refresh token that is dead stops the polling until a person connects anew', async () => {
  const { y, provider } = await linked()
  provider.good = undefined
  provider.refreshable = undefined
  await y.pass(31)
  expect(status(y)).toEqual({ state: 'auth-error', error: 'invalid_grant: connect Linear again' })
  provider.used = []
  await y.pass(600)
  expect(provider.used).toEqual([])
  expect(provider.refreshes).toBe(1)
})

test('while the credential is known to be dead the tracker is not asked for anything else either', async () => {
  const { y, provider } = await linked()
  provider.good = undefined
  provider.refreshable = undefined
  await y.pass(31)
  provider.used = []
  expect(await y.ask(y.desk.trackerProjects())).toMatchObject({
    refusal: { message: expect.stringContaining('connect the tracker again') },
  })
  expect(provider.used).toEqual([])
})

test('a token that lasts less than five minutes is renewed at half its time, and not without end', async () => {
  const { y, provider } = await linked({ tokenExpiresAt: IN_AN_HOUR, pollSeconds: 300 })
  const left = Date.parse(IN_AN_HOUR) - y.clock.now()
  provider.expiresAt = () => new Date(y.clock.now() + 60_000).toISOString()
  await y.pass(left / 1000 - 299)
  expect(provider.refreshes).toBe(1)
  await y.pass(60)
  expect(provider.refreshes).toBeLessThanOrEqual(3)
})

test('a token that is refused right after it was refreshed needs a person', async () => {
  const { y, provider } = await linked()
  provider.good = undefined
  const refresh = provider.refresh.bind(provider)
  provider.refresh = async (token) => {
    const pair = await refresh(token)
    provider.good = undefined
    return pair
  }
  await y.pass(31)
  expect(status(y).state).toBe('auth-error')
  expect(provider.refreshes).toBe(1)
})

test('a key without a refresh token that is refused needs a person at once', async () => {
  const { y, provider } = await linked({ refreshToken: '' })
  provider.good = undefined
  await y.pass(31)
  expect(status(y)).toEqual({ state: 'auth-error', error: 'the token is not valid' })
  expect(provider.refreshes).toBe(0)
})

test('a person who gives the same key once more, and is told that it works, is connected', async () => {
  const { y, provider } = await linked({ refreshToken: undefined })
  provider.good = undefined
  await y.pass(31)
  expect(status(y).state).toBe('auth-error')
  // It was the provider's mistake, or somebody has switched the key on again.
  provider.good = 'a-0'
  const given = await y.ask(y.desk.changeCredentials({ trackerApiKey: 'a-0' }))
  expect(given).toMatchObject({ ok: true, value: { results: { tracker: { ok: true } } } })
  await y.settle()
  expect(status(y)).toEqual({ state: 'connected' })
  provider.used = []
  await y.pass(31)
  expect(provider.used.length).toBeGreaterThan(0)
})

test('whoever asks while nothing can be asked is told why, and does not wait', async () => {
  const { y, provider } = await linked()
  provider.good = undefined
  provider.refusal = no('unavailable', 'Linear did not answer')
  await y.pass(31)
  expect(status(y).state).toBe('refresh-failing')
  expect(await y.ask(y.desk.trackerProjects())).toMatchObject({ refusal: { kind: 'invalid' } })
})

test('a person who disconnects while a token is being refreshed wins', async () => {
  const { y, provider } = await linked()
  const { open, opened } = gate()
  provider.good = undefined
  provider.hold = opened
  const asked = y.desk.trackerProjects()
  await y.settle()
  await y.done(y.desk.changeCredentials({ trackerApiKey: '' }))
  open()
  expect(await y.ask(asked)).toMatchObject({ ok: false })
  expect(await stored(y)).not.toHaveProperty('apiKey')
  expect(status(y)).toEqual({ state: 'disconnected' })
})

test('a disk that takes nothing keeps the new pair waiting, and asks for no other', async () => {
  const { y, provider } = await linked()
  const replace = y.store.config.replace.bind(y.store.config)
  let isFull = true
  y.store.config.replace = async (expected, text) => {
    if (isFull) throw new Error('ENOSPC: no space left on device')
    return replace(expected, text)
  }
  provider.good = undefined
  await y.pass(120)
  expect(status(y).state).toBe('refresh-failing')
  expect(provider.refreshes).toBe(1)
  isFull = false
  await y.pass(600)
  expect(status(y)).toEqual({ state: 'connected' })
  expect(provider.refreshes).toBe(1)
  expect(await stored(y)).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1' })
})

test('other settings that come into force while a token is being refreshed ask for no second one', async () => {
  const { y, provider } = await linked()
  const { open, opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void y.desk.trackerProjects()
  await y.settle()
  await y.done(y.desk.changeSettings({ tracker: { pollSeconds: 60 } }))
  await y.pass(1)
  open()
  await y.pass(61)
  expect(provider.refreshes).toBe(1)
  expect(status(y)).toEqual({ state: 'connected' })
  expect(await stored(y)).toMatchObject({ apiKey: 'a-1', refreshToken: 'r-1', pollSeconds: 60 })
})

test('other settings do not cost the pair that could not be written before them', async () => {
  const { y, provider } = await linked()
  const replace = y.store.config.replace.bind(y.store.config)
  y.store.config.replace = async () => {
    throw new Error('ENOSPC: no space left on device')
  }
  provider.good = undefined
  await y.pass(120)
  expect(status(y).state).toBe('refresh-failing')
  y.store.config.replace = replace
  await y.done(y.desk.changeSettings({ tracker: { pollSeconds: 60 } }))
  await y.pass(600)
  expect(provider.refreshes).toBe(1)
  expect(status(y)).toEqual({ state: 'connected' })
})

test('what becomes of an earlier refresh token says nothing of the one that a person has just connected', async () => {
  const { y, provider } = await linked()
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
    else y.clock.after(5_000, early.open)
    return answer
  }
  void y.desk.trackerProjects()
  await y.settle()
  const before = (await y.store.config.read()) ?? ''
  await y.store.config.replace(before, before.replace('a-0', 'a-9').replace('r-0', 'r-9'))
  await y.pass(2)
  expect(asked).toEqual(['r-0', 'r-9'])
  open()
  await y.pass(60)
  expect(asked).toEqual(['r-0', 'r-9'])
  expect(status(y)).toEqual({ state: 'connected' })
})

test('stopped in order, the host first writes the pair that it has asked for', async () => {
  const { y, provider } = await linked()
  const { open, opened } = gate()
  provider.good = undefined
  provider.hold = opened
  void y.desk.trackerProjects()
  await y.settle()
  const restarted = y.restart()
  open()
  await restarted
  await y.pass(1)
  expect(provider.refreshes).toBe(1)
  expect(status(y)).toEqual({ state: 'connected' })
})

test('no token is in what people or the log are told', async () => {
  const { y, provider } = await linked()
  const pushes = y.watch()
  provider.good = undefined
  await y.pass(31)
  provider.refreshable = undefined
  provider.good = undefined
  await y.pass(60)
  const told = JSON.stringify([pushes, y.log.lines, y.desk.hello(), y.desk.config()])
  expect(told).not.toMatch(/"[ar]-\d"/)
})
