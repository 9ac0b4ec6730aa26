/** What a worker daemon and its host say to each other, and what the worker does meanwhile. */
import { describe, expect, test } from '@jest/globals'
import type { Clock } from '../../../core/ports.ts'
import { yes } from '../../../core/result.ts'
import { StoreClosed } from '../../../store/errors.ts'
import { expectRecorded } from '../../support/recorded-expectations.ts'
import { CREDENTIAL, jobOf, SECRET, Talk } from './daemon-conversation.ts'

/** Online, and nothing of how it came there in the transcript. */
async function online(parts: ConstructorParameters<typeof Talk>[0] = {}): Promise<Talk> {
  const talk = new Talk(parts)
  await talk.start()
  await talk.welcome()
  talk.transcript()
  return talk
}

/** With a run at work. */
async function working(parts: ConstructorParameters<typeof Talk>[0] = {}): Promise<Talk> {
  const talk = await online(parts)
  await talk.dispatch('ls-1')
  await talk.prepared('ls-1')
  talk.transcript()
  return talk
}

describe('a run', () => {
  test('from its dispatch to the host having all of it', async () => {
    const talk = new Talk()
    await talk.start()
    await talk.welcome()
    await talk.dispatch('ls-1')
    await talk.prepared('ls-1', { sandbox: { id: 'sb-1' } })
    await talk.print('ls-1', 'hello')
    await talk.worked('ls-1')
    await talk.finished('ls-1')
    expect(talk.spooled()).not.toContain(SECRET)
    await talk.say({ type: 'run-complete-ack', leaseId: 'ls-1' })
    expectRecorded(talk.transcript())
    expect(talk.spooled()).toBe('[[[]],[],[]]')
  })

  test('that can not be prepared is finished all the same, and told as failed', async () => {
    const talk = await online()
    await talk.dispatch('ls-1')
    talk.hands
      .of('ls-1')
      .prepared.settle({ ok: false, refusal: { kind: 'failed', message: 'no such branch' } })
    await talk.clock.turn()
    await talk.finished('ls-1', { status: 'failed', error: 'no such branch', costs: [] })
    expectRecorded(talk.transcript())
  })

  test('whose pull request is known is told at once, and only once', async () => {
    const talk = await working()
    const { progressed } = talk.hands.of('ls-1')
    progressed({ branch: 'b', pushed: 'c0ffee' })
    progressed({ prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    progressed({ prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    await talk.clock.turn()
    expect(talk.transcript()).toEqual([
      '→ run-patch #2 {"prUrl":"https://code.example/o/web/pull/1","prState":"open"}',
    ])
  })

  test('that answers what no host would take is told as failed, not for ever again', async () => {
    const talk = await working()
    await talk.worked('ls-1')
    const costs = [{ label: 'run' }] as never
    await talk.finished('ls-1', { status: 'completed', costs })
    expectRecorded(talk.transcript())
  })

  test('dispatched again under the same lease is accepted again and not begun twice', async () => {
    const talk = await working()
    await talk.dispatch('ls-1')
    expectRecorded(talk.transcript())
  })

  test('under a newer lease begins when nothing of the older one is left', async () => {
    const talk = await working()
    talk.hands.of('ls-1').obedient = false
    await talk.dispatch('ls-2', 'run-1')
    await talk.worked('ls-1', { verdict: 'stopped' })
    talk.hands.of('ls-1').finished.settle({ status: 'failed', costs: [] })
    await talk.clock.turn()
    talk.note('its processes are gone')
    talk.hands.of('ls-1').went.settle()
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })

  test('is discarded when it is told so, but never while it executes', async () => {
    const talk = await working()
    await talk.say({ type: 'discard', runId: 'run-1' })
    await talk.worked('ls-1')
    await talk.finished('ls-1')
    await talk.say({ type: 'discard', runId: 'run-1' })
    expectRecorded(talk.transcript())
  })
})

describe('a cancel', () => {
  test('interrupts, and is confirmed when everything is gone', async () => {
    const talk = await working()
    await talk.say({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    expectRecorded(talk.transcript())
  })

  test('kills an agent that does not listen, in time for the host', async () => {
    const talk = await working()
    talk.hands.of('ls-1').obedient = false
    await talk.say({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    await talk.clock.advance(9_000)
    talk.note('nine seconds later')
    talk.hands.of('ls-1').obedient = true
    await talk.clock.advance(1_000)
    expectRecorded(talk.transcript())
  })

  test('before anything began needs nobody to be killed', async () => {
    const talk = await online()
    talk.disk.fill()
    talk.disk.drain()
    await talk.dispatch('ls-1')
    await talk.say({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    expectRecorded(talk.transcript())
  })
})

describe('a lease', () => {
  test('that is lost is stopped at once, and nothing more is told of it', async () => {
    const talk = await working()
    await talk.say({ type: 'lease-lost', leaseId: 'ls-1', reason: 'this lease has ended: expired' })
    await talk.print('ls-1', 'too late')
    await talk.drop()
    await talk.clock.advance(1_000)
    await talk.welcome()
    expectRecorded(talk.transcript())
  })

  test('runs out at nine tenths of its time when the host is not heard of, and is not claimed any more', async () => {
    const talk = await working()
    await talk.drop()
    await talk.clock.advance(148_000)
    expect(talk.transcript().filter((line) => line.includes('ls-1'))).toEqual([])
    await talk.clock.advance(600)
    await talk.drop()
    await talk.clock.advance(15_000)
    await talk.open()
    expectRecorded(talk.transcript().filter((line) => line !== 'dials'))
  })

  test('that ran out is claimed while its processes are dying, so that nobody begins its run beside them', async () => {
    const talk = await working()
    talk.hands.of('ls-1').obedient = false
    await talk.drop()
    talk.quiet = ['dial']
    await talk.clock.advance(149_000)
    await talk.drop()
    await talk.clock.advance(15_000)
    await talk.welcome({ 'ls-1': 1 })
    talk.quiet = []
    talk.hands.of('ls-1').worked.settle({ verdict: 'stopped' })
    talk.hands.of('ls-1').finished.settle({ status: 'failed', costs: [] })
    await talk.clock.advance(15_000)
    await talk.say({ type: 'heartbeat-ack', state: 'active', echo: 0 })
    talk.note('its processes are gone')
    talk.hands.of('ls-1').went.settle()
    await talk.clock.advance(15_000)
    expectRecorded(talk.transcript())
  })

  test('that ran out is claimed no more once the host has ended it, or when its processes do not die', async () => {
    const talk = await working()
    await talk.dispatch('ls-2')
    await talk.prepared('ls-2')
    for (const id of ['ls-1', 'ls-2']) talk.hands.of(id).obedient = false
    await talk.drop()
    talk.quiet = ['dial']
    await talk.clock.advance(149_000)
    await talk.drop()
    await talk.clock.advance(15_000)
    talk.transcript()
    await talk.welcome()
    await talk.say({ type: 'lease-lost', leaseId: 'ls-2', reason: 'this lease has ended: expired' })
    talk.quiet = []
    for (let beats = 3; beats > 0; beats--) {
      await talk.clock.advance(15_000)
      await talk.say({ type: 'heartbeat-ack', state: 'active', echo: 0 })
    }
    expect(talk.transcript()).toEqual([
      '→ register (credential) ls-1:1 ls-2:1',
      '← registered',
      '← lease-ack',
      '← lease-lost ls-2',
      ...[' ls-1:1', ' ls-1:1', ''].flatMap((claims) => [`→ heartbeat${claims}`, '← heartbeat-ack']),
    ])
  })

  test('lives on with each word of the host, counted from the heartbeat that it echoes', async () => {
    const talk = await working()
    await talk.clock.advance(15_000)
    const beat = talk.frames.findLast(({ type }) => type === 'heartbeat')
    if (beat?.type !== 'heartbeat') throw new Error('no heartbeat')
    await talk.clock.advance(5_000)
    await talk.ack({ 'ls-1': 1 }, { echo: beat.sentAt })
    await talk.drop()
    talk.quiet = ['dial']
    await talk.clock.advance(142_000)
    talk.note('148 s after the dispatch it still runs')
    await talk.clock.advance(2_000)
    expectRecorded(talk.transcript())
  })

  test('that is finished does not run out: it is told whenever the host comes back', async () => {
    const talk = await working()
    await talk.drop()
    await talk.worked('ls-1')
    await talk.finished('ls-1')
    talk.quiet = ['dial']
    await talk.clock.advance(3_600_000)
    await talk.welcome({ 'ls-1': 1 })
    expectRecorded(talk.transcript())
  })

  test('that ends is stopped though the disk is full', async () => {
    const talk = await working()
    talk.disk.fill()
    await talk.say({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    expectRecorded(talk.transcript())
  })
})

describe('a line', () => {
  test('that breaks loses nothing: the next one goes on where the host says it is', async () => {
    const talk = await working()
    await talk.print('ls-1', 'one')
    await talk.print('ls-1', 'two')
    await talk.drop()
    await talk.print('ls-1', 'three')
    await talk.clock.advance(1_000)
    await talk.welcome({ 'ls-1': 2 })
    expectRecorded(talk.transcript())
  })

  test('on which a number is repeated hears what is behind it again, but not what left a moment ago', async () => {
    const talk = await working()
    await talk.ack({ 'ls-1': 1 })
    await talk.print('ls-1', 'one')
    await talk.ack({ 'ls-1': 1 })
    await talk.clock.advance(1_000)
    await talk.ack({ 'ls-1': 1 })
    await talk.ack({ 'ls-1': 1 })
    await talk.ack({ 'ls-1': 2 })
    expectRecorded(talk.transcript())
  })

  test('on which the host is ahead of this disk hears the completion behind what it has', async () => {
    const talk = await working()
    await talk.drop()
    await talk.worked('ls-1')
    await talk.finished('ls-1')
    talk.quiet = ['dial', 'heartbeat']
    await talk.clock.advance(1_000)
    talk.transcript()
    // The worker's disk was restored, or did not keep what it had promised.
    await talk.welcome({ 'ls-1': 20 })
    await talk.ack({ 'ls-1': 20 })
    expectRecorded(talk.transcript())
  })

  test('that is silent for 45 seconds is given up', async () => {
    const talk = await working()
    await talk.clock.advance(44_999)
    expect(talk.transcript()).toEqual([])
    await talk.clock.advance(600)
    expect(talk.transcript()).toEqual(['hangs up', 'dials'])
  })

  test('on which something comes after that long is given up all the same, before it counts', async () => {
    let stoppedMs = 0
    const clock: Clock = {
      now: () => talk.clock.now(),
      monotonic: () => talk.clock.monotonic() + stoppedMs,
      after: (ms, run) => talk.clock.after(ms, run),
      endOfTick: (run) => talk.clock.endOfTick(run),
    }
    const talk = new Talk({ clock })
    await talk.start()
    await talk.welcome()
    talk.transcript()
    // Stopped and continued, a process hears first what has come meanwhile; its timers are late.
    stoppedMs = 600_000
    await talk.dispatch('ls-1')
    expect(talk.transcript()).toEqual(['← dispatch', 'hangs up'])
  })

  test('on which the host is behind what it has acknowledged hears that this is lost', async () => {
    const talk = await working()
    await talk.print('ls-1', 'one')
    await talk.print('ls-1', 'two')
    await talk.ack({ 'ls-1': 3 })
    await talk.print('ls-1', 'three')
    await talk.drop()
    talk.quiet = ['dial', 'heartbeat']
    await talk.clock.advance(1_000)
    talk.transcript()
    // It was restored from a backup.
    await talk.welcome({ 'ls-1': 1 })
    expectRecorded(talk.transcript())
  })

  test('that never answers is given up, and dialled again after a pause that grows to 15 seconds', async () => {
    const talk = new Talk()
    await talk.start()
    await talk.open()
    const at = talk.clock.monotonic()
    const dialled: number[] = []
    for (let wire = talk.wire; dialled.length < 7; ) {
      await talk.clock.advance(100)
      if (talk.wire === wire) continue
      dialled.push(Math.round((talk.clock.monotonic() - at) / 1_000))
      wire = talk.wire
      await talk.drop('refused')
      wire = undefined
    }
    expect(dialled).toEqual([31, 32, 34, 38, 45, 53, 60])
  })

  test('takes no more than it can carry', async () => {
    const talk = await working()
    talk.backlog = 2 * 1024 * 1024
    await talk.print('ls-1', 'one')
    await talk.say({ type: 'attach-open', sessionId: 's-1', runId: 'run-1', cols: 80, rows: 24 })
    talk.backlog = 0
    await talk.clock.advance(100)
    expectRecorded(talk.transcript())
  })

  test('on which the host speaks in tongues stays up', async () => {
    const talk = await online()
    talk.wire?.ear.onText('{"type":"sing","song":"x"}')
    talk.wire?.ear.onText('not even JSON')
    talk.wire?.ear.onText('{"type":"dispatch","lease":{"id":"ls-9"},"job":{}}')
    await talk.say({ type: 'sandbox-boot', requestId: 'q-1', runId: 'run-1', credentials: {} })
    expectRecorded(talk.transcript())
  })
})

describe('being turned away', () => {
  test('a machine is enrolled with its token and keeps the credential', async () => {
    const talk = new Talk()
    talk.token = 'wp-1'
    talk.credential = undefined
    await talk.start()
    await talk.welcome({}, { credential: 'wc-new' })
    await talk.drop()
    await talk.clock.advance(1_000)
    await talk.open()
    expectRecorded(talk.transcript())
    expect(talk.credential).toEqual({ workerId: 'wk-1', secret: 'wc-new' })
  })

  test('with a bad token it tries its credential', async () => {
    const talk = new Talk()
    talk.token = 'wp-1'
    await talk.start()
    await talk.open()
    await talk.say({ type: 'rejected', code: 'expired-token', reason: 'too late' })
    await talk.clock.advance(1_000)
    await talk.welcome()
    expectRecorded(talk.transcript())
    expect(talk.credential).toEqual(CREDENTIAL)
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
    const talk = new Talk()
    Object.assign(talk, identity)
    await talk.start()
    await talk.open()
    talk.transcript()
    await talk.say({ type: 'rejected', code, reason: 'because' })
    expect(talk.transcript()).toEqual(['← rejected', 'hangs up', ...then])
    expect(talk.clock.timers).toBe(0)
  })

  test('with nothing to show it does not even dial', async () => {
    const talk = new Talk()
    talk.credential = undefined
    await talk.start()
    expect(talk.transcript()).toEqual([
      'ends: no-credential (this machine is not paired; get a token from the host (POST /api/workers/pairing-tokens) and name its file as --token-file)',
    ])
  })

  test('a register that was too long on its way is tried again', async () => {
    const talk = new Talk()
    await talk.start()
    await talk.open()
    await talk.clock.advance(10_000)
    await talk.say({ type: 'rejected', code: 'malformed', reason: 'no register within 10 seconds' })
    await talk.clock.advance(1_000)
    expectRecorded(talk.transcript())
  })

  test('once it was welcome, a host that understands it no more is tried every five minutes', async () => {
    const talk = await working()
    await talk.say({ type: 'rejected', code: 'malformed', reason: '/event: what is this' })
    await talk.clock.advance(140_000)
    expect(talk.daemon.status().trouble).toContain('what is this')
    await talk.clock.advance(160_000)
    expectRecorded(talk.transcript())
  })

  test('replaced by another with the same credential it kills what it runs and ends', async () => {
    const talk = await working()
    await talk.say({ type: 'rejected', code: 'protocol', reason: 'replaced by a newer connection' })
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })

  test('replaced by what may be a line of its own it comes back', async () => {
    const talk = await working()
    await talk.clock.advance(46_000)
    await talk.clock.advance(1_000)
    await talk.welcome({ 'ls-1': 1 })
    await talk.say({ type: 'rejected', code: 'protocol', reason: 'replaced by a newer connection' })
    await talk.clock.advance(1_000)
    expectRecorded(talk.transcript())
  })

  test('revoked it deletes the credential, lets its runs end, and tells nobody', async () => {
    const talk = await working()
    await talk.say({ type: 'revoked', reason: 'by a person' })
    await talk.clock.turn()
    expectRecorded(talk.transcript())
    expect(talk.credential).toBeUndefined()
    expect(talk.spooled()).toBe('[[[]],[],[]]')
  })
})

describe('a daemon that is killed', () => {
  test.each([
    ['preparing', 'preparing', 2],
    ['working', 'running', 3],
    ['finishing', 'finalizing', 4],
  ])('while %s tells its run as interrupted', async (phase, said, seq) => {
    const talk = await online()
    await talk.dispatch('ls-1')
    if (phase !== 'preparing') await talk.prepared('ls-1')
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
    talk.hands.of('ls-1').reporter.report({ is: 'event', event })
    await talk.clock.turn()
    if (phase === 'finishing') await talk.worked('ls-1')
    talk.transcript()
    await talk.restart()
    await talk.welcome({ 'ls-1': 0 })
    const outcome = {
      sandbox: { id: 'sb-run-1' },
      status: 'failed',
      error: `interrupted: the worker daemon ended while the run was ${said}`,
      costs: [entry],
    }
    const transcript = talk.transcript()
    expectRecorded(transcript.slice(0, 3))
    expect(transcript.at(-1)).toBe(`→ run-complete ls-1 #${seq} ${JSON.stringify(outcome)}`)
  })

  test('does not take back its disk before it is salvaged', async () => {
    const talk = await working()
    await talk.restart()
    expect(talk.hands.spared).toEqual([['run-1']])
    await talk.clock.advance(5 * 60_000)
    expect(talk.hands.spared).toEqual([['run-1'], []])
  })

  test('tells what its agent had spent by then, when its records say so', async () => {
    const talk = await working()
    const tokens = { inputTokens: 3, outputTokens: 4, cacheReadTokens: 0, cacheWriteTokens: 0 }
    const entry = { label: 'run', provider: 'agentA', model: 'm', ...tokens, estimated: true }
    const used = { id: 'u1', at: '2026-03-01T08:00:00.000Z', model: 'm', ...tokens }
    talk.hands.bill = {
      costs: [entry],
      usage: [{ projectKey: '-work', sessionId: 'session-1', entries: [used] }],
    }
    await talk.restart()
    await talk.welcome({ 'ls-1': 1 })
    const transcript = talk.transcript()
    expect(transcript.at(-2)).toMatch(/^→ run-usage-snapshot ls-1/)
    expect(transcript.at(-1)).toContain(`"costs":[${JSON.stringify(entry)}]`)
  })

  test('with the work out tells it as completed', async () => {
    const talk = await working()
    talk.hands
      .of('ls-1')
      .progressed({ branch: 'b', prUrl: 'https://code.example/o/web/pull/1', prState: 'open' })
    await talk.clock.turn()
    talk.transcript()
    await talk.restart()
    await talk.welcome({ 'ls-1': 2 })
    expectRecorded(talk.transcript())
  })

  test('while a run was being cancelled tells it as cancelled', async () => {
    const talk = await working()
    talk.hands.of('ls-1').obedient = false
    await talk.say({ type: 'cancel', leaseId: 'ls-1', reason: 'changed my mind' })
    talk.transcript()
    await talk.restart()
    await talk.welcome({ 'ls-1': 1 })
    expectRecorded(talk.transcript())
  })

  test('after a run was finished tells the very same completion', async () => {
    const talk = await working()
    await talk.worked('ls-1')
    await talk.finished('ls-1')
    talk.transcript()
    await talk.restart()
    await talk.welcome({ 'ls-1': 1 })
    await talk.restart()
    await talk.welcome({ 'ls-1': 2 })
    await talk.say({ type: 'run-complete-ack', leaseId: 'ls-1' })
    expectRecorded(talk.transcript())
    expect(talk.spooled()).toBe('[[[]],[],[]]')
  })

  test('with everything acknowledged goes on counting where it was', async () => {
    const talk = await working()
    await talk.ack({ 'ls-1': 1 })
    talk.transcript()
    await talk.restart()
    await talk.welcome({ 'ls-1': 1 })
    expectRecorded(talk.transcript())
  })
})

describe('a dispatch', () => {
  test('is refused with its class', async () => {
    const talk = await working({ concurrency: 1 })
    await talk.dispatch('ls-2')
    await talk.dispatch('ls-3', 'run-3', jobOf('run-4'))
    await talk.say({ type: 'lease-lost', leaseId: 'ls-1', reason: 'over' })
    await talk.dispatch('ls-1')
    await talk.say({ type: 'worker-state', state: 'draining' })
    await talk.dispatch('ls-5')
    await talk.say({ type: 'worker-state', state: 'active' })
    talk.hands.objects = 'sandbox: it does not start'
    await talk.dispatch('ls-6')
    talk.disk.fill('no room left')
    await talk.dispatch('ls-7')
    expectRecorded(talk.transcript())
  })

  test('is answered in time even when the hands are slow', async () => {
    const talk = await online()
    talk.hands.refusalOf = () => new Promise(() => {})
    await talk.dispatch('ls-1')
    await talk.clock.advance(5_000)
    expectRecorded(talk.transcript())
  })

  test('whose line goes while the hands look at it is forgotten', async () => {
    const talk = await online()
    let answer: (objection: undefined) => void = () => {}
    talk.hands.refusalOf = () => new Promise((resolve) => (answer = resolve))
    await talk.dispatch('ls-1')
    await talk.drop()
    await talk.clock.advance(1_000)
    await talk.welcome()
    answer(undefined)
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })

  test('two at once do not take one slot', async () => {
    const talk = await online({ concurrency: 1 })
    for (const id of ['1', '2'])
      talk.wire?.ear.onText(
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
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })
})

describe('the end', () => {
  test('a drain lets what runs go on to its end, and takes nothing new', async () => {
    const talk = await working()
    talk.daemon.drain()
    await talk.dispatch('ls-2')
    await talk.worked('ls-1')
    await talk.finished('ls-1')
    expect(talk.daemon.status().state).toBe('draining')
    await talk.say({ type: 'run-complete-ack', leaseId: 'ls-1' })
    expectRecorded(talk.transcript())
  })

  test('a drain with nothing to do ends at once', async () => {
    const talk = await online()
    talk.daemon.drain()
    await talk.clock.turn()
    expectRecorded(talk.transcript())
    expect(talk.clock.timers).toBe(0)
  })

  test('a drain that takes too long hands back what runs: the host queues it again', async () => {
    const talk = await working({ drainMsMax: 60_000 })
    talk.quiet = []
    talk.daemon.drain()
    await talk.clock.advance(14_000)
    await talk.ack({ 'ls-1': 1 })
    await talk.clock.advance(40_000)
    await talk.ack({ 'ls-1': 1 })
    talk.transcript()
    await talk.clock.advance(6_000)
    expectRecorded(talk.transcript())
    expect(talk.spooled()).toBe('[[[]],[],[]]')
  })

  test('what is handed back is claimed until it is gone, or until the daemon goes itself', async () => {
    const talk = await working()
    talk.hands.of('ls-1').obedient = false
    talk.quiet = []
    await talk.clock.advance(10_000)
    talk.daemon.handBack()
    await talk.clock.advance(6_000)
    expectRecorded(talk.transcript())
    await talk.clock.advance(14_000)
    expectRecorded(talk.transcript())
  })

  test('work that is out is not handed back: it is told as done, and nobody does it again', async () => {
    const talk = await working({ drainMsMax: 60_000 })
    await talk.worked('ls-1')
    const prUrl = 'https://code.example/o/web/pull/1'
    talk.hands.of('ls-1').progressed({ branch: 'b', prUrl, prState: 'open' })
    await talk.ack({ 'ls-1': 1 })
    talk.daemon.handBack()
    await talk.clock.turn()
    expect(talk.frames.find(({ type }) => type === 'run-complete')).toMatchObject({
      outcome: { status: 'completed', prUrl },
    })
    expect(talk.ends.map(({ is }) => is)).toEqual(['stopped'])
    expect(talk.spooled()).toContain('run-complete')
  })

  test('a drain does not wait for ever for a host that is away', async () => {
    const talk = await working()
    await talk.drop()
    talk.daemon.drain()
    await talk.worked('ls-1')
    await talk.finished('ls-1')
    talk.quiet = ['dial']
    await talk.clock.advance(30_000)
    expectRecorded(talk.transcript())
    await talk.restart()
    await talk.welcome({ 'ls-1': 1 })
    expectRecorded(talk.transcript())
  })

  test('stopped now, it kills what runs and puts on disk how far that came', async () => {
    const talk = await working()
    await talk.drop()
    talk.daemon.stopNow()
    await talk.clock.turn()
    expectRecorded(talk.transcript())
    await talk.restart()
    await talk.welcome({ 'ls-1': 1 })
    expectRecorded(talk.transcript())
  })

  test('stopped now, it does not wait for ever for what can not be killed', async () => {
    const talk = await working()
    talk.hands.of('ls-1').obedient = false
    talk.daemon.stopNow()
    await talk.clock.advance(10_000)
    expectRecorded(talk.transcript())
  })

  test('a disk that breaks ends everything', async () => {
    const talk = await working()
    talk.disk.breakDown('an I/O error')
    await talk.clock.turn()
    await talk.print('ls-1', 'into the void')
    expectRecorded(talk.transcript())
    expect(talk.clock.timers).toBe(0)
  })
})

test('hands that throw end their own run and nobody else’s', async () => {
  const talk = await online()
  talk.hands.start = () => {
    throw new Error('no hands')
  }
  await talk.dispatch('ls-1')
  expectRecorded(talk.transcript())
})

test('a report that is no report is not sent, and ends nothing', async () => {
  const talk = await working()
  const { reporter } = talk.hands.of('ls-1')
  // What only a bug in the hands could tell.
  reporter.report({
    is: 'event',
    event: { type: 'log', at: 'yesterday', stream: 'stdout', text: 1n } as never,
  })
  reporter.report({ is: 'patch', patch: { prUrl: 'javascript:alert(1)' } })
  await talk.print('ls-1', 'one')
  expectRecorded(talk.transcript())
})

test('whoever reads a stream waits while too much is not on disk yet', async () => {
  const talk = await working()
  talk.disk.fill()
  const { reporter } = talk.hands.of('ls-1')
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
  await talk.clock.turn()
  expect(hasRoom).toBe(false)
  talk.disk.drain()
  await talk.clock.turn()
  expect(hasRoom).toBe(true)
})

test('whoever waits for a host that acknowledges nothing waits half a minute, whoever else begins to wait', async () => {
  const talk = await working()
  await talk.dispatch('ls-2')
  await talk.prepared('ls-2')
  await talk.ack({ 'ls-1': 1, 'ls-2': 1 })
  talk.quiet = ['run-event', 'heartbeat', 'lease-ack']
  const text = 'x'.repeat(200_000)
  for (const leaseId of ['ls-1', 'ls-2']) for (let n = 0; n < 50; n++) await talk.print(leaseId, text)
  const roomFor = (leaseId: string) => talk.hands.of(leaseId).reporter.waitForCapacity()
  let hasRoom = false
  void roomFor('ls-1').then(() => {
    hasRoom = true
  })
  for (let second = 0; second < 31; second++) {
    void roomFor('ls-2')
    await talk.clock.advance(1_000)
    await talk.say({ type: 'heartbeat-ack', state: 'active', echo: 1 })
  }
  expect(hasRoom).toBe(true)
})

test('what lies on a disk that can not be read for a moment is sent a moment later', async () => {
  const talk = await working()
  await talk.ack({ 'ls-1': 1 })
  talk.quiet = ['run-event']
  for (let n = 0; n < 4; n++) await talk.print('ls-1', 'x'.repeat(200_000))
  await talk.clock.advance(1_000)
  talk.frames.length = 0
  // As a store that met a full disk is, while it opens its database again.
  talk.disk.fill()
  const { keyValues } = talk.disk
  const { get } = keyValues
  const closed = () => {
    throw new StoreClosed('the database is just being opened again')
  }
  Object.assign(keyValues, { get: closed })
  await talk.ack({ 'ls-1': 1 })
  await talk.clock.advance(1_000)
  expect(talk.frames).toEqual([])
  Object.assign(keyValues, { get })
  await talk.clock.advance(100)
  expect(talk.frames.map((frame) => 'seq' in frame && frame.seq)).toEqual([2, 3, 4, 5])
})

test('every record the daemon leaves behind can be read by the next', async () => {
  const talk = await working()
  await talk.dispatch('ls-2')
  await talk.restart()
  expect(talk.daemon.status().executions.map(({ leaseId, phase }) => [leaseId, phase])).toEqual([
    ['ls-1', 'finished'],
    ['ls-2', 'finished'],
  ])
  expect(yes(talk.daemon.status().state)).toEqual(yes('serving'))
})
