/** What a worker daemon and its host say to each other, and what the worker does meanwhile. */
import { describe, expect, test } from '@jest/globals'
import type { Clock } from '../../../core/ports.ts'
import { yes } from '../../../core/result.ts'
import { StoreClosed } from '../../../store/errors.ts'
import { expectRecorded } from '../../support/recorded-expectations.ts'
import { CREDENTIAL, DaemonConversation, jobOf, SECRET } from './daemon-conversation.ts'

/** Online, and nothing of how it came there in the transcript. */
async function online(
  parts: ConstructorParameters<typeof DaemonConversation>[0] = {},
): Promise<DaemonConversation> {
  const conversation = new DaemonConversation(parts)
  await conversation.start()
  await conversation.register()
  conversation.transcript()
  return conversation
}

/** With a run at work. */
async function working(
  parts: ConstructorParameters<typeof DaemonConversation>[0] = {},
): Promise<DaemonConversation> {
  const conversation = await online(parts)
  await conversation.dispatch('ls-1')
  await conversation.endPreparation('ls-1')
  conversation.transcript()
  return conversation
}

describe('a run', () => {
  test('from its dispatch to the host having all of it', async () => {
    const conversation = new DaemonConversation()
    await conversation.start()
    await conversation.register()
    await conversation.dispatch('ls-1')
    await conversation.endPreparation('ls-1', { sandbox: { id: 'sb-1' } })
    await conversation.printLog('ls-1', 'hello')
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    expect(conversation.storedText()).not.toContain(SECRET)
    await conversation.hostSends({ type: 'run-complete-ack', leaseId: 'ls-1' })
    expectRecorded(conversation.transcript())
    expect(conversation.storedText()).toBe('[[[]],[],[]]')
  })

  test('that can not be prepared is finished all the same, and told as failed', async () => {
    const conversation = await online()
    await conversation.dispatch('ls-1')
    conversation.executor
      .execution('ls-1')
      .prepared.resolve({ ok: false, refusal: { kind: 'failed', message: 'no such branch' } })
    await conversation.clock.turn()
    await conversation.endFinish('ls-1', { status: 'failed', error: 'no such branch', costs: [] })
    expectRecorded(conversation.transcript())
  })

  test('whose pull request is known is told at once, and only once', async () => {
    const conversation = await working()
    const { reportProgress: progressed } = conversation.executor.execution('ls-1')
    progressed({ branch: 'b', pushed: 'c0ffee' })
    progressed({ prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    progressed({ prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    await conversation.clock.turn()
    expect(conversation.transcript()).toEqual([
      '→ run-patch #2 {"prUrl":"https://code.example/o/web/pull/1","prState":"open"}',
    ])
  })

  test('that answers what no host would take is told as failed, not for ever again', async () => {
    const conversation = await working()
    await conversation.endAgent('ls-1')
    const costs = [{ label: 'run' }] as never
    await conversation.endFinish('ls-1', { status: 'completed', costs })
    expectRecorded(conversation.transcript())
  })

  test('dispatched again under the same lease is accepted again and not begun twice', async () => {
    const conversation = await working()
    await conversation.dispatch('ls-1')
    expectRecorded(conversation.transcript())
  })

  test('under a newer lease begins when nothing of the older one is left', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.dispatch('ls-2', 'run-1')
    await conversation.endAgent('ls-1', { verdict: 'stopped' })
    conversation.executor.execution('ls-1').finished.resolve({ status: 'failed', costs: [] })
    await conversation.clock.turn()
    conversation.note('its processes are gone')
    conversation.executor.execution('ls-1').exited.resolve()
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })

  test('is discarded when it is told so, but never while it executes', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    expectRecorded(conversation.transcript())
  })
})

describe('a cancel', () => {
  test('interrupts, and is confirmed when everything is gone', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    expectRecorded(conversation.transcript())
  })

  test('kills an agent that does not listen, in time for the host', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    await conversation.clock.advance(9_000)
    conversation.note('nine seconds later')
    conversation.executor.execution('ls-1').endsWhenStopped = true
    await conversation.clock.advance(1_000)
    expectRecorded(conversation.transcript())
  })

  test('before anything began needs nobody to be killed', async () => {
    const conversation = await online()
    conversation.disk.fill()
    conversation.disk.drain()
    await conversation.dispatch('ls-1')
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    expectRecorded(conversation.transcript())
  })
})

describe('a lease', () => {
  test('that is lost is stopped at once, and nothing more is told of it', async () => {
    const conversation = await working()
    await conversation.hostSends({
      type: 'lease-lost',
      leaseId: 'ls-1',
      reason: 'this lease has ended: expired',
    })
    await conversation.printLog('ls-1', 'too late')
    await conversation.loseConnection()
    await conversation.clock.advance(1_000)
    await conversation.register()
    expectRecorded(conversation.transcript())
  })

  test('runs out at nine tenths of its time when the host is not heard of, and is not claimed any more', async () => {
    const conversation = await working()
    await conversation.loseConnection()
    await conversation.clock.advance(148_000)
    expect(conversation.transcript().filter((line) => line.includes('ls-1'))).toEqual([])
    await conversation.clock.advance(600)
    await conversation.loseConnection()
    await conversation.clock.advance(15_000)
    await conversation.openConnection()
    expectRecorded(conversation.transcript().filter((line) => line !== 'dials'))
  })

  test('that ran out is claimed while its processes are dying, so that nobody begins its run beside them', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.loseConnection()
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(149_000)
    await conversation.loseConnection()
    await conversation.clock.advance(15_000)
    await conversation.register({ 'ls-1': 1 })
    conversation.hiddenFrames = []
    conversation.executor.execution('ls-1').agentEnded.resolve({ verdict: 'stopped' })
    conversation.executor.execution('ls-1').finished.resolve({ status: 'failed', costs: [] })
    await conversation.clock.advance(15_000)
    await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 0 })
    conversation.note('its processes are gone')
    conversation.executor.execution('ls-1').exited.resolve()
    await conversation.clock.advance(15_000)
    expectRecorded(conversation.transcript())
  })

  test('that ran out is claimed no more once the host has ended it, or when its processes do not die', async () => {
    const conversation = await working()
    await conversation.dispatch('ls-2')
    await conversation.endPreparation('ls-2')
    for (const id of ['ls-1', 'ls-2']) conversation.executor.execution(id).endsWhenStopped = false
    await conversation.loseConnection()
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(149_000)
    await conversation.loseConnection()
    await conversation.clock.advance(15_000)
    conversation.transcript()
    await conversation.register()
    await conversation.hostSends({
      type: 'lease-lost',
      leaseId: 'ls-2',
      reason: 'this lease has ended: expired',
    })
    conversation.hiddenFrames = []
    for (let beats = 3; beats > 0; beats--) {
      await conversation.clock.advance(15_000)
      await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 0 })
    }
    expect(conversation.transcript()).toEqual([
      '→ register (credential) ls-1:1 ls-2:1',
      '← registered',
      '← lease-ack',
      '← lease-lost ls-2',
      ...[' ls-1:1', ' ls-1:1', ''].flatMap((claims) => [`→ heartbeat${claims}`, '← heartbeat-ack']),
    ])
  })

  test('lives on with each word of the host, counted from the heartbeat that it echoes', async () => {
    const conversation = await working()
    await conversation.clock.advance(15_000)
    const beat = conversation.frames.findLast(({ type }) => type === 'heartbeat')
    if (beat?.type !== 'heartbeat') throw new Error('no heartbeat')
    await conversation.clock.advance(5_000)
    await conversation.acknowledge({ 'ls-1': 1 }, { echo: beat.sentAt })
    await conversation.loseConnection()
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(142_000)
    conversation.note('148 s after the dispatch it still runs')
    await conversation.clock.advance(2_000)
    expectRecorded(conversation.transcript())
  })

  test('that is finished does not run out: it is told whenever the host comes back', async () => {
    const conversation = await working()
    await conversation.loseConnection()
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(3_600_000)
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('that ends is stopped though the disk is full', async () => {
    const conversation = await working()
    conversation.disk.fill()
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    expectRecorded(conversation.transcript())
  })
})

describe('a line', () => {
  test('that breaks loses nothing: the next one goes on where the host says it is', async () => {
    const conversation = await working()
    await conversation.printLog('ls-1', 'one')
    await conversation.printLog('ls-1', 'two')
    await conversation.loseConnection()
    await conversation.printLog('ls-1', 'three')
    await conversation.clock.advance(1_000)
    await conversation.register({ 'ls-1': 2 })
    expectRecorded(conversation.transcript())
  })

  test('on which a number is repeated hears what is behind it again, but not what left a moment ago', async () => {
    const conversation = await working()
    await conversation.acknowledge({ 'ls-1': 1 })
    await conversation.printLog('ls-1', 'one')
    await conversation.acknowledge({ 'ls-1': 1 })
    await conversation.clock.advance(1_000)
    await conversation.acknowledge({ 'ls-1': 1 })
    await conversation.acknowledge({ 'ls-1': 1 })
    await conversation.acknowledge({ 'ls-1': 2 })
    expectRecorded(conversation.transcript())
  })

  test('on which the host is ahead of this disk hears the completion behind what it has', async () => {
    const conversation = await working()
    await conversation.loseConnection()
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    conversation.hiddenFrames = ['dial', 'heartbeat']
    await conversation.clock.advance(1_000)
    conversation.transcript()
    // The worker's disk was restored, or did not keep what it had promised.
    await conversation.register({ 'ls-1': 20 })
    await conversation.acknowledge({ 'ls-1': 20 })
    expectRecorded(conversation.transcript())
  })

  test('that is silent for 45 seconds is given up', async () => {
    const conversation = await working()
    await conversation.clock.advance(44_999)
    expect(conversation.transcript()).toEqual([])
    await conversation.clock.advance(600)
    expect(conversation.transcript()).toEqual(['hangs up', 'dials'])
  })

  test('on which something comes after that long is given up all the same, before it counts', async () => {
    let stoppedMs = 0
    const clock: Clock = {
      now: () => conversation.clock.now(),
      monotonic: () => conversation.clock.monotonic() + stoppedMs,
      after: (ms, run) => conversation.clock.after(ms, run),
      endOfTick: (run) => conversation.clock.endOfTick(run),
    }
    const conversation = new DaemonConversation({ clock })
    await conversation.start()
    await conversation.register()
    conversation.transcript()
    // Stopped and continued, a process hears first what has come meanwhile; its timers are late.
    stoppedMs = 600_000
    await conversation.dispatch('ls-1')
    expect(conversation.transcript()).toEqual(['← dispatch', 'hangs up'])
  })

  test('on which the host is behind what it has acknowledged hears that this is lost', async () => {
    const conversation = await working()
    await conversation.printLog('ls-1', 'one')
    await conversation.printLog('ls-1', 'two')
    await conversation.acknowledge({ 'ls-1': 3 })
    await conversation.printLog('ls-1', 'three')
    await conversation.loseConnection()
    conversation.hiddenFrames = ['dial', 'heartbeat']
    await conversation.clock.advance(1_000)
    conversation.transcript()
    // It was restored from a backup.
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('that never answers is given up, and dialled again after a pause that grows to 15 seconds', async () => {
    const conversation = new DaemonConversation()
    await conversation.start()
    await conversation.openConnection()
    const at = conversation.clock.monotonic()
    const dialled: number[] = []
    for (let wire = conversation.connection; dialled.length < 7; ) {
      await conversation.clock.advance(100)
      if (conversation.connection === wire) continue
      dialled.push(Math.round((conversation.clock.monotonic() - at) / 1_000))
      wire = conversation.connection
      await conversation.loseConnection('refused')
      wire = undefined
    }
    expect(dialled).toEqual([31, 32, 34, 38, 45, 53, 60])
  })

  test('takes no more than it can carry', async () => {
    const conversation = await working()
    conversation.backlog = 2 * 1024 * 1024
    await conversation.printLog('ls-1', 'one')
    await conversation.hostSends({
      type: 'attach-open',
      sessionId: 's-1',
      runId: 'run-1',
      cols: 80,
      rows: 24,
    })
    conversation.backlog = 0
    await conversation.clock.advance(100)
    expectRecorded(conversation.transcript())
  })

  test('on which the host speaks in tongues stays up', async () => {
    const conversation = await online()
    conversation.connection?.listener.onText('{"type":"sing","song":"x"}')
    conversation.connection?.listener.onText('not even JSON')
    conversation.connection?.listener.onText('{"type":"dispatch","lease":{"id":"ls-9"},"job":{}}')
    await conversation.hostSends({ type: 'sandbox-boot', requestId: 'q-1', runId: 'run-1', credentials: {} })
    expectRecorded(conversation.transcript())
  })
})

describe('being turned away', () => {
  test('a machine is enrolled with its token and keeps the credential', async () => {
    const conversation = new DaemonConversation()
    conversation.token = 'wp-1'
    conversation.credential = undefined
    await conversation.start()
    await conversation.register({}, { credential: 'wc-new' })
    await conversation.loseConnection()
    await conversation.clock.advance(1_000)
    await conversation.openConnection()
    expectRecorded(conversation.transcript())
    expect(conversation.credential).toEqual({ workerId: 'wk-1', secret: 'wc-new' })
  })

  test('with a bad token it tries its credential', async () => {
    const conversation = new DaemonConversation()
    conversation.token = 'wp-1'
    await conversation.start()
    await conversation.openConnection()
    await conversation.hostSends({ type: 'rejected', code: 'expired-token', reason: 'too late' })
    await conversation.clock.advance(1_000)
    await conversation.register()
    expectRecorded(conversation.transcript())
    expect(conversation.credential).toEqual(CREDENTIAL)
  })

  const noToken = { token: 'wp-1', credential: undefined }
  test.each([
    [
      'a bad token and no credential',
      noToken,
      'invalid-token',
      [
        'drops the token',
        'ends: no-credential (the pairing token was refused (because); get a new one from the host (POST /api/workers/pairing-tokens))',
      ],
    ],
    [
      'a credential nobody knows',
      {},
      'unauthorized',
      [
        'drops the credential',
        'ends: unauthorized (the host does not know this worker any more (because); pair it again)',
      ],
    ],
    ['another version', {}, 'protocol', ['ends: protocol (the host turned this worker away: because)']],
    [
      'a register that is none',
      {},
      'malformed',
      ['ends: malformed (the host does not understand this worker: because; update the older of the two)'],
    ],
  ] as const)('ends it with %s', async (_what, identity, code, then) => {
    const conversation = new DaemonConversation()
    Object.assign(conversation, identity)
    await conversation.start()
    await conversation.openConnection()
    conversation.transcript()
    await conversation.hostSends({ type: 'rejected', code, reason: 'because' })
    expect(conversation.transcript()).toEqual(['← rejected', 'hangs up', ...then])
    expect(conversation.clock.timers).toBe(0)
  })

  test('with nothing to show it does not even dial', async () => {
    const conversation = new DaemonConversation()
    conversation.credential = undefined
    await conversation.start()
    expect(conversation.transcript()).toEqual([
      'ends: no-credential (this machine is not paired; get a token from the host (POST /api/workers/pairing-tokens) and name its file as --token-file)',
    ])
  })

  test('a register that was too long on its way is tried again', async () => {
    const conversation = new DaemonConversation()
    await conversation.start()
    await conversation.openConnection()
    await conversation.clock.advance(10_000)
    await conversation.hostSends({
      type: 'rejected',
      code: 'malformed',
      reason: 'no register within 10 seconds',
    })
    await conversation.clock.advance(1_000)
    expectRecorded(conversation.transcript())
  })

  test('once it was welcome, a host that understands it no more is tried every five minutes', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'rejected', code: 'malformed', reason: '/event: what is this' })
    await conversation.clock.advance(140_000)
    expect(conversation.daemon.status().trouble).toContain('what is this')
    await conversation.clock.advance(160_000)
    expectRecorded(conversation.transcript())
  })

  test('replaced by another with the same credential it kills what it runs and ends', async () => {
    const conversation = await working()
    await conversation.hostSends({
      type: 'rejected',
      code: 'protocol',
      reason: 'replaced by a newer connection',
    })
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })

  test('replaced by what may be a line of its own it comes back', async () => {
    const conversation = await working()
    await conversation.clock.advance(46_000)
    await conversation.clock.advance(1_000)
    await conversation.register({ 'ls-1': 1 })
    await conversation.hostSends({
      type: 'rejected',
      code: 'protocol',
      reason: 'replaced by a newer connection',
    })
    await conversation.clock.advance(1_000)
    expectRecorded(conversation.transcript())
  })

  test('revoked it deletes the credential, lets its runs end, and tells nobody', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'revoked', reason: 'by a person' })
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
    expect(conversation.credential).toBeUndefined()
    expect(conversation.storedText()).toBe('[[[]],[],[]]')
  })
})

describe('a daemon that is killed', () => {
  test.each([
    ['preparing', 'preparing', 2],
    ['working', 'running', 3],
    ['finishing', 'finalizing', 4],
  ])('while %s tells its run as interrupted', async (phase, said, seq) => {
    const conversation = await online()
    await conversation.dispatch('ls-1')
    if (phase !== 'preparing') await conversation.endPreparation('ls-1')
    const entry = {
      label: 'run',
      provider: 'agentA',
      inputTokens: 1,
      outputTokens: 2,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      estimated: false,
    }
    const event = { type: 'cost', at: '2026-03-01T08:00:00.000Z', entry } as const
    conversation.executor.execution('ls-1').reporter.report({ is: 'event', event })
    await conversation.clock.turn()
    if (phase === 'finishing') await conversation.endAgent('ls-1')
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 0 })
    const outcome = {
      sandbox: { id: 'sb-run-1' },
      status: 'failed',
      error: `interrupted: the worker daemon ended while the run was ${said}`,
      costs: [entry],
    }
    const transcript = conversation.transcript()
    expectRecorded(transcript.slice(0, 3))
    expect(transcript.at(-1)).toBe(`→ run-complete ls-1 #${seq} ${JSON.stringify(outcome)}`)
  })

  test('does not take back its disk before it is salvaged', async () => {
    const conversation = await working()
    await conversation.restart()
    expect(conversation.executor.protectedRuns).toEqual([['run-1']])
    await conversation.clock.advance(5 * 60_000)
    expect(conversation.executor.protectedRuns).toEqual([['run-1'], []])
  })

  test('tells what its agent had spent by then, when its records say so', async () => {
    const conversation = await working()
    const tokens = { inputTokens: 3, outputTokens: 4, cacheReadTokens: 0, cacheWriteTokens: 0 }
    const entry = { label: 'run', provider: 'agentA', model: 'm', ...tokens, estimated: true }
    const used = { id: 'u1', at: '2026-03-01T08:00:00.000Z', model: 'm', ...tokens }
    conversation.executor.recoveredCosts = {
      costs: [entry],
      usage: [{ projectKey: '-work', sessionId: 'session-1', entries: [used] }],
    }
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    const transcript = conversation.transcript()
    expect(transcript.at(-2)).toMatch(/^→ run-usage-snapshot ls-1/)
    expect(transcript.at(-1)).toContain(`"costs":[${JSON.stringify(entry)}]`)
  })

  test('with the work out tells it as completed', async () => {
    const conversation = await working()
    conversation.executor
      .execution('ls-1')
      .reportProgress({ branch: 'b', prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    await conversation.clock.turn()
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 2 })
    expectRecorded(conversation.transcript())
  })

  test('while a run was being cancelled tells it as cancelled', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('after a run was finished tells the very same completion', async () => {
    const conversation = await working()
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    await conversation.restart()
    await conversation.register({ 'ls-1': 2 })
    await conversation.hostSends({ type: 'run-complete-ack', leaseId: 'ls-1' })
    expectRecorded(conversation.transcript())
    expect(conversation.storedText()).toBe('[[[]],[],[]]')
  })

  test('with everything acknowledged goes on counting where it was', async () => {
    const conversation = await working()
    await conversation.acknowledge({ 'ls-1': 1 })
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })
})

describe('a dispatch', () => {
  test('is refused with its class', async () => {
    const conversation = await working({ concurrency: 1 })
    await conversation.dispatch('ls-2')
    await conversation.dispatch('ls-3', 'run-3', jobOf('run-4'))
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    await conversation.dispatch('ls-1')
    await conversation.hostSends({ type: 'worker-state', state: 'draining' })
    await conversation.dispatch('ls-5')
    await conversation.hostSends({ type: 'worker-state', state: 'active' })
    conversation.executor.refusal = 'sandbox: it does not start'
    await conversation.dispatch('ls-6')
    conversation.disk.fill('no room left')
    await conversation.dispatch('ls-7')
    expectRecorded(conversation.transcript())
  })

  test('is answered in time even when the hands are slow', async () => {
    const conversation = await online()
    conversation.executor.refusalOf = () => new Promise(() => {})
    await conversation.dispatch('ls-1')
    await conversation.clock.advance(5_000)
    expectRecorded(conversation.transcript())
  })

  test('whose line goes while the hands look at it is forgotten', async () => {
    const conversation = await online()
    let answer: (objection: undefined) => void = () => {}
    conversation.executor.refusalOf = () => new Promise((resolve) => (answer = resolve))
    await conversation.dispatch('ls-1')
    await conversation.loseConnection()
    await conversation.clock.advance(1_000)
    await conversation.register()
    answer(undefined)
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })

  test('two at once do not take one slot', async () => {
    const conversation = await online({ concurrency: 1 })
    for (const id of ['1', '2'])
      conversation.connection?.listener.onText(
        JSON.stringify({
          type: 'dispatch',
          lease: {
            id: `ls-${id}`,
            runId: `run-${id}`,
            expiresAt: '2026-01-01T00:00:00.000Z',
            remainingMs: 1,
          },
          job: jobOf(`run-${id}`),
        }),
      )
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })
})

describe('the end', () => {
  test('a drain lets what runs go on to its end, and takes nothing new', async () => {
    const conversation = await working()
    conversation.daemon.drain()
    await conversation.dispatch('ls-2')
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    expect(conversation.daemon.status().state).toBe('draining')
    await conversation.hostSends({ type: 'run-complete-ack', leaseId: 'ls-1' })
    expectRecorded(conversation.transcript())
  })

  test('a drain with nothing to do ends at once', async () => {
    const conversation = await online()
    conversation.daemon.drain()
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
    expect(conversation.clock.timers).toBe(0)
  })

  test('a drain that takes too long hands back what runs: the host queues it again', async () => {
    const conversation = await working({ drainMsMax: 60_000 })
    conversation.hiddenFrames = []
    conversation.daemon.drain()
    await conversation.clock.advance(14_000)
    await conversation.acknowledge({ 'ls-1': 1 })
    await conversation.clock.advance(40_000)
    await conversation.acknowledge({ 'ls-1': 1 })
    conversation.transcript()
    await conversation.clock.advance(6_000)
    expectRecorded(conversation.transcript())
    expect(conversation.storedText()).toBe('[[[]],[],[]]')
  })

  test('what is handed back is claimed until it is gone, or until the daemon goes itself', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    conversation.hiddenFrames = []
    await conversation.clock.advance(10_000)
    conversation.daemon.handBack()
    await conversation.clock.advance(6_000)
    expectRecorded(conversation.transcript())
    await conversation.clock.advance(14_000)
    expectRecorded(conversation.transcript())
  })

  test('work that is out is not handed back: it is told as done, and nobody does it again', async () => {
    const conversation = await working({ drainMsMax: 60_000 })
    await conversation.endAgent('ls-1')
    const prUrl = 'https://code.example/o/web/pull/1'
    conversation.executor.execution('ls-1').reportProgress({ branch: 'b', prUrl, prState: 'open' })
    await conversation.acknowledge({ 'ls-1': 1 })
    conversation.daemon.handBack()
    await conversation.clock.turn()
    expect(conversation.frames.find(({ type }) => type === 'run-complete')).toMatchObject({
      outcome: { status: 'completed', prUrl },
    })
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
    expect(conversation.storedText()).toContain('run-complete')
  })

  test('a drain does not wait for ever for a host that is away', async () => {
    const conversation = await working()
    await conversation.loseConnection()
    conversation.daemon.drain()
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(30_000)
    expectRecorded(conversation.transcript())
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('stopped now, it kills what runs and puts on disk how far that came', async () => {
    const conversation = await working()
    await conversation.loseConnection()
    conversation.daemon.stopNow()
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('stopped now, it does not wait for ever for what can not be killed', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    conversation.daemon.stopNow()
    await conversation.clock.advance(10_000)
    expectRecorded(conversation.transcript())
  })

  test('a disk that breaks ends everything', async () => {
    const conversation = await working()
    conversation.disk.breakDown('an I/O error')
    await conversation.clock.turn()
    await conversation.printLog('ls-1', 'into the void')
    expectRecorded(conversation.transcript())
    expect(conversation.clock.timers).toBe(0)
  })
})

test('hands that throw end their own run and nobody else’s', async () => {
  const conversation = await online()
  conversation.executor.start = () => {
    throw new Error('no hands')
  }
  await conversation.dispatch('ls-1')
  expectRecorded(conversation.transcript())
})

test('a report that is no report is not sent, and ends nothing', async () => {
  const conversation = await working()
  const { reporter } = conversation.executor.execution('ls-1')
  // What only a bug in the hands could tell.
  reporter.report({
    is: 'event',
    event: { type: 'log', at: 'yesterday', stream: 'stdout', text: 1n } as never,
  })
  reporter.report({ is: 'patch', patch: { prUrl: 'javascript:alert(1)' } })
  await conversation.printLog('ls-1', 'one')
  expectRecorded(conversation.transcript())
})

test('whoever reads a stream waits while too much is not on disk yet', async () => {
  const conversation = await working()
  conversation.disk.fill()
  const { reporter } = conversation.executor.execution('ls-1')
  const text = 'x'.repeat(200_000)
  for (let n = 0; n < 11; n++)
    reporter.report({
      is: 'event',
      event: { type: 'log', at: '2026-03-01T08:00:00.000Z', stream: 'stdout', text },
    })
  let hasRoom = false
  void reporter.waitForCapacity().then(() => {
    hasRoom = true
  })
  await conversation.clock.turn()
  expect(hasRoom).toBe(false)
  conversation.disk.drain()
  await conversation.clock.turn()
  expect(hasRoom).toBe(true)
})

test('whoever waits for a host that acknowledges nothing waits half a minute, whoever else begins to wait', async () => {
  const conversation = await working()
  await conversation.dispatch('ls-2')
  await conversation.endPreparation('ls-2')
  await conversation.acknowledge({ 'ls-1': 1, 'ls-2': 1 })
  conversation.hiddenFrames = ['run-event', 'heartbeat', 'lease-ack']
  const text = 'x'.repeat(200_000)
  for (const leaseId of ['ls-1', 'ls-2'])
    for (let n = 0; n < 50; n++) await conversation.printLog(leaseId, text)
  const roomFor = (leaseId: string) => conversation.executor.execution(leaseId).reporter.waitForCapacity()
  let hasRoom = false
  void roomFor('ls-1').then(() => {
    hasRoom = true
  })
  for (let second = 0; second < 31; second++) {
    void roomFor('ls-2')
    await conversation.clock.advance(1_000)
    await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 1 })
  }
  expect(hasRoom).toBe(true)
})

test('what lies on a disk that can not be read for a moment is sent a moment later', async () => {
  const conversation = await working()
  await conversation.acknowledge({ 'ls-1': 1 })
  conversation.hiddenFrames = ['run-event']
  for (let n = 0; n < 4; n++) await conversation.printLog('ls-1', 'x'.repeat(200_000))
  await conversation.clock.advance(1_000)
  conversation.frames.length = 0
  // As a store that met a full disk is, while it opens its database again.
  conversation.disk.fill()
  const { keyValues } = conversation.disk
  const { get } = keyValues
  const closed = () => {
    throw new StoreClosed('the database is just being opened again')
  }
  Object.assign(keyValues, { get: closed })
  await conversation.acknowledge({ 'ls-1': 1 })
  await conversation.clock.advance(1_000)
  expect(conversation.frames).toEqual([])
  Object.assign(keyValues, { get })
  await conversation.clock.advance(100)
  expect(conversation.frames.map((frame) => 'seq' in frame && frame.seq)).toEqual([2, 3, 4, 5])
})

test('every record the daemon leaves behind can be read by the next', async () => {
  const conversation = await working()
  await conversation.dispatch('ls-2')
  await conversation.restart()
  expect(conversation.daemon.status().executions.map(({ leaseId, phase }) => [leaseId, phase])).toEqual([
    ['ls-1', 'finished'],
    ['ls-2', 'finished'],
  ])
  expect(yes(conversation.daemon.status().state)).toEqual(yes('serving'))
})
