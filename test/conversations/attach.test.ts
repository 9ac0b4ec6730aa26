/** A person steps in: resume, attach and release, as the worker and the person's terminal hear them. */
import { describe, expect, test } from '@jest/globals'
import type { Result } from '../../core/result.ts'
import { ATTACH_BOOT_MS_MAX, ATTACH_GRACE_MS, ATTACH_VIEWS_PER_RUN_MAX } from '../../protocol/limits.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { back, busy, enroll, rejoin, type Wire, yarn } from './host-conversation.ts'
import {
  aRetainedRun,
  Person,
  print,
  ready,
  retained,
  sessionOf,
  sits,
  withAgent,
} from './terminal-conversation.ts'

const GRACE_S = ATTACH_GRACE_MS / 1000
const AWAY = '"\\r\\n\\u001b[0;2m[the worker is away; waiting for it to come back]\\u001b[0m\\r\\n"'

const verdict = (answer: Result<unknown>): string =>
  answer.ok ? 'yes' : `${answer.refusal.kind}: ${answer.refusal.message}`

describe('resume', () => {
  test('has the sandbox booted on the worker that holds it, with the credential of the agent alone', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const asked = y.desk.resumeRun(runId)
    await y.settle()
    expect(wire.last('sandbox-boot').credentials).toEqual({ agent: { kind: 'api-key', value: 'sk-agent' } })
    await ready(wire)
    const answer = await y.done(asked)
    expect(answer.attach).toEqual({ kind: 'worker', workerId: worker.workerId, workerName: 'worker' })
    expect(answer.run).toEqual(y.run(runId))
    expectRecorded(y.said)
  })

  test('twice at once boots once, and what is booted is answered at once', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const both = [y.desk.resumeRun(runId), y.desk.resumeRun(runId)]
    await y.settle()
    await ready(wire)
    expect((await Promise.all(both)).map(verdict)).toEqual(['yes', 'yes'])
    expect(verdict(await y.ask(y.desk.resumeRun(runId)))).toBe('yes')
    expect(wire.count('sandbox-boot')).toBe(1)
  })

  test('says in the worker’s words why the sandbox could not be booted', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const asked = y.desk.resumeRun(runId)
    await y.settle()
    const { requestId } = wire.last('sandbox-boot')
    await wire.say({ type: 'sandbox-failed', requestId, message: 'no \u001b[2J room' })
    expect(verdict(await asked)).toBe('conflict: no �[2J room')
    expect(y.census().booted).toBe(0)
  })

  test.each([
    ['gone: its disk was taken back', 'gone: its disk was taken back'],
    ['invalid: nobody can go on with it', 'invalid: nobody can go on with it'],
    ['failed: the disk is full', 'conflict: failed: the disk is full'],
  ])('is told by its worker what lasts and what may pass: %s', async (message, heard) => {
    const { y, wire, runId } = await aRetainedRun()
    const asked = y.desk.resumeRun(runId)
    const anna = await sits(y, runId, 'Anna')
    await wire.say({ type: 'sandbox-failed', requestId: wire.last('sandbox-boot').requestId, message })
    expect(verdict(await asked)).toBe(heard)
    expect(anna.seen).toEqual([{ type: 'error', message: heard.slice(heard.indexOf(' ') + 1) }])
  })

  test('does not wait for a worker for ever', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const asked = y.desk.resumeRun(runId)
    await y.beating(ATTACH_BOOT_MS_MAX / 1000, [wire])
    expect(verdict(await asked)).toMatch(/^conflict: .*in time/)
    expect(wire.has('sandbox-release')).toBe(true)
  })

  test('says so when the worker is lost meanwhile', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const asked = y.desk.resumeRun(runId)
    await y.settle()
    await wire.drop()
    expect(verdict(await asked)).toMatch(/^conflict: .*lost while it booted/)
    // Should it be booted there by now, nobody waits for it.
    expect((await back(y, worker)).has('sandbox-release')).toBe(true)
  })

  test('asks in the decided order', async () => {
    const y = await yarn(withAgent)
    const resume = async (id: string) => verdict(await y.ask(y.desk.resumeRun(id)))
    expect(await resume('run-1')).toBe('unknown: there is no run run-1')
    const { wire, work, runId } = await busy(y)
    expect(await resume(runId)).toMatch(/^conflict: .* is preparing: wait for its end/)
    await wire.say(work.complete({ sandbox: { id: 'sb-1' } }))
    await wire.drop()
    // No session and no worker: what lasts is said first.
    expect(await resume(runId)).toMatch(/^invalid: .*agentA/)
    await y.pass(25 * 3600)
    expect(await resume(runId)).toMatch(/^gone: /)
  })

  test('is refused while its worker is disconnected, and gone once that is revoked', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    await wire.drop()
    expect(verdict(await y.ask(y.desk.resumeRun(runId)))).toMatch(
      /^conflict: worker worker holds the sandbox/,
    )
    await y.done(y.desk.revokeWorker(worker.workerId))
    expect(verdict(await y.ask(y.desk.resumeRun(runId)))).toMatch(/^gone: .*enrolled no more/)
  })

  test('is gone once the sandbox was discarded', async () => {
    const { y, runId } = await aRetainedRun()
    await y.done(y.desk.discardRun(runId))
    expect(verdict(await y.ask(y.desk.resumeRun(runId)))).toMatch(/^gone: /)
  })

  test('is possible in a failed run too', async () => {
    const y = await yarn(withAgent)
    const { wire, runId } = await retained(y, { status: 'failed' })
    const asked = y.desk.resumeRun(runId)
    await y.settle()
    await ready(wire)
    expect(verdict(await asked)).toBe('yes')
  })
})

describe('a sandbox that is booted', () => {
  test('is released when nobody has come to look at it', async () => {
    const { y, wire, runId } = await aRetainedRun()
    void y.desk.resumeRun(runId)
    await y.settle()
    await ready(wire)
    await y.pass(GRACE_S - 1)
    expect(wire.has('sandbox-release')).toBe(false)
    await y.pass(1)
    expect(wire.has('sandbox-release')).toBe(true)
    expect(y.census()).toMatchObject({ booted: 0, terminals: 0 })
  })

  test('is not discarded, and its run not tried again', async () => {
    const { y, wire, runId } = await aRetainedRun()
    void y.desk.resumeRun(runId)
    await y.settle()
    await ready(wire)
    expect(verdict(await y.ask(y.desk.discardRun(runId)))).toMatch(/^conflict: .*release it first/)
    expect(verdict(await y.ask(y.desk.retryRun(runId)))).toMatch(/^conflict: .*release it first/)
    await y.done(y.desk.releaseRun(runId))
    expect(verdict(await y.ask(y.desk.retryRun(runId)))).toBe('yes')
  })

  test('can be looked at even when its time was over meanwhile', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await y.beating(25 * 3600, [wire])
    const ben = await sits(y, runId, 'Ben')
    expect([anna.closed, ben.closed]).toEqual([undefined, undefined])
    expect(wire.count('attach-open')).toBe(2)
  })
})

describe('attach', () => {
  test('a terminal resumes by itself, and everything goes back and forth', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    const session = sessionOf(wire)
    await print(wire, session, '\u001bcHello')
    await anna.type('x')
    await print(wire, session, 'x')
    await anna.resize(120, 40)
    await wire.say({ type: 'attach-exit', sessionId: session, code: 3 })
    expectRecorded(y.said)
    expect(y.census()).toMatchObject({ booted: 0, terminals: 0 })
  })

  test('what is typed goes out in the same breath, without waiting for a disk', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    y.fill()
    y.fresh()
    void anna.type('x')
    expect(y.said).toEqual(['host → worker  attach-input "x"'])
  })

  test('what is typed while the sandbox is being booted is not lost', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await anna.type('a')
    await anna.type('b')
    await ready(wire)
    expectRecorded(y.said.slice(-3))
  })

  test('a view that does not say how large it is counts as an ordinary terminal', async () => {
    const { y, wire, runId } = await aRetainedRun()
    new Person(y, runId, 'Anna')
    await y.settle()
    await ready(wire)
    expect(wire.has('attach-open')).toBe(false)
    await y.pass(1)
    expect(wire.last('attach-open')).toMatchObject({ cols: 80, rows: 24 })
  })

  test('several views share one booted sandbox; it stops when the last disconnects, after a grace', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    const ben = await sits(y, runId, 'Ben', 80, 25)
    expect(wire.count('sandbox-boot')).toBe(1)
    const sessions = wire.heard.flatMap((frame) => (frame.type === 'attach-open' ? [frame.sessionId] : []))
    expect(new Set(sessions).size).toBe(2)
    await anna.leave()
    await y.beating(GRACE_S + 1, [wire])
    expect(wire.has('sandbox-release')).toBe(false)
    await ben.leave()
    // A page that is loaded again.
    await y.beating(GRACE_S - 1, [wire])
    const again = await sits(y, runId, 'Ben')
    await y.beating(GRACE_S + 1, [wire])
    expect(wire.has('sandbox-release')).toBe(false)
    await again.leave()
    await y.beating(GRACE_S, [wire])
    expect(wire.has('sandbox-release')).toBe(true)
    expect(wire.count('attach-close')).toBe(3)
    expect(wire.count('sandbox-boot')).toBe(1)
  })

  test('everybody sees to the end what was printed before it', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    const first = sessionOf(wire)
    const ben = await sits(y, runId, 'Ben')
    const second = sessionOf(wire)
    await wire.say({ type: 'attach-exit', sessionId: first, code: 0 })
    expect(verdict(await y.ask(y.desk.resumeRun(runId)))).toMatch(/^conflict: .*just ended/)
    await print(wire, second, 'bye')
    await wire.say({ type: 'attach-exit', sessionId: second, code: 0 })
    expect(anna.seen).toEqual([{ type: 'exit', code: 0 }])
    expect(ben.seen).toEqual([
      { type: 'data', data: 'bye' },
      { type: 'exit', code: 0 },
    ])
    expect(y.census()).toMatchObject({ booted: 0, terminals: 0 })
  })

  test('a view that its worker does not tell of the end is told by the host', async () => {
    const { y, wire, runId } = await aRetainedRun()
    await sits(y, runId, 'Anna')
    await ready(wire)
    const first = sessionOf(wire)
    const ben = await sits(y, runId, 'Ben')
    await wire.say({ type: 'attach-exit', sessionId: first, code: 7 })
    await y.pass(10)
    expect(ben.seen).toEqual([{ type: 'exit', code: 7 }])
  })

  test('a view that does not read is cut off, and the others go on', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const slow = await sits(y, runId, 'Slow')
    slow.takes = 1
    await ready(wire)
    const first = sessionOf(wire)
    const fast = await sits(y, runId, 'Fast')
    const second = sessionOf(wire)
    for (const data of ['1', '2', '3']) {
      await print(wire, first, data)
      await print(wire, second, data)
    }
    expect(slow.screen).toBe('1')
    expect(fast.screen).toBe('123')
    expect(wire.count('attach-close')).toBe(1)
    expect(y.census().terminals).toBe(1)
  })

  test('the refusals are those of the resume route', async () => {
    const { y, wire, runId } = await aRetainedRun()
    await wire.drop()
    const anna = await sits(y, runId, 'Anna')
    const refused = await y.ask(y.desk.resumeRun(runId))
    expect(anna.seen).toEqual([{ type: 'error', message: refused.ok ? '' : refused.refusal.message }])
    expect(anna.closed?.code).toBe(1008)
    const nobody = await sits(y, 'run-1', 'Ben')
    expect(nobody.seen).toEqual([{ type: 'error', message: 'there is no run run-1' }])
    expect(y.census().terminals).toBe(0)
  })

  test('so many at most look at one run', async () => {
    const { y, wire, runId } = await aRetainedRun()
    for (let at = 0; at < ATTACH_VIEWS_PER_RUN_MAX; at++) await sits(y, runId, `Person ${at}`)
    await ready(wire)
    const more = await sits(y, runId, 'Anna')
    expect(more.closed?.code).toBe(1013)
    expect(wire.count('attach-open')).toBe(ATTACH_VIEWS_PER_RUN_MAX)
  })

  test('what a worker says of another worker’s terminals is not heard', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    const thief = await enroll(y, 'thief')
    await thief.wire.say({ type: 'sandbox-ready', requestId: wire.last('sandbox-boot').requestId })
    expect(wire.has('attach-open')).toBe(false)
    await ready(wire)
    const sessionId = sessionOf(wire)
    await thief.wire.say(
      { type: 'attach-data', sessionId, data: 'rm -rf' },
      { type: 'attach-exit', sessionId, code: 0 },
      { type: 'attach-error', sessionId, message: 'no' },
    )
    expect(anna.seen).toEqual([])
    expect(anna.closed).toBeUndefined()
  })
})

describe('a break of the worker’s line', () => {
  test('is told; then each view gets the picture anew, and nothing that was typed is lost', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await print(wire, sessionOf(wire), 'one')
    y.fresh()
    await wire.drop()
    await anna.type('a')
    await anna.resize(90, 20)
    const again = await back(y, worker)
    await print(again, sessionOf(again), 'one, two')
    expect(y.said).toEqual([
      'the wire of worker breaks',
      `Anna sees  ${AWAY}`,
      'worker → host  register',
      'host → worker  registered',
      'host → worker  lease-ack of nothing',
      'host → worker  attach-open ENG-1 90×20',
      'host → worker  attach-input "a"',
      'worker → host  attach-data "one, two"',
      'Anna sees  "one, two"',
    ])
  })

  test('is followed by the worker’s count: what it never had is said again, before all that was typed meanwhile', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    for (const key of ['a', 'b', 'c']) await anna.type(key)
    await wire.drop()
    await anna.type('d')
    const again = await back(y, worker)
    y.fresh()
    await anna.type('e')
    await anna.resize(90, 20)
    const sessionId = sessionOf(again)
    await again.say({ type: 'attach-taken', sessionId, inputs: 1 })
    await anna.type('f')
    // Nobody has asked for it.
    await again.say({ type: 'attach-taken', sessionId, inputs: 0 })
    await anna.type('g')
    expect(again.count('attach-ask')).toBe(1)
    expectRecorded(y.said)
  })

  test('has nothing to do with frames in which nothing was typed', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    for (let times = 0; times < 5; times += 1) await anna.type('')
    await wire.drop()
    await anna.type('')
    const again = await back(y, worker)
    expect([wire.has('attach-input'), again.has('attach-input'), again.has('attach-ask')]).toEqual([
      false,
      false,
      false,
    ])
  })

  test('and of the line after it, before the worker has said what it had, loses nothing either', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await anna.type('a')
    await anna.type('b')
    await wire.drop()
    const second = await back(y, worker)
    await anna.type('c')
    await second.drop()
    const third = await back(y, worker)
    await third.say({ type: 'attach-taken', sessionId: sessionOf(third), inputs: 1 })
    await third.drop()
    const fourth = await back(y, worker)
    await fourth.say({ type: 'attach-taken', sessionId: sessionOf(fourth), inputs: 2 })
    const typedOn = (line: Wire) =>
      line.heard.flatMap((frame) => (frame.type === 'attach-input' ? [frame.data] : []))
    expect([wire, second, third, fourth].map(typedOn)).toEqual([['a', 'b'], [], ['b', 'c'], ['c']])
  })

  test('and a worker that does not count keeps nobody waiting, and is told nothing twice', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await anna.type('a')
    await wire.drop()
    const again = await back(y, worker)
    await anna.type('b')
    expect(again.has('attach-input')).toBe(false)
    await again.say({ type: 'attach-data', sessionId: sessionOf(again), data: 'the picture' })
    expect(again.last('attach-input').data).toBe('b')
    await again.say({ type: 'attach-taken', sessionId: sessionOf(again), inputs: 0 })
    await again.drop()
    const third = await back(y, worker)
    await anna.type('c')
    expect([third.has('attach-ask'), third.last('attach-input').data]).toEqual([false, 'c'])
  })

  test('does not make one worker’s count another’s', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await anna.type('a')
    await wire.drop()
    const again = await back(y, worker)
    const stranger = await enroll(y, 'stranger')
    y.fresh()
    await stranger.wire.say({ type: 'attach-taken', sessionId: sessionOf(again), inputs: 0 })
    await again.say({ type: 'attach-taken', sessionId: 'as-unknown', inputs: 0 })
    expect(again.has('attach-input')).toBe(false)
    expect([stranger.wire.closed, again.closed, anna.closed]).toEqual([undefined, undefined, undefined])
  })

  test('is the same when the worker comes back before its old line is known to be gone', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    const again = await back(y, worker)
    expect(again.count('attach-open')).toBe(1)
    // What still comes by the old line would come twice.
    await print(wire, sessionOf(wire), 'late')
    await print(again, sessionOf(again), 'picture')
    expect(anna.screen).toMatch(/waiting.*\r\npicture$/)
  })

  test('that is too long ends it; nobody waits for ever', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await wire.drop()
    await y.pass(119)
    expect(anna.closed).toBeUndefined()
    await y.pass(2)
    expect(anna.seen.at(-1)).toEqual({
      type: 'error',
      message: 'the worker did not come back in time; try again once it is connected',
    })
    // It may have waited longer.
    expect((await back(y, worker)).has('sandbox-release')).toBe(true)
  })

  test('after which the worker does not have the session any more is told, and the next terminal boots anew', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await wire.drop()
    const again = await back(y, worker)
    await again.say({ type: 'attach-error', sessionId: sessionOf(again), message: 'it is not booted' })
    expect(anna.seen.at(-1)).toEqual({ type: 'error', message: 'it is not booted' })
    expect(y.census()).toMatchObject({ booted: 0, terminals: 0 })
    await sits(y, runId, 'Anna')
    expect(again.has('sandbox-boot')).toBe(true)
  })

  test('is not the end of a session that one view alone has trouble with', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await print(wire, sessionOf(wire), 'picture')
    const ben = await sits(y, runId, 'Ben')
    await wire.say({ type: 'attach-error', sessionId: sessionOf(wire), message: 'too many look at it' })
    expect(ben.closed?.code).toBe(1008)
    expect(anna.closed).toBeUndefined()
  })

  test('a worker that is revoked takes its sessions with it', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    await y.done(y.desk.revokeWorker(worker.workerId))
    expect(anna.seen.at(-1)).toEqual({
      type: 'error',
      message: 'the worker that held the sandbox is enrolled no more',
    })
    expect(y.census()).toMatchObject({ booted: 0, terminals: 0 })
  })
})

test('a record that cannot be read costs whoever asks for it a terminal, and not the service', async () => {
  const { y, runId } = await aRetainedRun()
  const { runs } = y.store.database
  const { get } = runs
  Object.assign(runs, {
    get: () => {
      throw new Error('the record is damaged')
    },
  })
  const anna = await sits(y, runId, 'Anna')
  Object.assign(runs, { get })
  expect(anna.closed?.code).toBe(1011)
  expect(anna.seen).toEqual([{ type: 'error', message: 'the service failed; its log says why' }])
  expect(y.census().terminals).toBe(0)
})

describe('release', () => {
  test('stops what is booted, tells those who look at it, and is done twice as well as once', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await ready(wire)
    expect(await y.done(y.desk.releaseRun(runId))).toEqual(y.run(runId))
    expect(anna.seen).toEqual([{ type: 'error', message: 'the session was released' }])
    await y.done(y.desk.releaseRun(runId))
    expect(wire.count('sandbox-release')).toBe(1)
    expect(y.run(runId).sandbox.id).toBe('sb-1')
  })

  test('needs no disk: a full one keeps nobody’s sandbox running', async () => {
    const { y, wire, runId } = await aRetainedRun()
    await sits(y, runId, 'Anna')
    await ready(wire)
    y.fill()
    await y.ask(y.desk.runTicket('ENG-1'))
    expect(verdict(await y.ask(y.desk.retryRun(runId)))).toMatch(/^unavailable/)
    expect(verdict(await y.ask(y.desk.resumeRun(runId)))).toBe('yes')
    expect(verdict(await y.ask(y.desk.releaseRun(runId)))).toBe('yes')
    expect(wire.count('sandbox-release')).toBe(1)
    expect(verdict(await y.ask(y.desk.resumeRun(runId)))).toMatch(/^unavailable/)
  })

  test('in one breath with what it ends, and with the next resume, boots once for the next', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const first = y.desk.resumeRun(runId)
    void y.desk.releaseRun(runId)
    const second = y.desk.resumeRun(runId)
    await y.settle()
    expect(wire.count('sandbox-boot')).toBe(1)
    await ready(wire)
    expect([verdict(await first), verdict(await second)]).toEqual([
      'conflict: the session was released',
      'yes',
    ])
  })

  test('ends a boot that is under way', async () => {
    const { y, wire, runId } = await aRetainedRun()
    const asked = y.desk.resumeRun(runId)
    await y.settle()
    await y.done(y.desk.releaseRun(runId))
    expect(verdict(await asked)).toBe('conflict: the session was released')
    expect(wire.has('sandbox-release')).toBe(true)
  })

  test('while the worker is away is told it when it is back', async () => {
    const { y, wire, worker, runId } = await aRetainedRun()
    await sits(y, runId, 'Anna')
    await ready(wire)
    await wire.drop()
    await y.done(y.desk.releaseRun(runId))
    expect((await back(y, worker)).count('sandbox-release')).toBe(1)
    expect(y.census()).toMatchObject({ booted: 0, terminals: 0 })
  })

  test('of a run that nobody knows is refused, and so is that of one that has not ended', async () => {
    const y = await yarn()
    const { runId } = await busy(y)
    expect(verdict(await y.ask(y.desk.releaseRun('run-1')))).toBe('unknown: there is no run run-1')
    expect(verdict(await y.ask(y.desk.releaseRun(runId)))).toMatch(/^conflict: .* is preparing/)
  })
})

test('a host that stops says so to every terminal, and leaves the session to the worker', async () => {
  const { y, wire, worker, runId } = await aRetainedRun()
  const anna = await sits(y, runId, 'Anna')
  await ready(wire)
  await y.restart()
  expect(anna.closed).toEqual({ code: 1001, reason: 'the service is stopping' })
  expect(wire.has('sandbox-release')).toBe(false)
  const again = y.connect('worker')
  await again.say(rejoin(worker))
  expect(again.has('sandbox-release')).toBe(false)
  // As far as the new host knows nothing is booted; the worker answers at once.
  await sits(y, runId, 'Anna')
  await ready(again)
  expect(again.has('attach-open')).toBe(true)
})
