/** How a worker comes in: rules 1 and 2 of the worker channel, enrollment, and who is turned away with which word. */
import { expect, test } from '@jest/globals'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { back, busy, enroll, heartbeat, inHand, pairing, rejoin, token, yarn } from './host-conversation.ts'

test('a pairing token enrolls the machine; the answer carries the assigned worker id and the durable credential', async () => {
  const y = await yarn()
  const { wire, workerId, credential } = await enroll(y, 'builder')
  expectRecorded(y.said)
  expect(workerId).toMatch(/^wk-[0-9a-f]{16}$/)
  expect(credential).toMatch(/^wc-[A-Za-z0-9_-]{43}$/)
  expect(wire.last('registered')).toEqual({
    type: 'registered',
    protocolVersion: 1,
    heartbeatIntervalMs: 15_000,
    hostVersion: '0',
    workerId,
    name: 'builder',
    state: 'active',
    credential,
  })
})

test('a pairing token is wp- and 32 random bytes, valid 10 minutes', async () => {
  const y = await yarn()
  const minted = y.desk.mintPairingToken()
  expect(minted).toEqual({
    ok: true,
    value: { token: expect.stringMatching(/^wp-[A-Za-z0-9_-]{43}$/), expiresAt: '2026-01-01T00:10:01.000Z' },
  })
})

test('the credential is sent only on the connection that redeemed a pairing token', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await worker.wire.drop()
  y.fresh()
  const wire = await back(y, worker)
  expectRecorded(y.said)
  expect(wire.last('registered').workerId).toBe(worker.workerId)
})

test('the name of a register is used only when enrolling', async () => {
  const y = await yarn()
  const worker = await enroll(y, 'builder')
  const wire = y.connect()
  await wire.say({ ...rejoin(worker), name: 'another' })
  expect(wire.last('registered').name).toBe('builder')
})

test('the host stores only a SHA-256 hash of each worker credential and never returns it', async () => {
  const y = await yarn()
  const { wire, credential } = await enroll(y)
  await wire.beat()
  const kept = JSON.stringify(
    y.store.database.snapshots.kinds().map((kind) => [...y.store.database.snapshots.all(kind)]),
  )
  expect(kept).not.toContain(credential)
  expect(kept).toMatch(/"hash":"[0-9a-f]{64}"/)
  expect(JSON.stringify([y.desk.fleet(), y.desk.hello()])).not.toContain(credential)
})

test('an enrollment is on disk before its worker is told of it', async () => {
  const y = await yarn()
  const given = token(y)
  const wire = y.connect()
  y.fill()
  await wire.say(pairing(given))
  await y.drain()
  expectRecorded(y.said)
})

test('a pairing token is single use', async () => {
  const y = await yarn()
  const given = token(y)
  await y.connect('first').say(pairing(given))
  y.fresh()
  await y.connect('second').say(pairing(given))
  expectRecorded(y.said)
})

test('of two who present one token in the same moment, one is let in', async () => {
  const y = await yarn()
  const given = token(y)
  const first = y.connect('first')
  const second = y.connect('second')
  void first.say(pairing(given))
  await second.say(pairing(given))
  expect([first.has('registered'), second.last('rejected').code]).toEqual([true, 'invalid-token'])
  expect(y.desk.fleet().workers).toHaveLength(1)
})

test('a pairing token dies on expiry', async () => {
  const y = await yarn()
  const given = token(y)
  await y.pass(600)
  const wire = y.connect()
  await wire.say(pairing(given))
  expectRecorded(y.said)
})

test('a pairing token is held only in memory: a restart forgets it', async () => {
  const y = await yarn()
  const given = token(y)
  await y.restart()
  const wire = y.connect()
  await wire.say(pairing(given))
  expect(wire.last('rejected').code).toBe('invalid-token')
})

test.each([
  ['nobody knows', { workerId: 'wk-0000000000000000', credential: `wc-${'a'.repeat(43)}` }],
  ['presents another credential', { credential: `wc-${'a'.repeat(43)}` }],
])('`unauthorized` means the enrollment is gone: a worker whom %s', async (_, wrong) => {
  const y = await yarn()
  const worker = await enroll(y)
  y.fresh()
  await y.connect('stranger').say(rejoin({ ...worker, ...wrong }))
  expectRecorded(y.said)
})

test('`unauthorized` is sent only of what is on disk: not while a revocation is on its way there', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await worker.wire.drop()
  y.beforeLanding('worker', () => y.fill())
  void y.desk.revokeWorker(worker.workerId)
  await y.settle()
  y.fresh()
  await back(y, worker)
  await y.drain()
  expectRecorded(y.said)
})

test('`unauthorized` is never sent on a read error', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  const record = { v: 1, s: 'a', c: { torn: true } }
  void y.store.database.commit([{ table: 'snapshot', kind: 'worker', key: worker.workerId, record }])
  await y.settle()
  await y.quietly(() => y.crash())
  y.fresh()
  const wire = await back(y, worker)
  expectRecorded(y.said)
  expect(wire.closed?.code).toBe(1013)
})

test('an incompatible protocol version is rejected at registration', async () => {
  const y = await yarn()
  await y.connect().say({ ...pairing(token(y)), protocolVersion: 2, auth: 'of some later kind' })
  expectRecorded(y.said)
})

test('a first frame that does not come within 10 seconds gets a rejection and the connection is dropped', async () => {
  const y = await yarn()
  y.connect()
  await y.pass(9)
  await y.pass(1)
  expectRecorded(y.said)
})

test('a first frame that is not register gets a rejection and the connection is dropped', async () => {
  const y = await yarn()
  const wire = y.connect()
  await wire.say(heartbeat(y))
  expect(wire.last('rejected').code).toBe('malformed')
  expect(wire.closed?.reason).toContain('the first frame must be register')
})

test.each([
  ['is not JSON', 'hello'],
  ['is longer than 64 KiB', JSON.stringify({ type: 'register', name: 'x'.repeat(64 * 1024) })],
  [
    'lacks its capabilities',
    JSON.stringify({ type: 'register', protocolVersion: 1, auth: {}, name: 'x', activeLeases: [] }),
  ],
])('a first frame that %s is malformed', async (_, text) => {
  const y = await yarn()
  const wire = y.connect()
  await wire.sayText(text)
  expect(wire.last('rejected').code).toBe('malformed')
  expect(wire.closed).toBeDefined()
})

test('what a rejected connection still says is not listened to', async () => {
  const y = await yarn()
  const given = token(y)
  const wire = y.connect()
  void wire.say(heartbeat(y))
  await wire.say(pairing(given))
  expect(wire.heard.map(({ type }) => type)).toEqual(['rejected'])
  expect(y.desk.fleet().workers).toEqual([])
})

inHand('the doors turn the next one away before the desk hears of it')(
  'no more than 64 connections may not have said who they are',
  async () => {
    const y = await yarn()
    const wires = Array.from({ length: 64 }, (_, at) => y.connect(`w${at}`))
    expect(() => y.connect()).toThrow('too many connections have not said who they are')
    await wires[0]?.drop()
    await wires[1]?.say(pairing(token(y)))
    y.connect()
    y.connect()
    expect(() => y.connect()).toThrow()
  },
)

test('a second live connection with one credential replaces the first', async () => {
  const y = await yarn()
  const { worker, work } = await busy(y)
  const second = y.connect('newer')
  await second.say(rejoin(worker, [work.holding]))
  expectRecorded(y.said)
  expect(y.desk.fleet().workers.map(({ connection }) => connection)).toEqual(['online'])
})

test('the leases of a worker whose connection was replaced are the newer connection’s to report on', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  const second = y.connect('newer')
  void second.say(rejoin(worker, [work.holding]))
  await wire.say(work.running())
  expect(y.run(runId).status).toBe('preparing')
  await second.say(work.at(1).running())
  expect(y.run(runId).status).toBe('running')
})

test('a connection that was replaced by a newer one does not take the worker offline when it closes', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await back(y, worker, work)
  await wire.drop()
  await y.pass(20)
  expect(y.desk.fleet().workers[0]?.connection).toBe('online')
  expect(y.run(runId).status).toBe('preparing')
})

test('a frame of an unknown type after registration is rejected as malformed and the socket is closed', async () => {
  const y = await yarn()
  const { wire } = await enroll(y)
  y.fresh()
  await wire.say({ type: 'run-poem' })
  expect(wire.last('rejected').code).toBe('malformed')
  expect(wire.closed).toBeDefined()
  expect(y.desk.fleet().workers[0]?.connection).toBe('offline')
})

test.each([
  ['fails its schema', '{"type":"heartbeat","leases":"none"}'],
  ['is not JSON', '{'],
  ['is register again', JSON.stringify(pairing('wp-x'))],
  ['is longer than 1 MiB', JSON.stringify({ type: 'heartbeat', more: 'x'.repeat(1024 * 1024) })],
])('a frame that %s, after registration, is rejected as malformed', async (_, text) => {
  const y = await yarn()
  const { wire } = await enroll(y)
  await wire.sayText(text)
  expect(wire.last('rejected').code).toBe('malformed')
  expect(wire.closed).toBeDefined()
})

test('after a malformed frame the leases live on until their deadline, so a fixed worker can come back', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.running(), { type: 'run-poem' })
  await y.pass(164)
  const fixed = await back(y, worker, work)
  await fixed.say(work.complete())
  expect(y.said).toEqual([
    'worker → host  run-patch ENG-1 #1 running',
    'worker → host  run-poem',
    expect.stringMatching(/^host → worker {2}rejected malformed: /),
    'host ✕ worker',
    '164 s pass',
    'worker → host  register, holding ENG-1',
    'host → worker  registered',
    'host → worker  lease-ack ENG-1 up to 1',
    'worker → host  run-complete ENG-1 #2 completed',
    'host → worker  run-complete-ack ENG-1',
  ])
  expect(y.run(runId).status).toBe('completed')
})

test('an enrollment whose worker never sent a heartbeat within 10 minutes is removed', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await worker.wire.drop()
  await y.pass(599)
  expect(y.desk.fleet().workers).toHaveLength(1)
  await y.pass(1)
  expect(y.desk.fleet().workers).toEqual([])
  const wire = await back(y, worker)
  expect(wire.last('rejected').code).toBe('unauthorized')
})

test('a heartbeat proves an enrollment for good', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await worker.wire.beat()
  await worker.wire.drop()
  await y.pass(700)
  expect((await back(y, worker)).has('registered')).toBe(true)
})

test('a drained enrollment is removed after 10 minutes without a heartbeat all the same', async () => {
  const y = await yarn()
  const worker = await enroll(y)
  await worker.wire.drop()
  await y.done(y.desk.drainWorker(worker.workerId))
  await y.pass(600)
  expect(y.desk.fleet().workers).toEqual([])
})

test('the ten minutes of an unproven enrollment are counted anew after a restart', async () => {
  const y = await yarn()
  await enroll(y)
  await y.pass(30)
  await y.restart()
  await y.pass(599)
  expect(y.desk.fleet().workers).toHaveLength(1)
  await y.pass(1)
  expect(y.desk.fleet().workers).toEqual([])
})

test('a wall clock that is set right costs no enrollment', async () => {
  const y = await yarn()
  await enroll(y)
  y.clock.jump(24 * 3_600_000)
  await y.pass(10)
  expect(y.desk.fleet().workers).toHaveLength(1)
  await y.restart()
  y.clock.jump(24 * 3_600_000)
  await y.pass(10)
  expect(y.desk.fleet().workers).toHaveLength(1)
})

test('an enrollment without a heartbeat is removed after 10 minutes, however often it was drained and enabled', async () => {
  const y = await yarn()
  const { workerId, wire } = await enroll(y)
  await wire.drop()
  await y.done(y.desk.drainWorker(workerId))
  await y.pass(300)
  await y.done(y.desk.enableWorker(workerId))
  await y.pass(300)
  expect(y.desk.fleet().workers).toEqual([])
})

test('connections that said nothing in time make room for others', async () => {
  const y = await yarn()
  for (let at = 0; at < 64; at++) y.connect(`w${at}`)
  await y.pass(10)
  expect((await enroll(y)).wire.has('registered')).toBe(true)
})

test('a worker that enrolls while it claims leases of an earlier enrollment is told that they are lost', async () => {
  const y = await yarn()
  const { work, runId } = await busy(y)
  const wire = y.connect('again')
  await wire.say({ ...pairing(token(y)), activeLeases: [work.holding] })
  expect(wire.last('lease-lost').leaseId).toBe(work.id)
  expect(y.run(runId).status).toBe('preparing')
})

test('a full disk stops no heart: known workers register and beat', async () => {
  const y = await yarn()
  const { worker, wire, work } = await busy(y)
  y.fill()
  await wire.drop()
  await y.pass(30)
  const again = await back(y, worker, work)
  await y.beating(300, [again, work])
  expect(again.closed).toBeUndefined()
  expect(again.acknowledged(work)).toBe(0)
})

test('of two lines that register one worker in the same moment the newer one is its line', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.drop()
  const first = y.connect('first')
  const second = y.connect('second')
  void first.say(rejoin(worker, [work.holding]))
  await second.say(rejoin(worker, [work.holding]))
  expect(first.last('rejected').reason).toBe('replaced by a newer connection')
  expect(second.closed).toBeUndefined()
  await second.say(work.complete())
  expect(y.run(runId).status).toBe('completed')
})
