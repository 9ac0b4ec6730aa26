/** A worker that compares its clock with its host's, and what it asks its host because of that. */
import { describe, expect, test } from '@jest/globals'
import { DaemonConversation } from './daemon-conversation.ts'

const HOUR_MS = 3_600_000
const MONTH_MS = 30 * 24 * HOUR_MS
const EXPIRED = [{ runId: 'run-1', retainedUntil: '2026-01-02T00:00:00.000Z' }]
const RECLAIM_MS = 5 * 60_000
const BEAT_MS = 15_000

async function online(): Promise<DaemonConversation> {
  const conversation = new DaemonConversation()
  await conversation.start()
  await conversation.register()
  return conversation
}

/** The host answers a heartbeat, and says its time, if it is given. */
async function answer(conversation: DaemonConversation, more: object = {}): Promise<void> {
  await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 0, ...more })
}

const requestsOf = (conversation: DaemonConversation) =>
  conversation.frames.filter(({ type }) => type === 'expired-sandboxes')

const complaintsOf = ({ log }: DaemonConversation): string[] =>
  log.lines.filter(({ message }) => message.includes("this machine's clock")).map(({ level }) => level)

describe('a worker', () => {
  test('says its time with each heartbeat', async () => {
    const conversation = await online()
    await conversation.clock.advance(BEAT_MS)
    expect(conversation.frames.at(-1)).toMatchObject({ type: 'heartbeat', clock: conversation.clock.now() })
  })

  test('looks for what has expired when its host has said its time, and then every five minutes', async () => {
    const conversation = await online()
    const before = conversation.executor.protectedRuns.length
    await answer(conversation, { clock: conversation.clock.now() })
    await answer(conversation, { clock: conversation.clock.now() })
    expect(conversation.executor.protectedRuns.length - before).toBe(1)
    await conversation.clock.advance(RECLAIM_MS)
    expect(conversation.executor.protectedRuns.length - before).toBe(2)
  })

  test('asks its host for what it must not delete by itself, until the host has it discarded', async () => {
    const conversation = await online()
    conversation.executor.expired = EXPIRED
    for (let ms = 0; ms <= RECLAIM_MS; ms += BEAT_MS) {
      await answer(conversation, { clock: conversation.clock.now() - MONTH_MS })
      await conversation.clock.advance(BEAT_MS)
    }
    expect(requestsOf(conversation)).toEqual([
      { type: 'expired-sandboxes', sandboxes: EXPIRED },
      { type: 'expired-sandboxes', sandboxes: EXPIRED },
    ])
  })

  test('says once that the clocks differ, and once that they agree again', async () => {
    const conversation = await online()
    const { clock } = conversation
    for (const ms of [0, MONTH_MS, MONTH_MS, 2 * HOUR_MS, HOUR_MS, 0])
      await answer(conversation, { clock: clock.now() - ms })
    expect(complaintsOf(conversation)).toEqual(['warn', 'info'])
  })
})

describe('the clocks agree', () => {
  test.each([
    ['when the host says the same time', { clock: 0 }, true],
    ['not when the host says another time', { clock: -2 * HOUR_MS }, false],
    ['not when the host doubts its own clock', { clock: 0, clockDoubted: true }, false],
    ['not when a host of an earlier version says no time', {}, false],
  ])('%s', async (_, { clock, ...more }: { clock?: number; clockDoubted?: boolean }, agree) => {
    const conversation = await online()
    const hosts = clock === undefined ? {} : { clock: conversation.clock.now() + clock }
    await answer(conversation, { ...hosts, ...more })
    expect(conversation.hostClock.isConfirmed()).toBe(agree)
  })

  test('when a lease of a host that says no time says the same time', async () => {
    const conversation = await online()
    const { clock, hostClock } = conversation
    const expiresAt = new Date(clock.now() + 165_000).toISOString()
    const leases = [{ leaseId: 'ls-1', seq: 0, expiresAt, remainingMs: 165_000 }]
    await conversation.hostSends({ type: 'lease-ack', leases })
    expect(hostClock.isConfirmed()).toBe(false)
    await answer(conversation)
    await conversation.hostSends({ type: 'lease-ack', leases })
    expect(hostClock.isConfirmed()).toBe(true)
    clock.jumpWallClock(MONTH_MS)
    expect([hostClock.isConfirmed(), hostClock.now()]).toEqual([false, clock.now() - MONTH_MS])
  })
})
