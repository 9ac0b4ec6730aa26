/** Join keys: many machines enroll with one key, each with a credential of its own, and ephemeral ones leave nothing. */
import { expect, test } from '@jest/globals'
import { WORKERS_JOINING_MAX } from '../../core/fleet/connection-seats.ts'
import type { Write } from '../../core/ports/store.ts'
import type { JoinKeyRequest, JoinKeyResponse } from '../../protocol/join-key.ts'
import { JOIN_KEYS_MAX, WORKERS_MAX } from '../../protocol/limits.ts'
import {
  capabilities,
  configWith,
  type EnrolledScriptedWorker,
  enroll,
  type HostConversation,
  heartbeat,
  inMemoryOnly,
  reconnect,
  registerWithCredential,
  registerWithToken,
  type ScriptedConnection,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const KEY = /^wj-[A-Za-z0-9_-]{43}$/

async function createKey(
  host: HostConversation,
  more: Partial<JoinKeyRequest> = {},
): Promise<JoinKeyResponse> {
  return await host.succeeded(host.hostApi.createJoinKey({ name: 'autumn fleet', ...more }))
}

const registerWithKey = (key: string, name = 'worker') => ({
  type: 'register',
  protocolVersion: 1,
  auth: { kind: 'join', key },
  name,
  capabilities,
  activeLeases: [],
})

/** Connects as a machine whose upgrade request carries the key. */
const dial = (host: HostConversation, key: string): ScriptedConnection =>
  host.connect('worker', { proof: host.hostApi.proveWorker(undefined, key) })

async function join(host: HostConversation, key: string): Promise<EnrolledScriptedWorker> {
  const connection = dial(host, key)
  await connection.send(registerWithKey(key))
  const { workerId, credential } = connection.lastReceived('registered')
  if (credential === undefined) throw new Error('no credential')
  await connection.sendHeartbeat()
  return { connection, workerId, credential, concurrency: 2, name: 'worker' }
}

/** The code and the reason of the host's refusal. */
async function refusalOf(host: HostConversation, register: object): Promise<string> {
  const connection = host.connect()
  await connection.send(register)
  const { code, reason } = connection.lastReceived('rejected')
  return `${code}: ${reason}`
}

const manyTest = inMemoryOnly('opens hundreds of connections')
const workersOf = (host: HostConversation) => host.hostApi.fleet().workers
const countOf = (host: HostConversation, id: string) =>
  host.hostApi.joinKeys().joinKeys.find((joinKey) => joinKey.id === id)?.workers

test('a key is shown once, begins with wj-, and only its hash is on disk', async () => {
  const host = await startHost()
  const expiresAt = '2026-02-01T00:00:00.000Z'
  const created = await createKey(host, { expiresAt, maxWorkers: 3, ephemeral: true })
  const shown = { name: 'autumn fleet', expiresAt, maxWorkers: 3, ephemeral: true }
  expect(created).toEqual({
    id: expect.stringMatching(/^jk-[0-9a-f]{8}$/),
    key: expect.stringMatching(KEY),
    ...shown,
  })
  await host.crash()
  expect(host.hostApi.joinKeys()).toEqual({
    joinKeys: [{ id: created.id, ...shown, createdAt: expect.any(String), workers: 0 }],
  })
  const kept = JSON.stringify([...host.store.database.keyValues.all('join-key')])
  expect(kept).toMatch(/"hash":"[0-9a-f]{64}"/)
  expect(kept).not.toContain(created.key)
})

test('a key enrolls many machines, each with its own credential, also after a restart of the host', async () => {
  const host = await startHost()
  const { key, id } = await createKey(host)
  const first = await join(host, key)
  await host.restart()
  const second = await join(host, key)
  expect(second.credential).not.toBe(first.credential)
  expect(second.connection.lastReceived('registered').credential).toMatch(/^wc-/)
  expect(workersOf(host).map(({ joinKey, ephemeral }) => [joinKey, ephemeral])).toEqual([
    [id, undefined],
    [id, undefined],
  ])
  expect(countOf(host, id)).toBe(2)
  const enrolled = { source: 'join-key', by: id, action: 'enrollWorker' }
  expect(host.store.actions).toMatchObject([enrolled, enrolled])
  expect((await reconnect(host, first)).hasReceived('registered')).toBe(true)
})

manyTest(
  'of 200 machines at once with room for 150, exactly 150 enroll, whatever restarts come in between',
  async () => {
    const host = await startHost()
    const { key, id } = await createKey(host, { maxWorkers: 150 })
    let refused = 0
    for (const machines of [80, 80, 40]) {
      const connections = Array.from({ length: machines }, () => dial(host, key))
      await Promise.all(connections.map((connection) => connection.send(registerWithKey(key))))
      refused += connections.filter((connection) => connection.hasReceived('rejected')).length
      if (machines === 80) await host.crash()
    }
    expect([countOf(host, id), workersOf(host).length, refused]).toEqual([150, 150, 50])
  },
)

test('a bad, an expired, a deleted and a used-up key get the one answer of a bad pairing token', async () => {
  const host = await startHost()
  const expired = await createKey(host, { expiresAt: '2026-01-01T00:01:00.000Z' })
  const deleted = await createKey(host)
  const usedUp = await createKey(host, { maxWorkers: 1 })
  await join(host, usedUp.key)
  await host.succeeded(host.hostApi.deleteJoinKey(deleted.id, false))
  await host.advance(60)
  const answer = await refusalOf(host, registerWithToken('wp-unknown'))
  expect(answer).toMatch(/^invalid-token: /)
  for (const key of [`wj-${'A'.repeat(43)}`, expired.key, deleted.key, usedUp.key])
    expect(await refusalOf(host, registerWithKey(key))).toBe(answer)
})

test('a revoked worker frees its seat', async () => {
  const host = await startHost()
  const { key } = await createKey(host, { maxWorkers: 1 })
  const { workerId } = await join(host, key)
  await host.succeeded(host.hostApi.revokeWorker(workerId))
  await join(host, key)
  expect(workersOf(host)).toHaveLength(1)
})

test('deleting a key ends further joins and leaves its workers; ?workers=1 revokes them, also later', async () => {
  const host = await startHost()
  const { key, id } = await createKey(host)
  const worker = await join(host, key)
  await host.succeeded(host.hostApi.deleteJoinKey(id, false))
  await host.crash()
  expect(host.hostApi.joinKeys().joinKeys).toEqual([])
  expect(await refusalOf(host, registerWithKey(key))).toMatch(/^invalid-token/)
  const connection = await reconnect(host, worker)
  expect(connection.hasReceived('registered')).toBe(true)
  await host.succeeded(host.hostApi.deleteJoinKey(id, true))
  expect(connection.hasReceived('revoked')).toBe(true)
  expect(workersOf(host)).toEqual([])
  expect(await host.settled(host.hostApi.deleteJoinKey(id, true))).toMatchObject({
    refusal: { kind: 'unknown' },
  })
})

test('a key needs a visible name and an expiry in the future, and their number is limited', async () => {
  const host = await startHost()
  const refused = async (request: JoinKeyRequest) => {
    const created = await host.settled(host.hostApi.createJoinKey(request))
    return created.ok ? 'created' : `${created.refusal.kind} ${created.refusal.message}`
  }
  expect(await refused({ name: '\u200b ' })).toMatch(/^invalid \/name/)
  expect(await refused({ name: 'a', expiresAt: '2026-01-01T00:00:00.000Z' })).toMatch(/^invalid \/expiresAt/)
  for (let count = 0; count < JOIN_KEYS_MAX; count++) await createKey(host)
  expect(await refused({ name: 'one more' })).toMatch(/^conflict .* delete one/)
  await host.succeeded(host.hostApi.deleteJoinKey(host.hostApi.joinKeys().joinKeys[0]?.id ?? '', false))
  expect(await refused({ name: 'one more' })).toBe('created')
})

manyTest(
  'many machines behind one address prove a key and wait for their registration at once; more come back later',
  async () => {
    const host = await startHost()
    const { key } = await createKey(host)
    const connections = Array.from({ length: WORKERS_JOINING_MAX }, () => dial(host, key))
    expect(host.hostApi.hasWorkerSeat('192.0.2.1')).toBe(true)
    expect(() => dial(host, key)).toThrow('try again later')
    await connections[0]?.send(registerWithKey(key))
    const late = dial(host, key)
    await late.send(registerWithKey(key))
    expect(late.hasReceived('registered')).toBe(true)
  },
)

// ---- ephemeral workers ---------------------------------------------------------------------------------------------

const ephemeralHost = () => startHost(configWith({ fleet: { ephemeralSeconds: 300 } }))

test('an ephemeral worker is removed fleet.ephemeralSeconds after its socket closed, and its seat is free', async () => {
  const host = await ephemeralHost()
  const { key, id } = await createKey(host, { ephemeral: true, maxWorkers: 1 })
  const worker = await join(host, key)
  expect(workersOf(host)).toMatchObject([{ ephemeral: true, connection: 'online' }])
  await worker.connection.drop()
  await host.advance(299)
  expect(workersOf(host)).toHaveLength(1)
  await host.advance(2)
  expect([workersOf(host), countOf(host, id)]).toEqual([[], 0])
  const again = await reconnect(host, worker)
  expect(again.lastReceived('rejected').code).toBe('unauthorized')
  await join(host, key)
})

test('a machine that said that it ends leaves its seat with its connection, before it is removed', async () => {
  const host = await ephemeralHost()
  const { key, id } = await createKey(host, { ephemeral: true, maxWorkers: 1 })
  const worker = await join(host, key)
  await worker.connection.send({ ...heartbeat(host), capabilities: { ...capabilities, ending: true } })
  expect(countOf(host, id)).toBe(1)
  await worker.connection.drop()
  expect([workersOf(host).length, countOf(host, id)]).toEqual([1, 0])
  await join(host, key)
})

/** The worker says that it ends, and is gone. */
async function end(host: HostConversation, { connection }: EnrolledScriptedWorker): Promise<void> {
  await connection.send({ ...heartbeat(host), capabilities: { ...capabilities, ending: true } })
  await connection.drop()
}

test('a machine that has left its seat comes back only when the key has room for it', async () => {
  const host = await ephemeralHost()
  const { key, id } = await createKey(host, { ephemeral: true, maxWorkers: 1 })
  const first = await join(host, key)
  await end(host, first)
  const second = await join(host, key)
  const refused = await reconnect(host, first)
  expect([refused.hasReceived('registered'), refused.closed?.code, countOf(host, id)]).toEqual([
    false,
    1013,
    1,
  ])
  await end(host, second)
  expect((await reconnect(host, first)).hasReceived('registered')).toBe(true)
  expect(countOf(host, id)).toBe(1)
})

test('a machine that comes back to end without a seat gets no run, whatever its heartbeats say', async () => {
  const host = await ephemeralHost()
  const { key } = await createKey(host, { ephemeral: true, maxWorkers: 1 })
  const ended = await join(host, key)
  await end(host, ended)
  const second = await join(host, key)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  await second.connection.send(new Work(second.connection.lastReceived('dispatch')).accept())
  const connection = host.connect()
  const register = registerWithCredential(ended)
  await connection.send({ ...register, capabilities: { ...register.capabilities, ending: true } })
  expect(connection.hasReceived('registered')).toBe(true)
  await connection.send({ ...heartbeat(host), capabilities })
  host.tracker.put(ticket('ENG-2'), ticket('ENG-3'))
  await host.settle()
  expect(connection.hasReceived('dispatch')).toBe(false)
  expect((await reconnect(host, ended)).closed?.code).toBe(1013)
  expect(workersOf(host).map(({ capabilities: own }) => own?.ending)).toEqual([true, undefined])
})

test('a machine that has left its seat does not come back after its key was deleted', async () => {
  const host = await ephemeralHost()
  const { key, id } = await createKey(host, { ephemeral: true, maxWorkers: 1 })
  const worker = await join(host, key)
  await end(host, worker)
  await host.succeeded(host.hostApi.deleteJoinKey(id, false))
  expect((await reconnect(host, worker)).closed?.code).toBe(1013)
  await host.advance(301)
  expect((await reconnect(host, worker)).lastReceived('rejected').code).toBe('unauthorized')
})

manyTest('machines that have ended keep no other machine out of a full fleet', async () => {
  const host = await ephemeralHost()
  const { key } = await createKey(host, { ephemeral: true, maxWorkers: 1 })
  const gone = await join(host, key)
  await end(host, gone)
  const { database } = host.store
  const record = database.snapshots.get('worker', gone.workerId)
  if (record === undefined) throw new Error('no record')
  const copies = Array.from({ length: WORKERS_MAX - 1 }, (_, at): Write => {
    const id = `wk-${String(at).padStart(16, '0')}`
    return {
      table: 'snapshot',
      kind: 'worker',
      key: id,
      record: { ...record, c: { ...Object(record.c), id } },
    }
  })
  void database.commit(copies)
  await host.crash()
  expect(workersOf(host)).toHaveLength(WORKERS_MAX)
  const { connection } = await enroll(host)
  expect(connection.hasReceived('registered')).toBe(true)
  await join(host, key)
  expect(workersOf(host)).toHaveLength(WORKERS_MAX)
})

test('a lasting worker that sleeps keeps its seat, because it comes back without asking for one', async () => {
  const host = await startHost()
  const { key, id } = await createKey(host, { maxWorkers: 1 })
  const worker = await join(host, key)
  await worker.connection.send({ ...heartbeat(host), capabilities: { ...capabilities, ending: true } })
  await worker.connection.drop()
  expect(countOf(host, id)).toBe(1)
})

test('wanted is never more than the key has seats', async () => {
  const host = await startHost(
    configWith({ agent: { agentAApiKey: 'key-of-agent-a' }, codehost: { token: 'token-of-github' } }),
  )
  const { key, id } = await createKey(host, { maxWorkers: 2 })
  const wantedWith = (joinKeyId?: string) => {
    const demand = host.hostApi.demand(undefined, joinKeyId)
    return demand.ok ? demand.value.wanted : undefined
  }
  for (const name of ['ENG-1', 'ENG-2', 'ENG-3']) host.tracker.put(ticket(name))
  await host.settle()
  expect([wantedWith(id), wantedWith()]).toEqual([2, 3])
  const worker = await join(host, key)
  await host.settle()
  expect([wantedWith(id), wantedWith()]).toEqual([1, 1])
  expect(worker.connection.lastReceived('dispatch')).toBeDefined()
})

test('an ephemeral worker that comes back in time stays, and its next absence counts anew', async () => {
  const host = await ephemeralHost()
  const { key } = await createKey(host, { ephemeral: true })
  const worker = await join(host, key)
  await worker.connection.drop()
  await host.advance(200)
  const connection = await reconnect(host, worker)
  for (let beat = 0; beat < 10; beat++) {
    await connection.sendHeartbeat()
    await host.advance(20)
  }
  await connection.drop()
  await host.advance(299)
  expect(workersOf(host)).toHaveLength(1)
  await host.advance(2)
  expect(workersOf(host)).toEqual([])
})

test('an ephemeral worker whose line was replaced by a new one stays as long as that is open', async () => {
  const host = await ephemeralHost()
  const { key } = await createKey(host, { ephemeral: true })
  const worker = await join(host, key)
  const connection = await reconnect(host, worker)
  for (let beat = 0; beat < 20; beat++) {
    await connection.sendHeartbeat()
    await host.advance(20)
  }
  expect(workersOf(host)).toMatchObject([{ id: worker.workerId, connection: 'online' }])
})

test('an ephemeral worker stays while it has a lease, and its run keeps its name', async () => {
  const host = await startHost(configWith({ fleet: { ephemeralSeconds: 0 } }))
  const { key } = await createKey(host, { ephemeral: true })
  const worker = await join(host, key)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const work = new Work(worker.connection.lastReceived('dispatch'))
  await worker.connection.send(work.accept(), work.running())
  await worker.connection.drop()
  await host.advance(60)
  expect(workersOf(host)).toHaveLength(1)
  const connection = await reconnect(host, worker, work)
  await connection.send(work.complete())
  await connection.drop()
  await host.advance(1)
  expect(workersOf(host)).toEqual([])
  expect(host.run(work.runId)).toMatchObject({ status: 'completed', sandbox: { workerName: 'worker' } })
})

test('an ephemeral worker that never comes back is removed after its lease has ended', async () => {
  const host = await ephemeralHost()
  const { key } = await createKey(host, { ephemeral: true })
  const worker = await join(host, key)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  const work = new Work(worker.connection.lastReceived('dispatch'))
  await worker.connection.send(work.accept(), work.running())
  await worker.connection.drop()
  await host.advance(165)
  expect(host.run(work.runId).status).toBe('queued')
  await host.advance(299)
  expect(workersOf(host)).toHaveLength(1)
  await host.advance(2)
  expect(workersOf(host)).toEqual([])
})

test('the removal survives restarts of the host, whose time counts; a worker that was connected has all of it again', async () => {
  const host = await ephemeralHost()
  const { key } = await createKey(host, { ephemeral: true })
  const gone = await join(host, key)
  const present = await join(host, key)
  await gone.connection.drop()
  for (let restart = 0; restart < 3; restart++) {
    await host.advance(90)
    await present.connection.sendHeartbeat()
    await host.crash()
    await reconnect(host, present)
  }
  expect(workersOf(host)).toHaveLength(2)
  await host.advance(31)
  expect(workersOf(host).map(({ id }) => id)).toEqual([present.workerId])
})

manyTest('1,000 ephemeral workers come and go, and leave nothing', async () => {
  const host = await ephemeralHost()
  const { key, id } = await createKey(host, { ephemeral: true, maxWorkers: 1_000 })
  const livingActors = () => [...host.hostApi.actorsByKind()].filter(([, count]) => count > 0)
  const actorsBefore = livingActors()
  const sizes = () => Object.entries(host.census()).filter(([, count]) => count > 0)
  const sizesBefore = sizes()
  for (let wave = 0; wave < 10; wave++) {
    const workers = await Promise.all(Array.from({ length: 100 }, () => join(host, key)))
    expect(countOf(host, id)).toBe(100)
    await Promise.all(workers.map(({ connection }) => connection.drop()))
    await host.advance(301)
  }
  expect(workersOf(host)).toEqual([])
  expect(livingActors()).toEqual(actorsBefore)
  expect(sizes()).toEqual(sizesBefore)
  expect([...host.store.database.snapshots.all('worker')]).toEqual([])
})
