/** Resume, attach and release, as the worker and the person's terminal see them. */
import { describe, expect, test } from '@jest/globals'
import { SESSION_END_REASONS } from '../../actors/terminals/terminal-session.machine.ts'
import {
  ATTACH_BOOT_MS_MAX,
  ATTACH_GRACE_MS,
  ATTACH_VIEWS_PER_RUN_MAX,
} from '../../actors/terminals/terminal-sessions.ts'
import { ATTACH_TYPED_CHARS_MAX } from '../../actors/terminals/terminal-view.ts'
import { type Result, SERVICE_FAILED } from '../../core/result.ts'
import { ATTACH_DATA_CHARS_MAX } from '../../protocol/limits.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  acceptRun,
  configWith,
  enroll,
  reconnect,
  registerWithCredential,
  type ScriptedConnection,
  startHost,
  ticket,
} from './host-conversation.ts'
import {
  openTerminal,
  Person,
  print,
  reportReady,
  retainRun,
  sessionOf,
  startWithRetainedRun,
  withAgent,
} from './terminal-conversation.ts'

const GRACE_S = ATTACH_GRACE_MS / 1000
const AWAY_NOTICE = '"\\r\\n\\u001b[0;2m[the worker is away; waiting for it to come back]\\u001b[0m\\r\\n"'

/** What was typed, by frame, as the worker received it on this connection. */
const typedOn = (connection: ScriptedConnection): string[] =>
  connection.received.flatMap((frame) => (frame.type === 'attach-input' ? [frame.data] : []))

/** A paste of several frames; the first border between two of them would fall inside a surrogate pair. */
const PASTE = `x${'😀'.repeat(2 * ATTACH_DATA_CHARS_MAX)}y`

const expectWholePieces = (pieces: readonly string[]): void => {
  for (const piece of pieces) {
    expect(piece.length).toBeLessThanOrEqual(ATTACH_DATA_CHARS_MAX)
    expect(piece).not.toMatch(/^[\udc00-\udfff]|[\ud800-\udbff]$/)
  }
}

const outcomeOf = (answer: Result<unknown>): string =>
  answer.ok ? 'yes' : `${answer.refusal.kind}: ${answer.refusal.message}`

describe('resume', () => {
  test('has the sandbox booted on the worker that holds it, with the credential of the agent alone', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const asked = host.hostApi.resumeRun(runId)
    await host.settle()
    expect(connection.lastReceived('sandbox-boot').credentials).toEqual({
      agent: { kind: 'api-key', value: 'sk-agent' },
    })
    await reportReady(connection)
    const answer = await host.succeeded(asked)
    expect(answer.attach).toEqual({ kind: 'worker', workerId: worker.workerId, workerName: 'worker' })
    expect(answer.run).toEqual(host.run(runId))
    expectRecorded(host.transcript)
  })

  test('twice at once boots once, and what is booted is answered at once', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const both = [host.hostApi.resumeRun(runId), host.hostApi.resumeRun(runId)]
    await host.settle()
    await reportReady(connection)
    expect((await Promise.all(both)).map(outcomeOf)).toEqual(['yes', 'yes'])
    expect(outcomeOf(await host.settled(host.hostApi.resumeRun(runId)))).toBe('yes')
    expect(connection.countReceived('sandbox-boot')).toBe(1)
  })

  test('reports the worker’s reason why the sandbox could not be booted', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const asked = host.hostApi.resumeRun(runId)
    await host.settle()
    const { requestId } = connection.lastReceived('sandbox-boot')
    await connection.send({ type: 'sandbox-failed', requestId, message: 'no \u001b[2J room' })
    expect(outcomeOf(await asked)).toBe('conflict: no �[2J room')
    expect(host.census().booted).toBe(0)
  })

  test.each([
    ['gone: its disk was taken back', 'gone: its disk was taken back'],
    ['invalid: nobody can go on with it', 'invalid: nobody can go on with it'],
    ['failed: the disk is full', 'conflict: failed: the disk is full'],
  ])('reports lasting and temporary refusals of its worker: %s', async (message, outcome) => {
    const { host, connection, runId } = await startWithRetainedRun()
    const asked = host.hostApi.resumeRun(runId)
    const anna = await openTerminal(host, runId, 'Anna')
    await connection.send({
      type: 'sandbox-failed',
      requestId: connection.lastReceived('sandbox-boot').requestId,
      message,
    })
    expect(outcomeOf(await asked)).toBe(outcome)
    expect(anna.seen).toEqual([{ type: 'error', message: outcome.slice(outcome.indexOf(' ') + 1) }])
  })

  test('does not wait for a worker for ever', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const asked = host.hostApi.resumeRun(runId)
    await host.advanceWithHeartbeats(ATTACH_BOOT_MS_MAX / 1000, [connection])
    expect(outcomeOf(await asked)).toMatch(/^conflict: .*in time/)
    expect(connection.hasReceived('sandbox-release')).toBe(true)
  })

  test('reports that the worker disconnected meanwhile', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const asked = host.hostApi.resumeRun(runId)
    await host.settle()
    await connection.drop()
    expect(outcomeOf(await asked)).toMatch(/^conflict: .*disconnected while it booted/)
    // The worker may have booted the sandbox by now, so it is released.
    expect((await reconnect(host, worker)).hasReceived('sandbox-release')).toBe(true)
  })

  test('refuses in the specified order', async () => {
    const host = await startHost(withAgent)
    const resume = async (id: string) => outcomeOf(await host.settled(host.hostApi.resumeRun(id)))
    expect(await resume('run-1')).toBe('unknown: there is no run run-1')
    const { connection, work, runId } = await acceptRun(host)
    expect(await resume(runId)).toMatch(/^conflict: .* is preparing: wait for its end/)
    await connection.send(work.complete({ sandbox: { id: 'sb-1' } }))
    await connection.drop()
    // No session and no worker: the lasting reason comes first.
    expect(await resume(runId)).toMatch(/^invalid: .*claude/)
    await host.advance(25 * 3600)
    expect(await resume(runId)).toMatch(/^gone: /)
  })

  test('is refused for an agent that can’t go on, whatever its worker reports', async () => {
    const mapping = { remote: 'owner/name', agent: 'agentC' }
    const host = await startHost(configWith({ agent: { agentCApiKey: 'sk-c' }, repos: { main: mapping } }))
    const { runId } = await retainRun(host, {}, (work) => [work.patch({ agentSessionId: 'session-1' })])
    expect(outcomeOf(await host.settled(host.hostApi.resumeRun(runId)))).toMatch(/^invalid: .*claude/)
    expect(host.run(runId)).not.toHaveProperty('agentSessionId')
  })

  test('goes on with a session whose agent is configured no longer', async () => {
    const agent = { provider: 'agentA', agentAApiKey: 'sk-a', agentCApiKey: 'sk-c' }
    const host = await startHost(configWith({ agent }))
    const { connection, work, runId } = await acceptRun(host)
    await host.succeeded(host.hostApi.changeSettings({ agent: { provider: 'agentC' } }))
    await connection.send(work.complete({ agentSessionId: 'session-1', sandbox: { id: 'sb-1' } }))
    expect(host.run(runId)).toHaveProperty('agentSessionId', 'session-1')
  })

  test('is refused when the repository of an agent that can’t go on is configured no longer', async () => {
    const mapping = { remote: 'owner/name', agent: 'agentC' }
    const host = await startHost(configWith({ agent: { agentCApiKey: 'sk-c' }, repos: { main: mapping } }))
    const { connection, work, runId } = await acceptRun(host)
    await host.succeeded(host.hostApi.changeSettings({ repos: { main: null } }))
    await connection.send(work.complete({ agentSessionId: 'session-1', sandbox: { id: 'sb-1' } }))
    expect(host.run(runId)).not.toHaveProperty('agentSessionId')
  })

  test('is refused while its worker is disconnected, and gone once that is revoked', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    await connection.drop()
    expect(outcomeOf(await host.settled(host.hostApi.resumeRun(runId)))).toMatch(
      /^conflict: worker worker holds the sandbox/,
    )
    await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
    expect(outcomeOf(await host.settled(host.hostApi.resumeRun(runId)))).toMatch(/^gone: .*enrolled no more/)
  })

  test('is gone once the sandbox was discarded', async () => {
    const { host, runId } = await startWithRetainedRun()
    await host.succeeded(host.hostApi.discardRun(runId))
    expect(outcomeOf(await host.settled(host.hostApi.resumeRun(runId)))).toMatch(/^gone: /)
  })

  test('is possible in a failed run too', async () => {
    const host = await startHost(withAgent)
    const { connection, runId } = await retainRun(host, { status: 'failed' })
    const asked = host.hostApi.resumeRun(runId)
    await host.settle()
    await reportReady(connection)
    expect(outcomeOf(await asked)).toBe('yes')
  })
})

describe('a sandbox that is booted', () => {
  test('is released when no terminal was opened', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    void host.hostApi.resumeRun(runId)
    await host.settle()
    await reportReady(connection)
    await host.advance(GRACE_S - 1)
    expect(connection.hasReceived('sandbox-release')).toBe(false)
    await host.advance(1)
    expect(connection.hasReceived('sandbox-release')).toBe(true)
    expect(host.census()).toMatchObject({ booted: 0, terminals: 0 })
  })

  test('is not discarded, and its run is not retried', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    void host.hostApi.resumeRun(runId)
    await host.settle()
    await reportReady(connection)
    expect(outcomeOf(await host.settled(host.hostApi.discardRun(runId)))).toMatch(
      /^conflict: .*release it first/,
    )
    expect(outcomeOf(await host.settled(host.hostApi.retryRun(runId)))).toMatch(
      /^conflict: .*release it first/,
    )
    await host.succeeded(host.hostApi.releaseRun(runId))
    expect(outcomeOf(await host.settled(host.hostApi.retryRun(runId)))).toBe('yes')
  })

  test('can be shown even when its retention ended meanwhile', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await host.advanceWithHeartbeats(25 * 3600, [connection])
    const ben = await openTerminal(host, runId, 'Ben')
    expect([anna.closed, ben.closed]).toEqual([undefined, undefined])
    expect(connection.countReceived('attach-open')).toBe(2)
  })
})

describe('attach', () => {
  test('opening a terminal boots the sandbox; input and output then pass both ways', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    const session = sessionOf(connection)
    await print(connection, session, '\u001bcHello')
    await anna.type('x')
    await print(connection, session, 'x')
    await anna.resize(120, 40)
    await connection.send({ type: 'attach-exit', sessionId: session, code: 3 })
    expectRecorded(host.transcript)
    expect(host.census()).toMatchObject({ booted: 0, terminals: 0 })
  })

  test('input is sent in the same tick, without waiting for a commit', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    host.fillDisk()
    host.clearTranscript()
    void anna.type('x')
    expect(host.transcript).toEqual(['host → worker  attach-input "x"'])
  })

  test('a long paste is split into several frames, in order and without torn characters', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    for (const data of ['before,', PASTE, ',after']) await anna.type(data)
    const typed = typedOn(connection)
    expectWholePieces(typed)
    expect(typed).toHaveLength(2 + Math.ceil(PASTE.length / ATTACH_DATA_CHARS_MAX))
    expect(typed.join('') === `before,${PASTE},after`).toBe(true)
    expect(anna.closed).toBeUndefined()
  })

  test('a long paste while the sandbox boots waits for it, whole', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await anna.type('before,')
    await anna.type(PASTE)
    await reportReady(connection)
    await anna.type(',after')
    expectWholePieces(typedOn(connection))
    expect(typedOn(connection).join('') === `before,${PASTE},after`).toBe(true)
  })

  test('of pastes that do not fit into the buffer none is cut: the bell rings for each', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    const pastes = ['1', '2', '3', '4', '5'].map((name) => name + PASTE)
    for (const data of pastes) await anna.type(data)
    await reportReady(connection)
    const fitting = Math.floor(ATTACH_TYPED_CHARS_MAX / (PASTE.length + 1))
    expect(fitting).toBeGreaterThan(0)
    expect(fitting).toBeLessThan(pastes.length)
    expect(typedOn(connection).join('') === pastes.slice(0, fitting).join('')).toBe(true)
    expect(anna.screen).toBe('\u0007'.repeat(pastes.length - fitting))
  })

  test('input typed while the sandbox boots is not lost', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await anna.type('a')
    await anna.type('b')
    await reportReady(connection)
    expectRecorded(host.transcript.slice(-3))
  })

  test('a view without a size gets the default terminal size', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    new Person(host, runId, 'Anna')
    await host.settle()
    await reportReady(connection)
    expect(connection.hasReceived('attach-open')).toBe(false)
    await host.advance(1)
    expect(connection.lastReceived('attach-open')).toMatchObject({ cols: 80, rows: 24 })
  })

  test('several views share one booted sandbox; it stops when the last disconnects, after a grace', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    const ben = await openTerminal(host, runId, 'Ben', 80, 25)
    expect(connection.countReceived('sandbox-boot')).toBe(1)
    const sessions = connection.received.flatMap((frame) =>
      frame.type === 'attach-open' ? [frame.sessionId] : [],
    )
    expect(new Set(sessions).size).toBe(2)
    await anna.leave()
    await host.advanceWithHeartbeats(GRACE_S + 1, [connection])
    expect(connection.hasReceived('sandbox-release')).toBe(false)
    await ben.leave()
    // The person reloads the page.
    await host.advanceWithHeartbeats(GRACE_S - 1, [connection])
    const again = await openTerminal(host, runId, 'Ben')
    await host.advanceWithHeartbeats(GRACE_S + 1, [connection])
    expect(connection.hasReceived('sandbox-release')).toBe(false)
    await again.leave()
    await host.advanceWithHeartbeats(GRACE_S, [connection])
    expect(connection.hasReceived('sandbox-release')).toBe(true)
    expect(connection.countReceived('attach-close')).toBe(3)
    expect(connection.countReceived('sandbox-boot')).toBe(1)
  })

  test('every view shows all output before the session’s end', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    const first = sessionOf(connection)
    const ben = await openTerminal(host, runId, 'Ben')
    const second = sessionOf(connection)
    await connection.send({ type: 'attach-exit', sessionId: first, code: 0 })
    expect(outcomeOf(await host.settled(host.hostApi.resumeRun(runId)))).toMatch(/^conflict: .*just ended/)
    await print(connection, second, 'bye')
    await connection.send({ type: 'attach-exit', sessionId: second, code: 0 })
    expect(anna.seen).toEqual([{ type: 'exit', code: 0 }])
    expect(ben.seen).toEqual([
      { type: 'data', data: 'bye' },
      { type: 'exit', code: 0 },
    ])
    expect(host.census()).toMatchObject({ booted: 0, terminals: 0 })
  })

  test('the host closes a view whose worker does not report the end', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    const first = sessionOf(connection)
    const ben = await openTerminal(host, runId, 'Ben')
    await connection.send({ type: 'attach-exit', sessionId: first, code: 7 })
    await host.advance(10)
    expect(ben.seen).toEqual([{ type: 'exit', code: 7 }])
  })

  test('a view that does not read is closed, and the others continue', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const slow = await openTerminal(host, runId, 'Slow')
    slow.framesUntilFull = 1
    await reportReady(connection)
    const first = sessionOf(connection)
    const fast = await openTerminal(host, runId, 'Fast')
    const second = sessionOf(connection)
    for (const data of ['1', '2', '3']) {
      await print(connection, first, data)
      await print(connection, second, data)
    }
    expect(slow.screen).toBe('1')
    expect(fast.screen).toBe('123')
    expect(connection.countReceived('attach-close')).toBe(1)
    expect(host.census().terminals).toBe(1)
  })

  test('the refusals are those of the resume route', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    await connection.drop()
    const anna = await openTerminal(host, runId, 'Anna')
    const refused = await host.settled(host.hostApi.resumeRun(runId))
    expect(anna.seen).toEqual([{ type: 'error', message: refused.ok ? '' : refused.refusal.message }])
    expect(anna.closed?.code).toBe(1008)
    const nobody = await openTerminal(host, 'run-1', 'Ben')
    expect(nobody.seen).toEqual([{ type: 'error', message: 'there is no run run-1' }])
    expect(host.census().terminals).toBe(0)
  })

  test('the number of views of one run is limited', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    for (let at = 0; at < ATTACH_VIEWS_PER_RUN_MAX; at++) await openTerminal(host, runId, `Person ${at}`)
    await reportReady(connection)
    const more = await openTerminal(host, runId, 'Anna')
    expect(more.closed?.code).toBe(1013)
    expect(connection.countReceived('attach-open')).toBe(ATTACH_VIEWS_PER_RUN_MAX)
  })

  test('frames about another worker’s terminals are ignored', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    const thief = await enroll(host, 'thief')
    await thief.connection.send({
      type: 'sandbox-ready',
      requestId: connection.lastReceived('sandbox-boot').requestId,
    })
    expect(connection.hasReceived('attach-open')).toBe(false)
    await reportReady(connection)
    const sessionId = sessionOf(connection)
    await thief.connection.send(
      { type: 'attach-data', sessionId, data: 'rm -rf' },
      { type: 'attach-exit', sessionId, code: 0 },
      { type: 'attach-error', sessionId, message: 'no' },
    )
    expect(anna.seen).toEqual([])
    expect(anna.closed).toBeUndefined()
  })
})

describe('a lost worker connection', () => {
  test('is shown; then each view gets the screen again, and no input is lost', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await print(connection, sessionOf(connection), 'one')
    host.clearTranscript()
    await connection.drop()
    await anna.type('a')
    await anna.resize(90, 20)
    const again = await reconnect(host, worker)
    await print(again, sessionOf(again), 'one, two')
    expect(host.transcript).toEqual([
      'the connection of worker breaks',
      `Anna sees  ${AWAY_NOTICE}`,
      'worker → host  register',
      'host → worker  registered',
      'host → worker  lease-ack of nothing',
      'host → worker  attach-open ENG-1 90×20',
      'host → worker  attach-input "a"',
      'worker → host  attach-data "one, two"',
      'Anna sees  "one, two"',
    ])
  })

  test('is followed by the worker’s input count: missing input is resent before newer input', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    for (const key of ['a', 'b', 'c']) await anna.type(key)
    await connection.drop()
    await anna.type('d')
    const again = await reconnect(host, worker)
    host.clearTranscript()
    await anna.type('e')
    await anna.resize(90, 20)
    const sessionId = sessionOf(again)
    await again.send({ type: 'attach-taken', sessionId, inputs: 1 })
    await anna.type('f')
    // An unrequested count is ignored.
    await again.send({ type: 'attach-taken', sessionId, inputs: 0 })
    await anna.type('g')
    expect(again.countReceived('attach-ask')).toBe(1)
    expectRecorded(host.transcript)
  })

  test('does not count empty input frames', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    for (let times = 0; times < 5; times += 1) await anna.type('')
    await connection.drop()
    await anna.type('')
    const again = await reconnect(host, worker)
    expect([
      connection.hasReceived('attach-input'),
      again.hasReceived('attach-input'),
      again.hasReceived('attach-ask'),
    ]).toEqual([false, false, false])
  })

  test('twice, before the worker has reported its count, loses nothing either', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await anna.type('a')
    await anna.type('b')
    await connection.drop()
    const second = await reconnect(host, worker)
    await anna.type('c')
    await second.drop()
    const third = await reconnect(host, worker)
    await third.send({ type: 'attach-taken', sessionId: sessionOf(third), inputs: 1 })
    await third.drop()
    const fourth = await reconnect(host, worker)
    await fourth.send({ type: 'attach-taken', sessionId: sessionOf(fourth), inputs: 2 })
    expect([connection, second, third, fourth].map(typedOn)).toEqual([['a', 'b'], [], ['b', 'c'], ['c']])
  })

  test('during a long paste resends exactly the pieces that are missing', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await anna.type(PASTE)
    const pieces = typedOn(connection)
    await connection.drop()
    const again = await reconnect(host, worker)
    await again.send({ type: 'attach-taken', sessionId: sessionOf(again), inputs: 2 })
    expect(pieces.length).toBeGreaterThan(3)
    expect(typedOn(again).join('') === pieces.slice(2).join('')).toBe(true)
  })

  test('with a worker that does not count input delays no view and repeats no input', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await anna.type('a')
    await connection.drop()
    const again = await reconnect(host, worker)
    await anna.type('b')
    expect(again.hasReceived('attach-input')).toBe(false)
    await again.send({ type: 'attach-data', sessionId: sessionOf(again), data: 'the picture' })
    expect(again.lastReceived('attach-input').data).toBe('b')
    await again.send({ type: 'attach-taken', sessionId: sessionOf(again), inputs: 0 })
    await again.drop()
    const third = await reconnect(host, worker)
    await anna.type('c')
    expect([third.hasReceived('attach-ask'), third.lastReceived('attach-input').data]).toEqual([false, 'c'])
  })

  test('does not apply one worker’s count to another’s', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await anna.type('a')
    await connection.drop()
    const again = await reconnect(host, worker)
    const unknownWorker = await enroll(host, 'unrelated')
    host.clearTranscript()
    await unknownWorker.connection.send({ type: 'attach-taken', sessionId: sessionOf(again), inputs: 0 })
    await again.send({ type: 'attach-taken', sessionId: 'as-unknown', inputs: 0 })
    expect(again.hasReceived('attach-input')).toBe(false)
    expect([unknownWorker.connection.closed, again.closed, anna.closed]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  test('is the same when the worker reconnects before its old connection is known to be lost', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    const again = await reconnect(host, worker)
    expect(again.countReceived('attach-open')).toBe(1)
    // Output that still arrives on the old connection would appear twice.
    await print(connection, sessionOf(connection), 'late')
    await print(again, sessionOf(again), 'picture')
    expect(anna.screen).toMatch(/waiting.*\r\npicture$/)
  })

  test('that lasts too long ends the session', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await connection.drop()
    await host.advance(119)
    expect(anna.closed).toBeUndefined()
    await host.advance(2)
    expect(anna.seen.at(-1)).toEqual({ type: 'error', message: SESSION_END_REASONS.workerAway })
    // The clock may be some seconds further.
    expect((await reconnect(host, worker)).hasReceived('sandbox-release')).toBe(true)
  })

  test('lasts too long after fleet.reconnectGraceSeconds', async () => {
    const host = await startHost(configWith({ fleet: { reconnectGraceSeconds: 40 } }))
    const { connection, runId } = await retainRun(host)
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await connection.drop()
    await host.advance(39)
    expect(anna.closed).toBeUndefined()
    await host.advance(2)
    expect(anna.seen.at(-1)).toEqual({ type: 'error', message: SESSION_END_REASONS.workerAway })
  })

  test('after which the worker lost the session is reported, and the next terminal boots again', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await connection.drop()
    const again = await reconnect(host, worker)
    await again.send({ type: 'attach-error', sessionId: sessionOf(again), message: 'it is not booted' })
    expect(anna.seen.at(-1)).toEqual({ type: 'error', message: 'it is not booted' })
    expect(host.census()).toMatchObject({ booted: 0, terminals: 0 })
    await openTerminal(host, runId, 'Anna')
    expect(again.hasReceived('sandbox-boot')).toBe(true)
  })

  test('does not end a session when only one view is refused', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await print(connection, sessionOf(connection), 'picture')
    const ben = await openTerminal(host, runId, 'Ben')
    await connection.send({
      type: 'attach-error',
      sessionId: sessionOf(connection),
      message: 'too many views',
    })
    expect(ben.closed?.code).toBe(1008)
    expect(anna.closed).toBeUndefined()
  })

  test('a worker that is revoked takes its sessions with it', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
    expect(anna.seen.at(-1)).toEqual({ type: 'error', message: SESSION_END_REASONS.workerRevoked })
    expect(host.census()).toMatchObject({ booted: 0, terminals: 0 })
  })
})

test('a record that cannot be read closes one terminal and does not stop the service', async () => {
  const { host, runId } = await startWithRetainedRun()
  const { runs } = host.store.database
  const { get } = runs
  Object.assign(runs, {
    get: () => {
      throw new Error('the record is damaged')
    },
  })
  const anna = await openTerminal(host, runId, 'Anna')
  Object.assign(runs, { get })
  expect(anna.closed?.code).toBe(1011)
  expect(anna.seen).toEqual([{ type: 'error', message: SERVICE_FAILED }])
  expect(host.census().terminals).toBe(0)
})

describe('release', () => {
  test('stops the sandbox, closes its terminals, and may be repeated', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    expect(await host.succeeded(host.hostApi.releaseRun(runId))).toEqual(host.run(runId))
    expect(anna.seen).toEqual([{ type: 'error', message: SESSION_END_REASONS.released }])
    await host.succeeded(host.hostApi.releaseRun(runId))
    expect(anna.seen).toHaveLength(1)
    expect(host.run(runId).sandbox.id).toBe('sb-1')
  })

  test('needs no disk: a full disk keeps no sandbox running', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    host.fillDisk()
    await host.settled(host.hostApi.runTicket('ENG-1'))
    expect(outcomeOf(await host.settled(host.hostApi.retryRun(runId)))).toMatch(/^unavailable/)
    expect(outcomeOf(await host.settled(host.hostApi.resumeRun(runId)))).toBe('yes')
    expect(outcomeOf(await host.settled(host.hostApi.releaseRun(runId)))).toBe('yes')
    expect(connection.countReceived('sandbox-release')).toBe(1)
    expect(outcomeOf(await host.settled(host.hostApi.resumeRun(runId)))).toMatch(/^unavailable/)
  })

  test('in the same tick as a resume before and after it boots once for the latter', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const first = host.hostApi.resumeRun(runId)
    void host.hostApi.releaseRun(runId)
    const second = host.hostApi.resumeRun(runId)
    await host.settle()
    expect(connection.countReceived('sandbox-boot')).toBe(1)
    await reportReady(connection)
    expect([outcomeOf(await first), outcomeOf(await second)]).toEqual([
      `conflict: ${SESSION_END_REASONS.released}`,
      'yes',
    ])
  })

  test('ends a boot that is under way', async () => {
    const { host, connection, runId } = await startWithRetainedRun()
    const asked = host.hostApi.resumeRun(runId)
    await host.settle()
    await host.succeeded(host.hostApi.releaseRun(runId))
    expect(outcomeOf(await asked)).toBe(`conflict: ${SESSION_END_REASONS.released}`)
    expect(connection.hasReceived('sandbox-release')).toBe(true)
  })

  test('while the worker is disconnected is sent after it reconnects', async () => {
    const { host, connection, worker, runId } = await startWithRetainedRun()
    await openTerminal(host, runId, 'Anna')
    await reportReady(connection)
    await connection.drop()
    await host.succeeded(host.hostApi.releaseRun(runId))
    expect((await reconnect(host, worker)).countReceived('sandbox-release')).toBe(1)
    expect(host.census()).toMatchObject({ booted: 0, terminals: 0 })
  })

  test('reaches the worker after the host was killed, which has forgotten the session', async () => {
    const { host, worker, runId } = await startWithRetainedRun()
    await openTerminal(host, runId, 'Anna')
    await host.crash()
    const again = await reconnect(host, worker)
    expect(await host.succeeded(host.hostApi.releaseRun(runId))).toEqual(host.run(runId))
    expect(again.lastReceived('sandbox-release')).toEqual({ type: 'sandbox-release', runId })
  })

  test('reaches the worker that reconnects after a killed host and a release', async () => {
    const { host, worker, runId } = await startWithRetainedRun()
    await openTerminal(host, runId, 'Anna')
    await host.crash()
    await host.succeeded(host.hostApi.releaseRun(runId))
    expect((await reconnect(host, worker)).countReceived('sandbox-release')).toBe(1)
  })

  test('answers for every known run: unfinished, queued again, and without a sandbox', async () => {
    const host = await startHost()
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    const { id: runId } = host.runOf('ENG-1')
    expect(await host.succeeded(host.hostApi.releaseRun(runId))).toEqual(host.run(runId))
    const { connection, work } = await acceptRun(host)
    expect(await host.succeeded(host.hostApi.releaseRun(runId))).toEqual(host.run(runId))
    expect(connection.countReceived('sandbox-release')).toBe(1)
    await connection.send(work.complete({ status: 'failed', error: 'no' }))
    expect(await host.succeeded(host.hostApi.releaseRun(runId))).toEqual(host.run(runId))
    await host.succeeded(host.hostApi.retryRun(runId))
    expect(await host.succeeded(host.hostApi.releaseRun(runId))).toMatchObject({ id: runId })
    expect(outcomeOf(await host.settled(host.hostApi.releaseRun('run-1')))).toBe(
      'unknown: there is no run run-1',
    )
  })

  test('is kept for a limited number of runs of a disconnected worker', async () => {
    const { host, worker, connection, runId } = await startWithRetainedRun()
    await connection.drop()
    for (let n = 0; n < 3; n++) await host.succeeded(host.hostApi.releaseRun(runId))
    expect((await reconnect(host, worker)).countReceived('sandbox-release')).toBe(1)
  })
})

test('a stopping host closes every terminal with a reason and leaves the session to the worker', async () => {
  const { host, connection, worker, runId } = await startWithRetainedRun()
  const anna = await openTerminal(host, runId, 'Anna')
  await reportReady(connection)
  await host.restart()
  expect(anna.closed).toEqual({ code: 1001, reason: 'the service is stopping' })
  expect(connection.hasReceived('sandbox-release')).toBe(false)
  const again = host.connect('worker')
  await again.send(registerWithCredential(worker))
  expect(again.hasReceived('sandbox-release')).toBe(false)
  // The new host knows of no booted sandbox; the worker answers the boot order at once.
  await openTerminal(host, runId, 'Anna')
  await reportReady(again)
  expect(again.hasReceived('attach-open')).toBe(true)
})
