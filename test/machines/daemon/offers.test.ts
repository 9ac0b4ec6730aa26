/** Frames that arrive while a dispatch is not answered yet. The simulation found each of these cases. */
import { describe, expect, test } from '@jest/globals'
import type { Clock } from '../../../core/ports/clock.ts'
import type { HostFrame } from '../../../protocol/frames.ts'
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

describe('a dispatch whose acceptance could not leave in time', () => {
  /** A daemon whose disk writes nothing before the test says so. */
  async function withHeldDisk() {
    const conversation = new DaemonConversation()
    await conversation.start()
    await conversation.register()
    const commit = conversation.disk.commit.bind(conversation.disk)
    const waiting: (() => void)[] = []
    conversation.disk.commit = (writes) =>
      new Promise((resolve) => {
        waiting.push(() => resolve(commit(writes)))
      })
    await conversation.dispatch('ls-1')
    conversation.transcript()
    const write = async () => {
      conversation.disk.commit = commit
      waiting.shift()?.()
      await conversation.clock.settle()
    }
    return { conversation, write }
  }

  test('begins only when the host names its lease, in answer to a later heartbeat', async () => {
    const { conversation, write } = await withHeldDisk()
    await conversation.clock.advance(11_000)
    await write()
    expect(conversation.transcript()).toEqual(['→ dispatch-accepted ls-1'])
    const beforeAcceptance = conversation.clock.monotonic() - 1
    await conversation.acknowledge({ 'ls-1': 0 }, { echo: beforeAcceptance })
    expect(conversation.executor.executions.size).toBe(0)
    await conversation.acknowledge({ 'ls-1': 0 }, { echo: conversation.clock.monotonic() })
    expect(conversation.executor.executions.has('ls-1')).toBe(true)
  })

  test('never begins when the host withdraws it', async () => {
    const { conversation, write } = await withHeldDisk()
    await conversation.clock.advance(11_000)
    await write()
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'the answer came late' })
    expect(conversation.executor.executions.size).toBe(0)
    expect(conversation.daemon.status().executions).toEqual([])
  })

  test('waits on the next connection until the host has answered its claim', async () => {
    const { conversation, write } = await withHeldDisk()
    await conversation.loseConnection()
    await write()
    expect(conversation.executor.executions.size).toBe(0)
    await conversation.clock.advance(2_000)
    await conversation.register({ 'ls-1': 0 })
    expect(conversation.executor.executions.has('ls-1')).toBe(true)
  })

  test('ends when the host never names its lease again', async () => {
    const { conversation, write } = await withHeldDisk()
    await conversation.loseConnection()
    await write()
    await conversation.clock.advance(200_000)
    expect(conversation.executor.executions.size).toBe(0)
    expect(conversation.daemon.status().executions).toEqual([])
  })
})

describe('a connection that is given up because the host was silent', () => {
  async function silentWithExecution(before = async (_: DaemonConversation): Promise<void> => {}) {
    const conversation = new DaemonConversation()
    await conversation.start()
    await conversation.register()
    await conversation.dispatch('ls-1')
    await before(conversation)
    const { connection } = conversation
    await conversation.clock.advance(45_001)
    conversation.transcript()
    const read = async (frame: HostFrame) => {
      connection?.listener.onText(JSON.stringify(frame))
      await conversation.clock.settle()
    }
    return { conversation, connection, read }
  }

  test('still loses a lease that the host has withdrawn there', async () => {
    const { conversation, read } = await silentWithExecution()
    await read({ type: 'lease-lost', leaseId: 'ls-1', reason: 'expired' })
    expect(conversation.transcript()).toContain('kill ls-1 (the lease is lost: expired)')
  })

  test('still cancels a run that the host has cancelled there', async () => {
    const { conversation, read } = await silentWithExecution()
    await read({ type: 'cancel', leaseId: 'ls-1', reason: 'nobody wants it' })
    expect(conversation.transcript()).toContain('interrupt ls-1 (nobody wants it)')
  })

  test('still ends a worker that the host has revoked there', async () => {
    const { conversation, read } = await silentWithExecution()
    await read({ type: 'revoked', reason: 'unwanted' })
    expect(conversation.ends).toMatchObject([{ is: 'revoked' }])
  })

  test('still closes a sandbox that the host has released there', async () => {
    const { conversation, read } = await silentWithExecution(async (before) => {
      await before.boot('run-2', 's-1')
    })
    await read({ type: 'sandbox-release', runId: 'run-2' })
    expect(conversation.transcript()).toContain('close run-2')
  })

  test('loses a lease that the host withdraws on the next connection, even before it registers the worker', async () => {
    const { conversation } = await silentWithExecution()
    await conversation.clock.advance(2_000)
    await conversation.openConnection()
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'expired' })
    expect(conversation.transcript()).toContain('kill ls-1 (the lease is lost: expired)')
  })

  test('keeps its credential when a host revokes it that has not registered it', async () => {
    const { conversation } = await silentWithExecution()
    await conversation.clock.advance(2_000)
    await conversation.openConnection()
    await conversation.hostSends({ type: 'revoked', reason: 'unwanted' })
    expect(conversation.credential).toBeDefined()
    expect(conversation.ends).toEqual([])
  })

  test('brings nothing else: neither a dispatch nor a longer lease', async () => {
    const { conversation, read } = await silentWithExecution()
    await read({
      type: 'dispatch',
      lease: { id: 'ls-2', runId: 'run-2', expiresAt: '2026-01-01T00:03:00.000Z', remainingMs: 165_000 },
      job: jobOf('run-2'),
    })
    expect(conversation.executor.executions.has('ls-2')).toBe(false)
    expect(conversation.transcript()).toEqual([])
  })

  test('is closed before the next one opens', async () => {
    const { conversation, connection } = await silentWithExecution()
    expect(connection?.isOpen).toBe(true)
    await conversation.clock.advance(2_000)
    expect(conversation.connection).not.toBe(connection)
    expect(connection?.isOpen).toBe(false)
  })
})

test('an agent that ignores the interrupt of a revoked worker is killed when its lease expires', async () => {
  const conversation = new DaemonConversation()
  conversation.executor.endsWhenStopped = false
  await conversation.start()
  await conversation.register()
  await conversation.dispatch('ls-1')
  for (let n = 0; n < 4; n++) {
    await conversation.clock.advance(35_000)
    await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 0 })
  }
  await conversation.hostSends({ type: 'revoked', reason: 'unwanted' })
  expect(conversation.transcript().at(-1)).toMatch(/^interrupt ls-1 /)
  // Nine tenths of 165 seconds after the dispatch.
  await conversation.clock.advance(8_499)
  expect(conversation.transcript()).toEqual([])
  await conversation.clock.advance(2)
  expect(conversation.transcript()).toEqual([expect.stringMatching(/^kill ls-1 /)])
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

test('an offer protects the disks of executions, booted sandboxes and offered runs while the worker frees its disk', async () => {
  const conversation = new DaemonConversation({ concurrency: 4 })
  let isProtected: (runId: string) => boolean = () => false
  await conversation.start()
  await conversation.register()
  await conversation.dispatch('ls-1', 'run-1')
  conversation.executor.refusalOf = (_, protects) => {
    isProtected = protects
    return new Promise(() => {})
  }
  await conversation.dispatch('ls-2', 'run-2', jobOf('run-2'))
  expect(['run-1', 'run-2', 'run-3'].map((runId) => isProtected(runId))).toEqual([true, true, false])
})
