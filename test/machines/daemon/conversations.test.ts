/** Transcripts of a worker daemon and its host: the frames, and what the worker does meanwhile. */
import { describe, expect, test } from '@jest/globals'
import type { DaemonEnd } from '../../../actors/daemon/daemon-context.ts'
import { LAST_PUBLISH_MS_MAX } from '../../../actors/daemon/executions.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { yes } from '../../../core/result.ts'
import { daemonEndedError } from '../../../core/run/interruption.ts'
import { LOG_EVENT_BYTES_MAX } from '../../../protocol/limits.ts'
import { StoreClosed } from '../../../store/errors.ts'
import { expectRecorded } from '../../support/recorded-expectations.ts'
import { CREDENTIAL, DaemonConversation, jobOf, ManualPromise, SECRET } from './daemon-conversation.ts'

/** A registered daemon with an empty transcript. */
async function online(
  parts: ConstructorParameters<typeof DaemonConversation>[0] = {},
): Promise<DaemonConversation> {
  const conversation = new DaemonConversation(parts)
  await conversation.start()
  await conversation.register()
  conversation.transcript()
  return conversation
}

/** A daemon whose agent is running. */
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
  test('is executed from its dispatch to the acknowledged completion', async () => {
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

  test('that cannot be prepared is finished and reported as failed', async () => {
    const conversation = await online()
    await conversation.dispatch('ls-1')
    conversation.executor
      .execution('ls-1')
      .prepared.resolve({ ok: false, refusal: { kind: 'failed', message: 'no such branch' } })
    await conversation.clock.settle()
    await conversation.endFinish('ls-1', { status: 'failed', error: 'no such branch', costs: [] })
    expectRecorded(conversation.transcript())
  })

  test('reports its pull request at once, and only once', async () => {
    const conversation = await working()
    const { reportProgress } = conversation.executor.execution('ls-1')
    reportProgress({ branch: 'b', pushed: 'c0ffee' })
    reportProgress({ prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    reportProgress({ prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    await conversation.clock.settle()
    expect(conversation.transcript()).toEqual([
      '→ run-patch #2 {"prUrl":"https://code.example/o/web/pull/1","prState":"open"}',
    ])
  })

  test('with an invalid outcome is reported as failed, once', async () => {
    const conversation = await working()
    await conversation.endAgent('ls-1')
    const costs = [{ label: 'run' }] as never
    await conversation.endFinish('ls-1', { status: 'completed', costs })
    expectRecorded(conversation.transcript())
  })

  test('dispatched again under the same lease is accepted again but not started twice', async () => {
    const conversation = await working()
    await conversation.dispatch('ls-1')
    expectRecorded(conversation.transcript())
  })

  test('under a newer lease starts when the older execution is gone', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.dispatch('ls-2', 'run-1')
    await conversation.endAgent('ls-1', { verdict: 'stopped' })
    conversation.executor.execution('ls-1').finished.resolve({ status: 'failed', costs: [] })
    await conversation.clock.settle()
    conversation.note('its processes are gone')
    conversation.executor.execution('ls-1').exited.resolve()
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('is discarded on request, but never during its execution', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    expectRecorded(conversation.transcript())
  })
})

describe('a cancel', () => {
  test('interrupts the agent, and is reported when all processes are gone', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    expectRecorded(conversation.transcript())
  })

  test('kills an agent that ignores the interrupt, in time for the host', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    await conversation.clock.advance(9_000)
    conversation.note('nine seconds later')
    conversation.executor.execution('ls-1').endsWhenStopped = true
    await conversation.clock.advance(1_000)
    expectRecorded(conversation.transcript())
  })

  test('before the execution started kills nothing', async () => {
    const conversation = await online()
    conversation.disk.fill()
    conversation.disk.drain()
    await conversation.dispatch('ls-1')
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    expectRecorded(conversation.transcript())
  })
})

describe('a lease', () => {
  test('that is lost is stopped at once, and nothing more is reported', async () => {
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

  test('expires after nine tenths of its time without a host, and is not claimed any more', async () => {
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

  test('that expired is claimed while its processes exit, so that no other worker starts the run', async () => {
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

  test('that expired before the machine slept is claimed after it, because its processes slept, too', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.loseConnection()
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(149_000)
    await conversation.loseConnection()
    await conversation.clock.advance(15_000)
    await conversation.register({ 'ls-1': 1 })
    conversation.transcript()
    conversation.clock.work(80_000)
    await conversation.clock.advance(1_000)
    await conversation.openConnection()
    expect(conversation.transcript()).toEqual(['→ heartbeat ls-1:1', '→ register (credential) ls-1:1'])
    await conversation.loseConnection()
    await conversation.clock.advance(60_000)
    await conversation.openConnection()
    expect(conversation.transcript()).toEqual(['→ register (credential)'])
  })

  test('that expired is not claimed any more when the host has ended it, or when its processes do not exit', async () => {
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

  test('is renewed by each acknowledgement, counted from the heartbeat that it echoes', async () => {
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

  test('that is finished does not expire: its completion is sent when the host is back', async () => {
    const conversation = await working()
    await conversation.loseConnection()
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(3_600_000)
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('that is lost while the disk is full keeps its sandbox until its costs are on disk', async () => {
    const conversation = await working()
    conversation.disk.fill()
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    await conversation.hostSends({ type: 'discard', runId: 'run-2' })
    await conversation.clock.advance(5 * 60_000)
    // Sandboxes that other runs have left go at once and make room.
    expect(conversation.transcript().filter((line) => line.startsWith('discard'))).toEqual(['discard run-2'])
    conversation.disk.drain()
    await conversation.clock.settle()
    expect(conversation.transcript()).toContain('discard run-1')
  })

  test('that was abandoned leaves its sandbox until its costs are on disk', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').leavesNothing = true
    conversation.disk.fill()
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    await conversation.clock.advance(5 * 60_000)
    expect(conversation.transcript()).not.toContain('discard run-1')
    expect(conversation.daemon.status().executions).toEqual([])
    conversation.disk.drain()
    await conversation.clock.settle()
    expect(conversation.transcript()).toContain('discard run-1')
  })

  test('that was abandoned for a newer lease leaves its sandbox to the newer execution', async () => {
    const conversation = await working()
    const older = conversation.executor.execution('ls-1')
    older.leavesNothing = true
    await conversation.dispatch('ls-2', 'run-1')
    await conversation.endPreparation('ls-2')
    await conversation.clock.advance(5 * 60_000)
    const transcript = conversation.transcript()
    expect(transcript).toContain('run agent ls-2')
    expect(transcript).not.toContain('discard run-1')
  })

  test('that is lost is stopped even with a full disk', async () => {
    const conversation = await working()
    conversation.disk.fill()
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    expectRecorded(conversation.transcript())
  })
})

describe('a connection', () => {
  test('that is lost loses no frame: the next one continues at the acknowledged number', async () => {
    const conversation = await working()
    await conversation.printLog('ls-1', 'one')
    await conversation.printLog('ls-1', 'two')
    await conversation.loseConnection()
    await conversation.printLog('ls-1', 'three')
    await conversation.clock.advance(1_000)
    await conversation.register({ 'ls-1': 2 })
    expectRecorded(conversation.transcript())
  })

  test('with a repeated acknowledgement sends the following frames again, except those just sent', async () => {
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

  test('to a host that is ahead of this disk sends the completion under the next number', async () => {
    const conversation = await working()
    await conversation.loseConnection()
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    conversation.hiddenFrames = ['dial', 'heartbeat']
    await conversation.clock.advance(1_000)
    conversation.transcript()
    // The worker's disk was restored from an older state.
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

  test('with a frame after more than 45 silent seconds is given up before the frame is processed', async () => {
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
    // A suspended process first reads what has arrived meanwhile; its timers fire later.
    stoppedMs = 600_000
    await conversation.dispatch('ls-1')
    expect(conversation.transcript()).toEqual(['← dispatch'])
    await conversation.clock.advance(600)
    expect(conversation.transcript()).toEqual(['hangs up', 'dials'])
  })

  test('to a host that is behind its own acknowledgements reports the gap', async () => {
    const conversation = await working()
    await conversation.printLog('ls-1', 'one')
    await conversation.printLog('ls-1', 'two')
    await conversation.acknowledge({ 'ls-1': 3 })
    await conversation.printLog('ls-1', 'three')
    await conversation.loseConnection()
    conversation.hiddenFrames = ['dial', 'heartbeat']
    await conversation.clock.advance(1_000)
    conversation.transcript()
    // The host was restored from a backup.
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('without an answer is given up, and tried again after pauses of up to 15 seconds', async () => {
    const conversation = new DaemonConversation()
    await conversation.start()
    await conversation.openConnection()
    const at = conversation.clock.monotonic()
    const dialled: number[] = []
    for (let connection = conversation.connection; dialled.length < 7; ) {
      await conversation.clock.advance(100)
      if (conversation.connection === connection) continue
      dialled.push(Math.round((conversation.clock.monotonic() - at) / 1_000))
      connection = conversation.connection
      await conversation.loseConnection('refused')
      connection = undefined
    }
    expect(dialled).toEqual([31, 32, 34, 38, 45, 53, 60])
  })

  test('with a full backlog receives no more frames', async () => {
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

  test('with unknown frames from the host stays open', async () => {
    const conversation = await online()
    conversation.connection?.listener.onText('{"type":"sing","song":"x"}')
    conversation.connection?.listener.onText('not even JSON')
    conversation.connection?.listener.onText('{"type":"dispatch","lease":{"id":"ls-9"},"job":{}}')
    await conversation.hostSends({ type: 'sandbox-boot', requestId: 'q-1', runId: 'run-1', credentials: {} })
    expectRecorded(conversation.transcript())
  })
})

describe('registration', () => {
  test('a machine is enrolled with its token and stores the credential', async () => {
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

  test('with a rejected token the worker tries its credential', async () => {
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

  /** A line of the transcript: the daemon ends for this reason, and its explanation holds a text. */
  const endsAs = (is: DaemonEnd['is'], text: string): unknown =>
    expect.stringMatching(new RegExp(`^ends: ${is} \\(.*${text}.*\\)$`))
  const noToken = { token: 'wp-1', credential: undefined }
  test.each([
    [
      'a bad token and no credential',
      noToken,
      'invalid-token',
      ['drops the token', endsAs('no-credential', 'because')],
    ],
    [
      'an unknown credential',
      {},
      'unauthorized',
      ['drops the credential', endsAs('unauthorized', 'because')],
    ],
    ['another version', {}, 'protocol', [endsAs('protocol', 'because')]],
  ] as const)('ends the worker with %s', async (_what, identity, code, then) => {
    const conversation = new DaemonConversation()
    Object.assign(conversation, identity)
    await conversation.start()
    await conversation.openConnection()
    conversation.transcript()
    await conversation.hostSends({ type: 'rejected', code, reason: 'because' })
    expect(conversation.transcript()).toEqual(['← rejected', 'hangs up', ...then])
    expect(conversation.clock.timers).toBe(0)
  })

  test('ends the worker whose register is refused in both forms', async () => {
    const conversation = new DaemonConversation()
    await conversation.start()
    for (const _ of ['later', 'first']) {
      await conversation.openConnection()
      await conversation.hostSends({ type: 'rejected', code: 'malformed', reason: 'because' })
    }
    expectRecorded(conversation.transcript())
    expect(conversation.clock.timers).toBe(0)
  })

  test('a worker with a join key joins, and joins again when its enrollment is gone', async () => {
    const conversation = new DaemonConversation()
    Object.assign(conversation, { credential: undefined, joinKey: 'wj-1' })
    await conversation.start()
    await conversation.register({}, { credential: 'wc-new' })
    expect(conversation.connection?.proof).toEqual({ kind: 'join', key: 'wj-1' })
    await conversation.loseConnection()
    await conversation.clock.advance(20_000)
    await conversation.openConnection()
    expect(conversation.connection?.proof).toMatchObject({ kind: 'credential', secret: 'wc-new' })
    await conversation.hostSends({ type: 'rejected', code: 'unauthorized', reason: 'because' })
    expect([conversation.credential, conversation.ends]).toEqual([undefined, []])
    await conversation.clock.advance(20_000)
    await conversation.openConnection()
    expect(conversation.connection?.proof).toEqual({ kind: 'join', key: 'wj-1' })
    await conversation.hostSends({ type: 'rejected', code: 'invalid-token', reason: 'because' })
    expect(conversation.ends).toMatchObject([
      { is: 'no-credential', detail: expect.stringContaining('join key') },
    ])
  })

  test('a host of another installation does not make the worker delete its credential', async () => {
    const conversation = new DaemonConversation()
    await conversation.start()
    await conversation.register({}, { installation: 'in-1' })
    expect(conversation.credential).toMatchObject({ installation: 'in-1' })
    await conversation.loseConnection()
    const warning = expect.stringMatching(/^error: .*in-1/)
    for (const [named, ...warnings] of [
      [{ installation: 'in-2' }, warning],
      [{ installation: 'in-2' }],
      [{}, warning],
    ] as const) {
      await conversation.clock.advance(20_000)
      await conversation.openConnection()
      conversation.transcript()
      await conversation.hostSends({ type: 'rejected', code: 'unauthorized', reason: 'because', ...named })
      expect(conversation.transcript()).toEqual(['← rejected', 'hangs up', ...warnings])
    }
    await conversation.clock.advance(20_000)
    await conversation.register({}, { installation: 'in-3' })
    expect(conversation.credential).toMatchObject({ installation: 'in-3' })
    await conversation.loseConnection()
    await conversation.clock.advance(20_000)
    await conversation.openConnection()
    const own = { type: 'rejected', code: 'unauthorized', reason: 'because', installation: 'in-3' } as const
    await conversation.hostSends(own)
    expect(conversation.ends).toMatchObject([{ is: 'unauthorized' }])
    expect(conversation.credential).toBeUndefined()
  })

  test('without token and credential the worker does not connect', async () => {
    const conversation = new DaemonConversation()
    conversation.credential = undefined
    await conversation.start()
    expect(conversation.transcript()).toEqual([endsAs('no-credential', '--token-file')])
  })

  test('a register that arrived too late is tried again', async () => {
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

  test('a host that rejects a registered worker as malformed is tried every five minutes', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'rejected', code: 'malformed', reason: '/event: what is this' })
    await conversation.clock.advance(140_000)
    expect(conversation.daemon.status().trouble).toContain('what is this')
    await conversation.clock.advance(160_000)
    expectRecorded(conversation.transcript())
  })

  test('replaced by another daemon with the same credential, the worker kills its runs and ends', async () => {
    const conversation = await working()
    await conversation.hostSends({
      type: 'rejected',
      code: 'protocol',
      reason: 'another connection took over',
    })
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('possibly replaced by its own older connection, the worker reconnects', async () => {
    const conversation = await working()
    await conversation.clock.advance(46_000)
    await conversation.clock.advance(1_000)
    await conversation.register({ 'ls-1': 1 })
    await conversation.hostSends({
      type: 'rejected',
      code: 'protocol',
      reason: 'another connection took over',
    })
    await conversation.clock.advance(1_000)
    expectRecorded(conversation.transcript())
  })

  test('revoked, the worker deletes its credential and ends its runs without a report', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'revoked', reason: 'by a person' })
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
    expect(conversation.credential).toBeUndefined()
    expect(conversation.storedText()).toBe('[[[]],[],[]]')
  })
})

describe('a daemon that is killed', () => {
  test('before the agent began gives its run back', async () => {
    const conversation = await online()
    await conversation.dispatch('ls-1')
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 0 })
    expectRecorded(conversation.transcript())
  })

  test.each([
    ['working', 'running', 3],
    ['finishing', 'finalizing', 4],
  ])('while %s reports its run as interrupted', async (phase, phaseText, seq) => {
    const conversation = await online()
    await conversation.dispatch('ls-1')
    await conversation.endPreparation('ls-1')
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
    await conversation.clock.settle()
    if (phase === 'finishing') await conversation.endAgent('ls-1')
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 0 })
    const outcome = {
      sandbox: { id: 'sb-run-1' },
      status: 'failed',
      error: daemonEndedError(phaseText),
      costs: [entry],
    }
    const transcript = conversation.transcript()
    expectRecorded(transcript.slice(0, 3))
    expect(transcript.at(-1)).toBe(`→ run-complete ls-1 #${seq} ${JSON.stringify(outcome)}`)
  })

  test('does not reclaim the disk of a run before its outputs are recovered', async () => {
    const conversation = await working()
    await conversation.restart()
    expect(conversation.executor.protectedRuns).toEqual([['run-1']])
    await conversation.clock.advance(5 * 60_000)
    expect(conversation.executor.protectedRuns).toEqual([['run-1'], []])
  })

  test.each(['held', 'lost'])(
    'keeps the disk of a run whose lease is %s until its end is on disk',
    async (is) => {
      const conversation = await working()
      const recovery = new ManualPromise<void>()
      conversation.executor.pendingRecovery = recovery
      await conversation.restart()
      await conversation.register({ 'ls-1': 1 })
      conversation.disk.fill()
      recovery.resolve()
      if (is === 'lost') await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
      await conversation.clock.advance(5 * 60_000)
      expect(conversation.executor.protectedRuns.at(-1)).toEqual(['run-1'])
      conversation.disk.drain()
      await conversation.clock.advance(5 * 60_000)
      expect(conversation.executor.protectedRuns.at(-1)).toEqual([])
    },
  )

  test('is discarded when what it has spent is on disk', async () => {
    const conversation = await working()
    const recovery = new ManualPromise<void>()
    conversation.executor.pendingRecovery = recovery
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    conversation.disk.fill()
    recovery.resolve()
    await conversation.clock.advance(5 * 60_000)
    expect(conversation.transcript()).not.toContain('discard run-1')
    conversation.disk.drain()
    await conversation.clock.advance(500)
    expect(conversation.transcript()).toContain('discard run-1')
  })

  test.each([
    ['a full disk', 'preparing', { status: 'failed', begun: false }],
    ['a full disk', 'running', { status: 'failed', error: daemonEndedError('running') }],
    ['a slow recovery', 'running', { status: 'failed', error: daemonEndedError('running') }],
  ])(
    'claims its run during %s and an hour without a host, and reports it (%s)',
    async (why, phase, outcome) => {
      const conversation = await online()
      await conversation.dispatch('ls-1')
      if (phase === 'running') await conversation.endPreparation('ls-1')
      const recovery = new ManualPromise<void>()
      if (why === 'a slow recovery') conversation.executor.pendingRecovery = recovery
      else conversation.disk.fill()
      await conversation.restart()
      await conversation.register({ 'ls-1': 0 })
      await conversation.loseConnection()
      await conversation.clock.advance(3_600_000)
      await conversation.register({ 'ls-1': 0 })
      const registration = conversation.frames.findLast(({ type }) => type === 'register')
      expect(registration).toMatchObject({ activeLeases: [{ id: 'ls-1' }] })
      recovery.resolve()
      conversation.disk.drain()
      await conversation.clock.settle()
      expect(conversation.frames.at(-1)).toMatchObject({ type: 'run-complete', outcome })
    },
  )

  test('retains its sandbox for the hours of its job', async () => {
    const conversation = await online()
    await conversation.dispatch('ls-1', 'run-1', jobOf('run-1', { retentionHours: 7 }))
    await conversation.endPreparation('ls-1')
    await conversation.restart()
    expect(conversation.executor.recoveredHours).toEqual([7])
  })

  test('retains no sandbox of a worker that takes one run: nobody finds it there again', async () => {
    const conversation = await online({ once: true, concurrency: 1 })
    await conversation.dispatch('ls-1', 'run-1', jobOf('run-1', { retentionHours: 7 }))
    await conversation.endPreparation('ls-1')
    await conversation.restart()
    expect(conversation.executor.recoveredHours).toEqual([0])
  })

  test('reports the costs that its records contain', async () => {
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
    expect(transcript.at(-3)).toMatch(/^→ run-usage-snapshot ls-1/)
    expect(transcript.at(-2)).toBe('→ run-event #3')
    expect(conversation.frames.at(-2)).toMatchObject({ event: { type: 'cost', entry } })
    expect(transcript.at(-1)).toContain(`"costs":[${JSON.stringify(entry)}]`)
  })

  test('with an opened pull request reports the run as completed', async () => {
    const conversation = await working()
    conversation.executor
      .execution('ls-1')
      .reportProgress({ branch: 'b', prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    await conversation.clock.settle()
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 2 })
    expectRecorded(conversation.transcript())
  })

  test('during a cancel reports the run as cancelled', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.hostSends({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('after a run was finished sends the same completion', async () => {
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

  test('with everything acknowledged continues its frame numbers', async () => {
    const conversation = await working()
    await conversation.acknowledge({ 'ls-1': 1 })
    conversation.transcript()
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })
})

describe('an execution that loses its lease', () => {
  const bill = {
    label: 'run',
    provider: 'agentA',
    inputTokens: 1,
    outputTokens: 2,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    estimated: true,
  }
  const snapshot = { projectKey: 'project', sessionId: 'session-1', entries: [] }
  const spend = async (conversation: DaemonConversation) => {
    const { reporter } = conversation.executor.execution('ls-1')
    reporter.report({ is: 'usage', snapshot })
    reporter.report({ is: 'patch', patch: { costs: [bill] } })
    await conversation.clock.settle()
  }

  test('reports its usage and its costs on each connection until the host has them', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'expired' })
    await conversation.endAgent('ls-1', { verdict: 'stopped' })
    await spend(conversation)
    await conversation.endFinish('ls-1', { status: 'failed', costs: [bill] })
    await conversation.loseConnection()
    await conversation.clock.advance(1_000)
    await conversation.register()
    await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 1 })
    await conversation.restart()
    await conversation.register()
    await conversation.hostSends({ type: 'lease-costs-ack', leaseId: 'ls-1' })
    await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 1 })
    expectRecorded(conversation.transcript())
    expect(conversation.storedText()).toBe('[[[]],[],[]]')
  })

  test('after its end reports the usage and the costs that the host has not acknowledged', async () => {
    const conversation = await working()
    await conversation.endAgent('ls-1')
    await spend(conversation)
    await conversation.endFinish('ls-1', { status: 'completed', costs: [bill] })
    await conversation.restart()
    await conversation.register()
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'expired' })
    expectRecorded(conversation.transcript())
  })

  test('is known as lost when the daemon is killed during its end', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'expired' })
    await conversation.restart()
    expect(conversation.executor.recovered).toMatchObject([{ leaseId: 'ls-1', isLeaseLost: true }])
  })

  test('that has spent nothing reports nothing', async () => {
    const conversation = await working()
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'expired' })
    await conversation.clock.advance(15_000)
    expect(conversation.frames.some(({ type }) => type === 'lease-costs')).toBe(false)
  })
})

describe('a dispatch', () => {
  test('is rejected with its class', async () => {
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

  test('is answered in time even by a slow executor', async () => {
    const conversation = await online()
    conversation.executor.refusalOf = () => new Promise(() => {})
    await conversation.dispatch('ls-1')
    await conversation.clock.advance(5_000)
    expectRecorded(conversation.transcript())
  })

  test('whose connection is lost before the answer is dropped', async () => {
    const conversation = await online()
    let answer: (objection: undefined) => void = () => {}
    conversation.executor.refusalOf = () => new Promise((resolve) => (answer = resolve))
    await conversation.dispatch('ls-1')
    await conversation.loseConnection()
    await conversation.clock.advance(1_000)
    await conversation.register()
    answer(undefined)
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('two at once do not share a slot', async () => {
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
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })
})

describe('the end', () => {
  test('a drain lets runs continue to their end, and accepts none', async () => {
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
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
    expect(conversation.clock.timers).toBe(0)
  })

  test('a worker that takes one run ends when it is acknowledged, and accepts no other', async () => {
    const conversation = await working({ once: true, concurrency: 1 })
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    await conversation.dispatch('ls-2')
    expect(conversation.daemon.status().state).toBe('draining')
    await conversation.hostSends({ type: 'run-complete-ack', leaseId: 'ls-1' })
    expectRecorded(conversation.transcript())
    expect(conversation.ends).toEqual([{ is: 'stopped', detail: 'its only run is over' }])
    const capabilities = conversation.frames.flatMap((frame) =>
      'capabilities' in frame ? [frame.capabilities] : [],
    )
    expect(capabilities[0]).toMatchObject({ once: true, maxConcurrency: 1 })
    expect(capabilities[0]).not.toHaveProperty('ending')
    expect(capabilities[1]).toMatchObject({ once: true, ending: true })
  })

  test('a worker that takes one run waits an hour for its acknowledgement, and reports after its next start', async () => {
    const conversation = await working({ once: true, concurrency: 1 })
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    await conversation.loseConnection()
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(59 * 60_000)
    expect(conversation.ends).toEqual([])
    await conversation.clock.advance(60_000)
    expect(conversation.ends.map(({ is }) => is)).toEqual(['unreported'])
    expect(conversation.storedText()).toContain('run-complete')
  })

  test('a worker that takes one run takes another one than that which it refused', async () => {
    const conversation = await online({ once: true, concurrency: 1 })
    conversation.executor.refusal = 'disk: full'
    await conversation.dispatch('ls-1')
    conversation.executor.refusal = undefined
    expect(conversation.daemon.status().state).toBe('serving')
    await conversation.dispatch('ls-2')
    expect(conversation.daemon.status().state).toBe('draining')
  })

  test('an idle worker ends after its time, and never between a run’s acceptance and its acknowledgement', async () => {
    const conversation = await online({ idleMsMax: 10_000 })
    await conversation.clock.advance(9_000)
    await conversation.dispatch('ls-1')
    await conversation.clock.advance(15_000)
    await conversation.endPreparation('ls-1')
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    await conversation.clock.advance(15_000)
    expect(conversation.ends).toEqual([])
    await conversation.hostSends({ type: 'run-complete-ack', leaseId: 'ls-1' })
    await conversation.clock.advance(9_999)
    expect(conversation.ends).toEqual([])
    await conversation.clock.advance(1)
    expect(conversation.ends).toEqual([{ is: 'stopped', detail: 'there was nothing to do' }])
    expect(conversation.clock.timers).toBe(0)
  })

  test('a worker that ends waits for the answer to its last heartbeat, and refuses what was on its way to it', async () => {
    const conversation = await online({ idleMsMax: 10_000 })
    conversation.answersLastHeartbeat = false
    await conversation.clock.advance(10_000)
    expect(conversation.ends).toEqual([])
    await conversation.dispatch('ls-1')
    expect(conversation.frames.at(-1)).toMatchObject({ type: 'dispatch-rejected', leaseId: 'ls-1' })
    const beat = conversation.frames.findLast(({ type }) => type === 'heartbeat')
    const echo = beat?.type === 'heartbeat' ? beat.sentAt : 0
    expect(beat).toMatchObject({ leases: [], capabilities: { ending: true } })
    await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo })
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
  })

  test('a worker that ends refuses a dispatch that it is still looking at', async () => {
    const conversation = await online({ idleMsMax: 10_000 })
    await conversation.clock.advance(9_999)
    conversation.executor.refusalOf = () => new Promise(() => {})
    await conversation.dispatch('ls-1')
    await conversation.clock.advance(1)
    expect(conversation.frames).toContainEqual(
      expect.objectContaining({ type: 'dispatch-rejected', leaseId: 'ls-1' }),
    )
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
  })

  test('a worker that ends does not wait for long for a silent host', async () => {
    const conversation = await online({ idleMsMax: 10_000 })
    conversation.answersLastHeartbeat = false
    await conversation.clock.advance(10_000 + 2_999)
    expect(conversation.ends).toEqual([])
    await conversation.clock.advance(1)
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
  })

  test('a worker that never reaches its host is idle, too', async () => {
    const conversation = new DaemonConversation({ idleMsMax: 60_000 })
    await conversation.start()
    conversation.hiddenFrames = ['dial']
    await conversation.clock.advance(60_000)
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
  })

  test('a drain gives a run back whose agent has not begun', async () => {
    const conversation = await online()
    await conversation.dispatch('ls-1')
    conversation.transcript()
    conversation.daemon.drain()
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
    await conversation.acknowledge({ 'ls-1': 1 })
    await conversation.hostSends({ type: 'run-complete-ack', leaseId: 'ls-1' })
    expectRecorded(conversation.transcript())
  })

  test('a drain that takes too long hands back its runs: the host queues them again', async () => {
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

  test('a run that is handed back is claimed until its processes are gone, even if the daemon ends before', async () => {
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

  test('a run with a pull request is not handed back but reported, so that no worker repeats it', async () => {
    const conversation = await working({ drainMsMax: 60_000 })
    await conversation.endAgent('ls-1')
    const prUrl = 'https://code.example/o/web/pull/1'
    conversation.executor.execution('ls-1').reportProgress({ branch: 'b', prUrl, prState: 'open' })
    await conversation.acknowledge({ 'ls-1': 1 })
    conversation.daemon.handBack()
    await conversation.clock.advance(LAST_PUBLISH_MS_MAX)
    expect(conversation.frames.find(({ type }) => type === 'run-complete')).toMatchObject({
      outcome: { status: 'completed', prUrl },
    })
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
    expect(conversation.storedText()).toContain('run-complete')
  })

  test('a run whose agent has ended is published and reported while everything else is handed back', async () => {
    const conversation = await working()
    await conversation.dispatch('ls-2', 'run-2')
    await conversation.endPreparation('ls-2')
    await conversation.endAgent('ls-1')
    conversation.transcript()
    conversation.daemon.handBack()
    await conversation.clock.advance(LAST_PUBLISH_MS_MAX - 1)
    expect(conversation.ends).toEqual([])
    await conversation.endFinish('ls-1')
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('finished work that is not published in the last seconds is reported as such, and not handed back', async () => {
    const conversation = await working()
    await conversation.endAgent('ls-1')
    conversation.transcript()
    conversation.daemon.handBack()
    await conversation.clock.advance(LAST_PUBLISH_MS_MAX - 1)
    expect(conversation.transcript()).toEqual([])
    await conversation.clock.advance(1)
    expectRecorded(conversation.transcript())
  })

  test('a drain does not wait for ever for an absent host', async () => {
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

  test('an immediate stop kills the runs and stores their progress', async () => {
    const conversation = await working()
    await conversation.loseConnection()
    conversation.daemon.stopNow()
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
    await conversation.restart()
    await conversation.register({ 'ls-1': 1 })
    expectRecorded(conversation.transcript())
  })

  test('a sandbox stays when its execution outlives the daemon: what it has spent is read there again', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    conversation.daemon.stopNow()
    await conversation.clock.advance(10_000)
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
    await conversation.endAgent('ls-1', { verdict: 'stopped' })
    await conversation.endFinish('ls-1')
    expect(conversation.transcript()).not.toContain('discard run-1')
    await conversation.restart()
    await conversation.register()
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    expect(conversation.transcript().filter((line) => line.endsWith(' run-1'))).toEqual([
      'recover run-1',
      'discard run-1',
    ])
  })

  test('a search for room on the disk that outlives the daemon leaves every sandbox', async () => {
    const conversation = await online()
    let isProtected: (runId: string) => boolean = () => false
    conversation.executor.reclaim = async (protects) => {
      isProtected = protects
      return []
    }
    await conversation.clock.advance(5 * 60_000)
    expect(isProtected('run-1')).toBe(false)
    conversation.daemon.stopNow()
    await conversation.clock.settle()
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
    expect(isProtected('run-1')).toBe(true)
  })

  test('a worker that takes one run discards what is left of a lost execution before it ends', async () => {
    const conversation = await working({ once: true, concurrency: 1 })
    conversation.executor.execution('ls-1').leavesNothing = true
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    const transcript = conversation.transcript()
    expect(transcript).toContain('discard run-1')
    expect(transcript.at(-1)).toBe('ends: stopped (its only run is over)')
  })

  test('an immediate stop does not wait for ever for processes that cannot be killed', async () => {
    const conversation = await working()
    conversation.executor.execution('ls-1').endsWhenStopped = false
    conversation.daemon.stopNow()
    await conversation.clock.advance(10_000)
    expectRecorded(conversation.transcript())
  })

  test('a worker that did not wait for its disk says nothing more once the disk has what it ends with', async () => {
    const conversation = await working()
    conversation.disk.fill()
    conversation.daemon.stopNow()
    await conversation.clock.advance(20_000)
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
    const sent = conversation.frames.length
    conversation.disk.drain()
    await conversation.clock.settle()
    expect(conversation.storedText()).toContain('the worker was stopped')
    // A last heartbeat without this lease would have the host give the run to another worker.
    expect(conversation.frames.slice(sent)).toEqual([])
  })

  test('a worker that was taken over kills its runs, sends nothing more and ends as replaced', async () => {
    const conversation = await working()
    conversation.disk.breakDown('somebody else owns it', { takenOver: true })
    await conversation.clock.settle()
    await conversation.clock.advance(60_000)
    expectRecorded(conversation.transcript())
    expect(conversation.clock.timers).toBe(0)
  })

  test('a worker that finds its directory taken over sends no heartbeat and no frame', async () => {
    const conversation = await working()
    const { disk } = conversation
    disk.state = () => ({ is: 'broken', reason: 'somebody else owns it', takenOver: true })
    await conversation.printLog('ls-1', 'into the void')
    await conversation.clock.advance(40_000)
    expectRecorded(conversation.transcript())
  })

  test('a disk failure ends the daemon', async () => {
    const conversation = await working()
    conversation.disk.breakDown('an I/O error')
    await conversation.clock.settle()
    await conversation.printLog('ls-1', 'into the void')
    expectRecorded(conversation.transcript())
    expect(conversation.clock.timers).toBe(0)
  })
})

test('an executor that throws ends only its own run', async () => {
  const conversation = await online()
  conversation.executor.start = () => {
    throw new Error('no hands')
  }
  await conversation.dispatch('ls-1')
  expectRecorded(conversation.transcript())
})

test('an invalid report is not sent, and ends nothing', async () => {
  const conversation = await working()
  const { reporter } = conversation.executor.execution('ls-1')
  // Only a bug in the executor could send these reports.
  reporter.report({
    is: 'event',
    event: { type: 'log', at: 'yesterday', stream: 'stdout', text: 1n } as never,
  })
  reporter.report({ is: 'patch', patch: { prUrl: 'javascript:alert(1)' } })
  await conversation.printLog('ls-1', 'one')
  expectRecorded(conversation.transcript())
})

const sentTexts = (conversation: DaemonConversation) =>
  conversation.frames.flatMap((frame) =>
    frame.type === 'run-event' && frame.event.type === 'log' ? [frame.event.text] : [],
  )

test('a log text that is longer than an event may be is sent in several events, whole', async () => {
  const conversation = await working()
  await conversation.acknowledge({ 'ls-1': 1 })
  const text = `${'ä😀\u0001'.repeat(100_000)}\nend`
  await conversation.printLog('ls-1', text)
  const texts = sentTexts(conversation)
  expect(texts.length).toBeGreaterThan(1)
  for (const part of texts)
    expect(Buffer.byteLength(JSON.stringify(part))).toBeLessThanOrEqual(LOG_EVENT_BYTES_MAX + 2)
  expect(texts.join('') === text).toBe(true)
})

describe('a log above its budget', () => {
  async function printTooMuch(): Promise<DaemonConversation> {
    const conversation = await online()
    await conversation.dispatch('ls-1', 'run-1', jobOf('run-1', { limits: { logBytes: 64 * 1024 } }))
    await conversation.endPreparation('ls-1')
    await conversation.acknowledge({ 'ls-1': 1 })
    for (let n = 0; n < 500; n++) await conversation.printLog('ls-1', `${n} ${'x'.repeat(1_000)}`)
    return conversation
  }

  test('is cut: the head at once, the tail behind the missing bytes when the execution ends', async () => {
    const conversation = await printTooMuch()
    const head = sentTexts(conversation)
    expect(head.length).toBeLessThan(60)
    expect(head[0]).toMatch(/^0 x/)
    expect(head.at(-1)).toMatch(/^the log has reached \d+ bytes/)
    await conversation.endAgent('ls-1')
    await conversation.endFinish('ls-1')
    const tail = sentTexts(conversation).slice(head.length)
    expect(tail[0]).toMatch(/^5\d{5} bytes of the log are left out here/)
    expect(tail.at(-1)).toMatch(/^499 x/)
    expect(conversation.frames.at(-1)?.type).toBe('run-complete')
    expect(sentTexts(conversation).join('').length).toBeLessThan(64 * 1024)
  })

  test('becomes durable together with the outcome', async () => {
    const conversation = await printTooMuch()
    await conversation.endAgent('ls-1')
    await conversation.loseConnection()
    await conversation.endFinish('ls-1')
    await conversation.restart()
    await conversation.register({ 'ls-1': 3 })
    const texts = sentTexts(conversation)
    expect(texts.at(-1)).toMatch(/^499 x/)
    expect(texts.some((text) => text.includes('bytes of the log are left out here'))).toBe(true)
    expect(conversation.frames.at(-1)?.type).toBe('run-complete')
  })

  test('sends nothing more once its lease is lost', async () => {
    const conversation = await printTooMuch()
    const before = sentTexts(conversation).length
    await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'it expired' })
    await conversation.clock.settle()
    expect(sentTexts(conversation)).toHaveLength(before)
  })
})

test('a reader of a stream waits while too many bytes are not on disk', async () => {
  const conversation = await working()
  conversation.disk.fill()
  const { reporter } = conversation.executor.execution('ls-1')
  const text = 'x'.repeat(200_000)
  for (let n = 0; n < 11; n++)
    reporter.report({
      is: 'event',
      event: { type: 'log', at: '2026-03-01T08:00:00.000Z', stream: 'stdout', text },
    })
  let hasCapacity = false
  void reporter.waitForCapacity().then(() => {
    hasCapacity = true
  })
  await conversation.clock.settle()
  expect(hasCapacity).toBe(false)
  conversation.disk.drain()
  await conversation.clock.settle()
  expect(hasCapacity).toBe(true)
})

test('a wait for a host that acknowledges nothing lasts half a minute, even when others start to wait', async () => {
  const conversation = await working()
  await conversation.dispatch('ls-2')
  await conversation.endPreparation('ls-2')
  await conversation.acknowledge({ 'ls-1': 1, 'ls-2': 1 })
  conversation.hiddenFrames = ['run-event', 'heartbeat', 'lease-ack']
  const text = 'x'.repeat(200_000)
  for (const leaseId of ['ls-1', 'ls-2'])
    for (let n = 0; n < 50; n++) await conversation.printLog(leaseId, text)
  const waitForCapacityOf = (leaseId: string) =>
    conversation.executor.execution(leaseId).reporter.waitForCapacity()
  let hasCapacity = false
  void waitForCapacityOf('ls-1').then(() => {
    hasCapacity = true
  })
  for (let second = 0; second < 31; second++) {
    void waitForCapacityOf('ls-2')
    await conversation.clock.advance(1_000)
    await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 1 })
  }
  expect(hasCapacity).toBe(true)
})

test('a wait for a host that acknowledges nothing ends when the lease is lost', async () => {
  const conversation = await working()
  conversation.executor.execution('ls-1').endsWhenStopped = false
  await conversation.acknowledge({ 'ls-1': 1 })
  for (let n = 0; n < 50; n++) await conversation.printLog('ls-1', 'x'.repeat(200_000))
  let hasCapacity = false
  void conversation.executor
    .execution('ls-1')
    .reporter.waitForCapacity()
    .then(() => {
      hasCapacity = true
    })
  await conversation.clock.settle()
  expect(hasCapacity).toBe(false)
  await conversation.hostSends({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
  expect(hasCapacity).toBe(true)
})

test('a frame on a temporarily unreadable disk is sent a moment later', async () => {
  const conversation = await working()
  await conversation.acknowledge({ 'ls-1': 1 })
  conversation.hiddenFrames = ['run-event']
  for (let n = 0; n < 4; n++) await conversation.printLog('ls-1', 'x'.repeat(200_000))
  await conversation.clock.advance(1_000)
  conversation.frames.length = 0
  // A store that met a full disk is unreadable while it reopens its database.
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

test('the next daemon can read every record of the last', async () => {
  const conversation = await working()
  await conversation.dispatch('ls-2')
  await conversation.restart()
  expect(conversation.daemon.status().executions.map(({ leaseId, phase }) => [leaseId, phase])).toEqual([
    ['ls-1', 'finished'],
    ['ls-2', 'finished'],
  ])
  expect(yes(conversation.daemon.status().state)).toEqual(yes('serving'))
})
