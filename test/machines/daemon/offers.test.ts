/**
 * What a host says while an offer is still being looked at: the simulation found each of these, and here they are told
 * again, by hand.
 */
import { describe, expect, test } from '@jest/globals'
import type { Clock } from '../../../core/ports.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { expectRecorded } from '../../support/recorded-expectations.ts'
import { jobOf, Talk } from './daemon-conversation.ts'

/** A worker whose hands take their time to look at a run: `look` lets them answer, oldest first. */
async function looking(
  parts: ConstructorParameters<typeof Talk>[0] = {},
): Promise<{ readonly talk: Talk; readonly look: () => Promise<void> }> {
  const talk = new Talk(parts)
  const waiting: (() => void)[] = []
  talk.hands.refusalOf = () =>
    new Promise((resolve) => {
      waiting.push(() => resolve(undefined))
    })
  await talk.start()
  await talk.welcome()
  talk.transcript()
  const look = async () => {
    waiting.shift()?.()
    await talk.clock.turn()
  }
  return { talk, look }
}

describe('an offer that is still being looked at', () => {
  test('is forgotten when the host takes it back: nothing is begun under a lost lease', async () => {
    const { talk, look } = await looking()
    await talk.dispatch('ls-1')
    await talk.say({ type: 'lease-lost', leaseId: 'ls-1', reason: 'no answer to the dispatch' })
    await look()
    expect(talk.transcript()).toEqual(['← dispatch', '← lease-lost ls-1'])
    expect(talk.daemon.status().executions).toEqual([])
  })

  test('is taken and told as cancelled when its run is cancelled', async () => {
    const { talk, look } = await looking()
    await talk.dispatch('ls-1')
    await talk.say({ type: 'cancel', leaseId: 'ls-1', reason: 'nobody wants it' })
    await look()
    expectRecorded(talk.transcript())
  })

  test('is forgotten when this process was stopped for longer than the host waits: the run is somebody else’s', async () => {
    const hand = new ManualClock()
    let stoppedMs = 0
    const clock: Clock = {
      now: () => hand.now(),
      monotonic: () => hand.monotonic() + stoppedMs,
      after: (ms, run) => hand.after(ms, run),
      endOfTick: (run) => hand.endOfTick(run),
    }
    const { talk, look } = await looking({ clock })
    // The disk keeps a clock of its own.
    const turn = async () => {
      for (let n = 0; n < 3; n++) await hand.turn().then(() => talk.clock.turn())
    }
    await turn()
    await talk.open()
    await turn()
    await talk.welcome()
    await turn()
    talk.transcript()
    await talk.dispatch('ls-1')
    stoppedMs = 30_000
    await look()
    await turn()
    expect(talk.transcript()).toEqual(['← dispatch'])
    await talk.dispatch('ls-2')
    await look()
    await turn()
    expectRecorded(talk.transcript())
  })

  test('makes room for a newer offer of its run, however late it is answered', async () => {
    const { talk, look } = await looking()
    await talk.dispatch('ls-1', 'run-1')
    await talk.dispatch('ls-2', 'run-1', jobOf('run-1'))
    await look()
    await look()
    expectRecorded(talk.transcript())
  })
})

test('an offer that comes twice is accepted only when it is on disk', async () => {
  const talk = new Talk()
  await talk.start()
  await talk.welcome()
  const commit = talk.disk.commit.bind(talk.disk)
  const waiting: (() => void)[] = []
  // The disk is slow: what is written is there when the test says so.
  talk.disk.commit = (writes) =>
    new Promise((resolve) => {
      waiting.push(() => resolve(commit(writes)))
    })
  talk.transcript()
  await talk.dispatch('ls-1')
  await talk.dispatch('ls-1')
  expect(talk.transcript()).toEqual(['← dispatch', '← dispatch'])
  waiting.shift()?.()
  await talk.clock.turn()
  expect(talk.transcript()).toEqual(['→ dispatch-accepted ls-1'])
  await talk.dispatch('ls-1')
  expectRecorded(talk.transcript())
})

test('a greeting that is long on its way makes nobody end who was late with the answer', async () => {
  const talk = new Talk()
  await talk.start()
  // The host has taken the call at once, and waited ten seconds for a register.
  await talk.clock.advance(12_000)
  await talk.open()
  await talk.say({ type: 'rejected', code: 'malformed', reason: 'no register within 10 seconds' })
  await talk.clock.advance(1_000)
  expectRecorded(talk.transcript())
  expect(talk.ends).toEqual([])
})
