/**
 * Recorded workers of earlier versions at today's host: they enroll, execute runs, are cancelled, drained and come back,
 * and read everything that the host sends to them.
 */
import { expect, test } from '@jest/globals'
import type { HostFrame } from '../../protocol/frames.ts'
import {
  PEERS,
  type Peer,
  problemOfPeer,
  type RecordedMessage,
  recordedConversation,
} from '../peers/peer-schemas.ts'
import { ManualPullRequests } from '../support/manual-code-host.ts'
import {
  configWith,
  enroll,
  HostConversation,
  pairingToken,
  type ScriptedConnection,
  ticket,
} from './host-conversation.ts'

/** As in the recorded system. */
const CONFIG = configWith({
  repos: { plain: { remote: 'acme/plain' } },
  agent: { commands: { agentA: 'scripted-agent' } },
  codehost: { driver: 'local', path: '/recorded/code' },
})

/** Sends what the worker sent, with the ids of this host, and lets this host do what the recorded host did. */
class RecordedWorker {
  readonly connections: ScriptedConnection[] = []
  readonly #host: HostConversation
  /** This host's ids and secrets, by the recorded ones. */
  readonly #names = new Map<string, string>()

  constructor(host: HostConversation) {
    this.#host = host
  }

  get connection(): ScriptedConnection {
    const last = this.connections.at(-1)
    if (last === undefined) throw new Error('the worker has not connected')
    return last
  }

  async replay({ connection, from, frame }: RecordedMessage): Promise<void> {
    if (connection > this.connections.length) await this.#connect()
    if (from === 'host') await this.#followHost(frame)
    else await this.connection.send(this.#renamed(frame))
  }

  async #connect(): Promise<void> {
    await this.connections.at(-1)?.drop()
    this.connections.push(this.#host.connect('worker'))
  }

  #renamed(frame: object): object {
    let text = JSON.stringify(frame)
    for (const [recorded, name] of this.#names) text = text.replaceAll(recorded, name)
    const { auth } = JSON.parse(text)
    return auth?.kind === 'pairing'
      ? { ...JSON.parse(text), auth: { ...auth, token: pairingToken(this.#host) } }
      : JSON.parse(text)
  }

  async #followHost(frame: RecordedMessage['frame']): Promise<void> {
    // Only hosts sent these messages.
    const recorded = frame as HostFrame
    const { hostApi, tracker } = this.#host
    const [id] = hostApi.fleet().workers.map((worker) => worker.id)
    if (recorded.type === 'dispatch') {
      const { identifier, title, repo = '' } = recorded.job.run.ticket
      tracker.put(ticket(identifier, { title, repo }))
      await this.#host.settle()
      const sent = this.connection.lastReceived('dispatch')
      this.#names.set(recorded.lease.id, sent.lease.id).set(recorded.lease.runId, sent.lease.runId)
    } else if (recorded.type === 'registered') {
      const sent = this.connection.lastReceived('registered')
      this.#names.set(recorded.workerId, sent.workerId)
      if (recorded.credential !== undefined) this.#names.set(recorded.credential, sent.credential ?? '')
    } else if (recorded.type === 'cancel')
      await this.#host.succeeded(hostApi.cancelRun(this.connection.lastReceived('dispatch').lease.runId))
    else if (recorded.type === 'worker-state')
      await this.#host.succeeded(
        recorded.state === 'draining' ? hostApi.drainWorker(id ?? '') : hostApi.enableWorker(id ?? ''),
      )
    expect(this.connection.received.map(({ type }) => type)).toContain(recorded.type)
  }
}

async function replayAll(peer: Peer): Promise<{ host: HostConversation; worker: RecordedWorker }> {
  const host = new HostConversation(CONFIG)
  host.overrides = { pulls: () => ({ ok: true, value: new ManualPullRequests() }) }
  await host.start()
  await host.clock.advance(1000)
  const worker = new RecordedWorker(host)
  for (const message of recordedConversation(peer.version)) await worker.replay(message)
  return { host, worker }
}

test.each(PEERS)('a worker of $version works for this host', async (peer) => {
  const { host, worker } = await replayAll(peer)
  expect(
    host
      .allRuns()
      .map(({ ticket: { identifier }, status }) => `${identifier} ${status}`)
      .sort(),
  ).toEqual(['ENG-1 completed', 'ENG-2 cancelled', 'ENG-3 completed'])
  const run = host.runOf('ENG-1')
  expect(run).toMatchObject({
    result: { branch: 'switchyard/eng-1', artifacts: ['report.md'] },
    costs: [{ label: 'run' }],
  })
  expect(host.hostApi.memories()).toMatchObject({ repos: { 'acme/plain': [{ text: expect.any(String) }] } })
  expect(worker.connection.closed).toBeUndefined()
  expect(host.transcript.filter((line) => line.startsWith('!!'))).toEqual([])
  const sent = worker.connections.flatMap(({ received }) => received)
  expect(sent.map(({ type }) => type)).toEqual(
    expect.arrayContaining(['heartbeat-ack', 'lease-ack', 'run-complete-ack']),
  )
  expect(sent.flatMap((frame) => problemOfPeer(peer, 'host', frame) ?? [])).toEqual([])
})

test('a worker of the first form is not asked for its actors', async () => {
  const host = new HostConversation(CONFIG)
  await host.start()
  const current = await enroll(host, 'current')
  const worker = new RecordedWorker(host)
  const [register] = recordedConversation(PEERS[0].version)
  if (register !== undefined) await worker.replay(register)
  host.hostApi.inspect({ send: () => {}, backlog: () => 0 })
  for (const connection of [current.connection, worker.connection]) await connection.sendHeartbeat()
  expect(current.connection.hasReceived('watch-actors')).toBe(true)
  expect(worker.connection.hasReceived('watch-actors')).toBe(false)
})
