/** Frames that arrive while a dispatch is not answered yet. The simulation found each of these cases. */
import { describe, expect, test } from '@jest/globals'
import type { Clock } from '../../../core/ports.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { expectRecorded } from '../../support/recorded-expectations.ts'
import { DaemonConversation, jobOf } from './daemon-conversation.ts'

/** A worker whose executor answers a dispatch only when the test calls `answer`, oldest first. */
async function withSlowExecutor(
  parts: ConstructorParameters<typeof DaemonConversation>[0] = {},
): Promise<{ readonly conversation: DaemonConversation; readonly answer: () => Promise<void> }> {
  const conversation = new DaemonConversation(parts)
  const waiting: (() => void)[] = []
  conversation.executor.refusalOf = () =>
    new Promise((resolve) => {
      waiting.push(() => resolve(undefined))
    })
  await conversation.start()
  await conversation.register()
  conversation.transcript()
  const answer = async () => {
    waiting.shift()?.()
    await conversation.clock.settle()
  }
  return { conversation, answer }
}

describe('a dispatch that is not answered yet', () => {
  test('is dropped when the host withdraws it: nothing starts under a lost lease', async () => {
    const { conversation, answer } = await withSlowExecutor()
    await conversation.dispatch('ls-1')
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'it took too long' })
    await answer()
    expect(conversation.transcript()).toEqual(['← dispatch', '← lease-lost ls-1'])
    expect(conversation.daemon.status().executions).toEqual([])
  })

  test('is accepted and reported as cancelled when its run is cancelled', async () => {
    const { conversation, answer } = await withSlowExecutor()
    await conversation.dispatch('ls-1')
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'nobody wants it' })
    await answer()
    expectRecorded(conversation.transcript())
  })

  test('is dropped when this process was suspended for longer than the host waits, because another worker has the run', async () => {
    const manualClock = new ManualClock()
    let stoppedMs = 0
    const clock: Clock = {
      now: () => manualClock.now(),
      monotonic: () => manualClock.monotonic() + stoppedMs,
      after: (ms, run) => manualClock.after(ms, run),
      endOfTick: (run) => manualClock.endOfTick(run),
    }
    const { conversation, answer } = await withSlowExecutor({ clock })
    // The disk has its own clock.
    const turn = async () => {
      for (let n = 0; n < 3; n++) await manualClock.settle().then(() => conversation.clock.settle())
    }
    await turn()
    await conversation.openConnection()
    await turn()
    await conversation.register()
    await turn()
    conversation.transcript()
    await conversation.dispatch('ls-1')
    stoppedMs = 30_000
    await answer()
    await turn()
    expect(conversation.transcript()).toEqual(['← dispatch'])
    await conversation.dispatch('ls-2')
    await answer()
    await turn()
    expectRecorded(conversation.transcript())
  })

  test('is replaced by a newer dispatch of its run, however late the answer comes', async () => {
    const { conversation, answer } = await withSlowExecutor()
    await conversation.dispatch('ls-1', 'run-1')
    await conversation.dispatch('ls-2', 'run-1', jobOf('run-1'))
    await answer()
    await answer()
    expectRecorded(conversation.transcript())
  })
})

test('a repeated dispatch is accepted only when it is on disk', async () => {
  const conversation = new DaemonConversation()
  await conversation.start()
  await conversation.register()
  const commit = conversation.disk.commit.bind(conversation.disk)
  const waiting: (() => void)[] = []
  // The test decides when the slow disk has written.
  conversation.disk.commit = (writes) =>
    new Promise((resolve) => {
      waiting.push(() => resolve(commit(writes)))
    })
  conversation.transcript()
  await conversation.dispatch('ls-1')
  await conversation.dispatch('ls-1')
  expect(conversation.transcript()).toEqual(['← dispatch', '← dispatch'])
  waiting.shift()?.()
  await conversation.clock.settle()
  expect(conversation.transcript()).toEqual(['→ dispatch-accepted ls-1'])
  await conversation.dispatch('ls-1')
  expectRecorded(conversation.transcript())
})

test('a register that was delayed does not end the worker', async () => {
  const conversation = new DaemonConversation()
  await conversation.start()
  // The host accepted the connection at once, and has waited ten seconds for a register.
  await conversation.clock.advance(12_000)
  await conversation.openConnection()
  await conversation.hostSends({
    type: 'rejected',
    code: 'malformed',
    reason: 'no register within 10 seconds',
  })
  await conversation.clock.advance(1_000)
  expectRecorded(conversation.transcript())
  expect(conversation.ends).toEqual([])
})
