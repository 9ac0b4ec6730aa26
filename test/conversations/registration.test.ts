/** Registration of workers: rules 1 and 2 of the worker channel, enrollment, and the code of each refusal. */
import { expect, test } from '@jest/globals'
import { CONNECTION_REPLACED } from '../../actors/workers/connection.machine.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  acceptRun,
  enroll,
  heartbeat,
  inMemoryOnly,
  pairingToken,
  reconnect,
  registerWithCredential,
  registerWithToken,
  startHost,
} from './host-conversation.ts'

test('a pairing token enrolls the machine; the answer carries the assigned worker id and the durable credential', async () => {
  const host = await startHost()
  const { connection, workerId, credential } = await enroll(host, 'builder')
  expectRecorded(host.transcript)
  expect(workerId).toMatch(/^wk-[0-9a-f]{16}$/)
  expect(credential).toMatch(/^wc-[A-Za-z0-9_-]{43}$/)
  expect(connection.lastReceived('registered')).toEqual({
    type: 'registered',
    protocolVersion: 1,
    heartbeatIntervalMs: 15_000,
    hostVersion: '0',
    workerId,
    name: 'builder',
    state: 'active',
    installation: host.store.installation,
    credential,
  })
})

test('a pairing token is wp- and 32 random bytes, valid 10 minutes', async () => {
  const host = await startHost()
  const minted = host.hostApi.mintPairingToken()
  expect(minted).toEqual({
    ok: true,
    value: { token: expect.stringMatching(/^wp-[A-Za-z0-9_-]{43}$/), expiresAt: '2026-01-01T00:10:01.000Z' },
  })
})

test('the credential is sent only on the connection that redeemed a pairing token', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await worker.connection.drop()
  host.clearTranscript()
  const connection = await reconnect(host, worker)
  expectRecorded(host.transcript)
  expect(connection.lastReceived('registered').workerId).toBe(worker.workerId)
})

test('the name of a register is used only when enrolling', async () => {
  const host = await startHost()
  const worker = await enroll(host, 'builder')
  const connection = host.connect()
  await connection.send({ ...registerWithCredential(worker), name: 'another' })
  expect(connection.lastReceived('registered').name).toBe('builder')
})

test('the host stores only a SHA-256 hash of each worker credential and never returns it', async () => {
  const host = await startHost()
  const { connection, credential } = await enroll(host)
  await connection.sendHeartbeat()
  const kept = JSON.stringify(
    host.store.database.snapshots.kinds().map((kind) => [...host.store.database.snapshots.all(kind)]),
  )
  expect(kept).not.toContain(credential)
  expect(kept).toMatch(/"hash":"[0-9a-f]{64}"/)
  expect(JSON.stringify([host.hostApi.fleet(), host.hostApi.hello()])).not.toContain(credential)
})

test('an enrollment is on disk before its worker receives the credential', async () => {
  const host = await startHost()
  const given = pairingToken(host)
  const connection = host.connect()
  host.fillDisk()
  await connection.send(registerWithToken(given))
  await host.freeDisk()
  expectRecorded(host.transcript)
})

test('an enrollment is in the trail before its worker receives the credential', async () => {
  const host = await startHost()
  const given = pairingToken(host)
  let write = () => {}
  Object.assign(host.store.trail, { record: () => new Promise<void>((resolve) => (write = resolve)) })
  const connection = host.connect()
  await connection.send(registerWithToken(given))
  expect(connection.received).toEqual([])
  write()
  await host.settle()
  expect(connection.received.map(({ type }) => type)[0]).toBe('registered')
})

test('a pairing token is single use', async () => {
  const host = await startHost()
  const given = pairingToken(host)
  await host.connect('first').send(registerWithToken(given))
  host.clearTranscript()
  await host.connect('second').send(registerWithToken(given))
  expectRecorded(host.transcript)
})

test('of two workers that present one token in the same tick, one is enrolled', async () => {
  const host = await startHost()
  const given = pairingToken(host)
  const first = host.connect('first')
  const second = host.connect('second')
  void first.send(registerWithToken(given))
  await second.send(registerWithToken(given))
  expect([first.hasReceived('registered'), second.lastReceived('rejected').code]).toEqual([
    true,
    'invalid-token',
  ])
  expect(host.hostApi.fleet().workers).toHaveLength(1)
})

test('a pairing token is invalid after its expiry', async () => {
  const host = await startHost()
  const given = pairingToken(host)
  await host.advance(600)
  const connection = host.connect()
  await connection.send(registerWithToken(given))
  expectRecorded(host.transcript)
})

test('a pairing token is held only in memory: a restart forgets it', async () => {
  const host = await startHost()
  const given = pairingToken(host)
  await host.restart()
  const connection = host.connect()
  await connection.send(registerWithToken(given))
  expect(connection.lastReceived('rejected').code).toBe('invalid-token')
})

test.each([
  ['nobody knows', { workerId: 'wk-0000000000000000', credential: `wc-${'a'.repeat(43)}` }],
  ['presents another credential', { credential: `wc-${'a'.repeat(43)}` }],
])('`unauthorized` means the enrollment is gone: a worker whom %s', async (_, wrong) => {
  const host = await startHost()
  const worker = await enroll(host)
  host.clearTranscript()
  await host.connect('unregistered').send(registerWithCredential({ ...worker, ...wrong }))
  expectRecorded(host.transcript)
})

test('`unauthorized` is sent only for a state on disk: not while a revocation is being committed', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await worker.connection.drop()
  host.beforeCommit('worker', () => host.fillDisk())
  void host.hostApi.revokeWorker(worker.workerId)
  await host.settle()
  host.clearTranscript()
  await reconnect(host, worker)
  await host.freeDisk()
  expectRecorded(host.transcript)
})

test('`unauthorized` is never sent on a read error', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  const record = { v: 1, s: 'a', c: { torn: true } }
  void host.store.database.commit([{ table: 'snapshot', kind: 'worker', key: worker.workerId, record }])
  await host.settle()
  await host.withoutTranscript(() => host.crash())
  host.clearTranscript()
  const connection = await reconnect(host, worker)
  expectRecorded(host.transcript)
  expect(connection.closed?.code).toBe(1013)
})

test('an incompatible protocol version is rejected at registration', async () => {
  const host = await startHost()
  const { oldestProtocolVersion: _, ...register } = registerWithToken(pairingToken(host))
  await host.connect().send({ ...register, protocolVersion: 2, auth: 'of some later kind' })
  expectRecorded(host.transcript)
  const logged = host.log.lines.filter(({ message }) => message.includes('protocol version'))
  expect(logged).toMatchObject([
    { level: 'warn', fields: { reason: expect.stringMatching(/update switchyard on the host$/) } },
  ])
})

test('a first frame that does not come within 10 seconds gets a rejection and the connection is dropped', async () => {
  const host = await startHost()
  host.connect()
  await host.advance(9)
  await host.advance(1)
  expectRecorded(host.transcript)
})

test('a first frame that is not register gets a rejection and the connection is dropped', async () => {
  const host = await startHost()
  const connection = host.connect()
  await connection.send(heartbeat(host))
  expect(connection.lastReceived('rejected').code).toBe('malformed')
  expect(connection.closed?.reason).toContain('the first frame must be register')
})

test.each([
  ['is not JSON', 'hello'],
  ['is longer than 64 KiB', JSON.stringify({ type: 'register', name: 'x'.repeat(64 * 1024) })],
  [
    'lacks its capabilities',
    JSON.stringify({ type: 'register', protocolVersion: 1, auth: {}, name: 'x', activeLeases: [] }),
  ],
])('a first frame that %s is malformed', async (_, text) => {
  const host = await startHost()
  const connection = host.connect()
  await connection.sendText(text)
  expect(connection.lastReceived('rejected').code).toBe('malformed')
  expect(connection.closed).toBeDefined()
})

test('frames of a rejected connection are ignored', async () => {
  const host = await startHost()
  const given = pairingToken(host)
  const connection = host.connect()
  void connection.send(heartbeat(host))
  await connection.send(registerWithToken(given))
  expect(connection.received.map(({ type }) => type)).toEqual(['rejected'])
  expect(host.hostApi.fleet().workers).toEqual([])
})

const withoutSockets = inMemoryOnly('all sockets of a test come from one address')

withoutSockets('one address holds at most 32 connections without a registration, the newest', async () => {
  const host = await startHost()
  const connections = Array.from({ length: 33 }, (_, at) =>
    host.connect(`w${at}`, { address: `127.0.0.${at + 1}` }),
  )
  expect(connections.map(({ closed }) => closed?.code)).toEqual([1013, ...Array(32).fill(undefined)])
  expect(host.countOf('worker_registrations_total displaced')).toBe(1)
  const elsewhere = host.connect('elsewhere', { address: '192.0.2.1' })
  await elsewhere.send(registerWithToken(pairingToken(host)))
  expect(elsewhere.hasReceived('registered')).toBe(true)
  await connections[1]?.send(registerWithToken(pairingToken(host)))
  expect(connections[1]?.hasReceived('registered')).toBe(true)
  host.connect('w33')
  expect(connections.filter(({ closed }) => closed !== undefined)).toHaveLength(1)
})

withoutSockets('of 64 addresses a newcomer displaces the oldest connection after two seconds', async () => {
  const host = await startHost()
  const connections = Array.from({ length: 64 }, (_, at) =>
    host.connect(`w${at}`, { address: `192.0.2.${at}` }),
  )
  const connectNewcomer = () => host.connect('newcomer', { address: '198.51.100.1' })
  expect(connectNewcomer).toThrow('too many connections wait for their registration')
  await host.advance(2)
  const newcomer = connectNewcomer()
  expect(connections.map(({ closed }) => closed?.code)).toEqual([1013, ...Array(63).fill(undefined)])
  await newcomer.send(registerWithToken(pairingToken(host)))
  expect(newcomer.hasReceived('registered')).toBe(true)
})

withoutSockets('a worker that proves itself in its upgrade gets in whatever others hold', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await worker.connection.drop()
  for (let at = 0; at < 200; at++) host.connect(`w${at}`)
  for (let at = 0; at < 32; at++) host.connect(`v${at}`, { address: `192.0.2.${at}` })
  const proof = host.hostApi.proveWorker(worker.workerId, worker.credential)
  expect(proof).toBeDefined()
  const again = host.connect('proven', { proof })
  await again.send(registerWithCredential(worker))
  expect(again.hasReceived('registered')).toBe(true)
  const token = pairingToken(host)
  const paired = host.connect('paired', { proof: host.hostApi.proveWorker(undefined, token) })
  await paired.send(registerWithToken(token))
  expect(paired.hasReceived('registered')).toBe(true)
})

test('a wrong proof is none, and is counted', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  const { proveWorker } = host.hostApi
  expect(proveWorker(worker.workerId, `${worker.credential}x`)).toBeUndefined()
  expect(proveWorker('wk-unknown', worker.credential)).toBeUndefined()
  expect(proveWorker(undefined, worker.credential)).toBeUndefined()
  expect(proveWorker(undefined, 'wp-unknown')).toBeUndefined()
  expect(host.countOf('worker_proofs_total wrong')).toBe(4)
  const token = pairingToken(host)
  await host.advance(601)
  expect(proveWorker(undefined, token)).toBeUndefined()
})

withoutSockets('a revoked worker proves nothing', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
  expect(host.hostApi.proveWorker(worker.workerId, worker.credential)).toBeUndefined()
})

test('a second live connection with one credential replaces the first', async () => {
  const host = await startHost()
  const { worker, work } = await acceptRun(host)
  const second = host.connect('newer')
  await second.send(registerWithCredential(worker, [work.holding]))
  expectRecorded(host.transcript)
  expect(host.hostApi.fleet().workers.map(({ connection }) => connection)).toEqual(['online'])
})

test('the leases of a worker whose connection was replaced are the newer connection’s to report on', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  const second = host.connect('newer')
  void second.send(registerWithCredential(worker, [work.holding]))
  await connection.send(work.running())
  expect(host.run(runId).status).toBe('preparing')
  await second.send(work.at(1).running())
  expect(host.run(runId).status).toBe('running')
})

test('a connection that was replaced by a newer one does not take the worker offline when it closes', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await reconnect(host, worker, work)
  await connection.drop()
  await host.advance(20)
  expect(host.hostApi.fleet().workers[0]?.connection).toBe('online')
  expect(host.run(runId).status).toBe('preparing')
})

test('a connection that was opened earlier and registers later replaces none', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.drop()
  const slow = host.connect('of a process that ended')
  const current = await reconnect(host, worker, work)
  await slow.send(registerWithCredential(worker))
  expect(slow.lastReceived('rejected')).toMatchObject({ code: 'protocol', reason: CONNECTION_REPLACED })
  expect(current.closed).toBeUndefined()
  await current.send(work.running())
  expect(host.run(runId).status).toBe('running')
})

test('a frame of an unknown type after registration is ignored and counted', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const numbered = { ...work.running(), type: 'run-later', poem: 'x' }
  await connection.send({ type: 'run-poem' }, numbered, work.running())
  expect(connection.closed).toBeUndefined()
  expect(host.run(runId).status).toBe('running')
  expect(host.countOf('frames_total unknown')).toBe(2)
  // The number of the unknown frame is a gap, so the frames after it are applied and acknowledged.
  expect(await host.events(runId)).toContain('gap 1–1')
})

test.each([
  ['fails its schema', '{"type":"heartbeat","leases":"none"}'],
  ['is not JSON', '{'],
  ['is register again', JSON.stringify(registerWithToken('wp-x'))],
  ['is longer than 1 MiB', JSON.stringify({ type: 'heartbeat', more: 'x'.repeat(1024 * 1024) })],
])('a frame that %s, after registration, is rejected as malformed', async (_, text) => {
  const host = await startHost()
  const { connection } = await enroll(host)
  await connection.sendText(text)
  expect(connection.lastReceived('rejected').code).toBe('malformed')
  expect(connection.closed).toBeDefined()
})

test('after a malformed frame the leases live on until their deadline, so a fixed worker can come back', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.running(), { type: 'dispatch-accepted' })
  await host.advance(164)
  const fixed = await reconnect(host, worker, work)
  await fixed.send(work.complete())
  expect(host.transcript).toEqual([
    'worker → host  run-patch ENG-1 #1 running',
    'worker → host  dispatch-accepted',
    expect.stringMatching(/^host → worker {2}rejected malformed: /),
    'host ✕ worker',
    '164 s pass',
    'worker → host  register, holding ENG-1',
    'host → worker  registered',
    'host → worker  lease-ack ENG-1 up to 1',
    'worker → host  run-complete ENG-1 #2 completed',
    'host → worker  run-complete-ack ENG-1',
  ])
  expect(host.run(runId).status).toBe('completed')
})

test('an enrollment whose worker never sent a heartbeat within 10 minutes is removed', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await worker.connection.drop()
  await host.advance(599)
  expect(host.hostApi.fleet().workers).toHaveLength(1)
  await host.advance(1)
  expect(host.hostApi.fleet().workers).toEqual([])
  const connection = await reconnect(host, worker)
  expect(connection.lastReceived('rejected')).toMatchObject({
    code: 'unauthorized',
    installation: host.store.installation,
  })
})

test('a heartbeat proves an enrollment for good', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await worker.connection.sendHeartbeat()
  await worker.connection.drop()
  await host.advance(700)
  expect((await reconnect(host, worker)).hasReceived('registered')).toBe(true)
})

test('a drained enrollment is removed after 10 minutes without a heartbeat all the same', async () => {
  const host = await startHost()
  const worker = await enroll(host)
  await worker.connection.drop()
  await host.succeeded(host.hostApi.drainWorker(worker.workerId))
  await host.advance(600)
  expect(host.hostApi.fleet().workers).toEqual([])
})

test('the ten minutes of an unproven enrollment start again after a restart', async () => {
  const host = await startHost()
  await enroll(host)
  await host.advance(30)
  await host.restart()
  await host.advance(599)
  expect(host.hostApi.fleet().workers).toHaveLength(1)
  await host.advance(1)
  expect(host.hostApi.fleet().workers).toEqual([])
})

test('setting the wall clock removes no enrollment', async () => {
  const host = await startHost()
  await enroll(host)
  host.clock.jumpWallClock(24 * 3_600_000)
  await host.advance(10)
  expect(host.hostApi.fleet().workers).toHaveLength(1)
  await host.restart()
  host.clock.jumpWallClock(24 * 3_600_000)
  await host.advance(10)
  expect(host.hostApi.fleet().workers).toHaveLength(1)
})

test('an enrollment without a heartbeat is removed after 10 minutes, however often it was drained and enabled', async () => {
  const host = await startHost()
  const { workerId, connection } = await enroll(host)
  await connection.drop()
  await host.succeeded(host.hostApi.drainWorker(workerId))
  await host.advance(300)
  await host.succeeded(host.hostApi.enableWorker(workerId))
  await host.advance(300)
  expect(host.hostApi.fleet().workers).toEqual([])
})

test('connections without a first frame in time make room for others', async () => {
  const host = await startHost()
  for (let at = 0; at < 64; at++) host.connect(`w${at}`)
  await host.advance(10)
  expect((await enroll(host)).connection.hasReceived('registered')).toBe(true)
})

test('a worker that enrolls while it claims leases of an earlier enrollment receives `lease-lost` for them', async () => {
  const host = await startHost()
  const { work, runId } = await acceptRun(host)
  const connection = host.connect('again')
  await connection.send({ ...registerWithToken(pairingToken(host)), activeLeases: [work.holding] })
  expect(connection.lastReceived('lease-lost').leaseId).toBe(work.id)
  expect(host.run(runId).status).toBe('preparing')
})

test('known workers register and send heartbeats while the disk is full', async () => {
  const host = await startHost()
  const { worker, connection, work } = await acceptRun(host)
  host.fillDisk()
  await connection.drop()
  await host.advance(30)
  const again = await reconnect(host, worker, work)
  await host.advanceWithHeartbeats(300, [again, work])
  expect(again.closed).toBeUndefined()
  expect(again.acknowledged(work)).toBe(0)
})

test('of two connections that register one worker in the same tick the newer one is current', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.drop()
  const first = host.connect('first')
  const second = host.connect('second')
  void first.send(registerWithCredential(worker, [work.holding]))
  await second.send(registerWithCredential(worker, [work.holding]))
  expect(first.lastReceived('rejected')).toMatchObject({ code: 'protocol', reason: CONNECTION_REPLACED })
  expect(second.closed).toBeUndefined()
  await second.send(work.complete())
  expect(host.run(runId).status).toBe('completed')
})
