/**
 * Today's worker at recorded hosts of earlier versions: it registers with its token, executes their jobs, and sends
 * nothing that they would refuse. A host that refuses unknown keys is asked again at once, in the first form.
 */
import { describe, expect, test } from '@jest/globals'
import type { HostFrame, WorkerFrame } from '../../../protocol/frames.ts'
import {
  PEERS,
  type Peer,
  problemOfPeer,
  type RecordedMessage,
  recordedConversation,
} from '../../peers/peer-schemas.ts'
import { DaemonConversation } from './daemon-conversation.ts'

const FIRST = PEERS[0]

/** Sends what the host sent, and has the executor report what the recorded worker reported. */
class RecordedHost {
  readonly daemon = new DaemonConversation()
  readonly #peer: Peer
  #connections = 0

  constructor(peer: Peer) {
    this.#peer = peer
    Object.assign(this.daemon, { token: 'wp-1', credential: undefined })
  }

  async replay({ connection, from, frame }: RecordedMessage): Promise<void> {
    if (connection > this.#connections) await this.#connect()
    if (from === 'host') await this.daemon.hostSends(this.#withEcho(frame as HostFrame))
    else await this.#execute(frame as WorkerFrame)
  }

  /** The host judges the `register` by its own schema. */
  async #connect(): Promise<void> {
    this.#connections += 1
    if (this.#connections === 1) await this.daemon.start()
    else {
      await this.daemon.loseConnection()
      await this.daemon.clock.advance(1_000)
    }
    await this.daemon.openConnection()
    const problem = this.#lastProblem()
    if (problem === undefined) return
    await this.daemon.hostSends({ type: 'rejected', code: 'malformed', reason: problem })
    await this.daemon.openConnection()
  }

  #lastProblem(): string | undefined {
    const sent = this.daemon.frames.at(-1)
    return sent?.type === 'register' ? problemOfPeer(this.#peer, 'worker', sent) : 'no register'
  }

  #withEcho(frame: HostFrame): HostFrame {
    const beat = this.daemon.frames.findLast(({ type }) => type === 'heartbeat')
    return 'echo' in frame && beat?.type === 'heartbeat' ? { ...frame, echo: beat.sentAt } : frame
  }

  async #execute(frame: WorkerFrame): Promise<void> {
    const { daemon } = this
    const { leaseId } = frame as { leaseId?: string }
    if (frame.type === 'heartbeat') await daemon.clock.advance(15_000)
    if (leaseId === undefined || frame.type === 'dispatch-accepted') return
    const { reporter } = daemon.executor.execution(leaseId)
    if (frame.type === 'run-patch' && frame.patch.status === 'running') await daemon.endPreparation(leaseId)
    else if (frame.type === 'run-patch' && frame.patch.status === 'finalizing') await daemon.endAgent(leaseId)
    else if (frame.type === 'run-patch') reporter.report({ is: 'patch', patch: frame.patch })
    else if (frame.type === 'run-event') reporter.report({ is: 'event', event: frame.event })
    else if (frame.type === 'run-artifact') reporter.report({ is: 'artifact', ...frame })
    else if (frame.type === 'run-memories') reporter.report({ is: 'memories', facts: frame.facts })
    else if (frame.type === 'run-usage-snapshot') reporter.report({ is: 'usage', snapshot: frame.snapshot })
    else if (frame.type === 'run-complete') await daemon.endFinish(leaseId, frame.outcome)
    await daemon.clock.settle()
  }

  /** Why the earlier host would not read frames that the worker sent, from its first readable registration on. */
  get problems(): string[] {
    const { frames } = this.daemon
    const from = frames.findIndex((frame) => problemOfPeer(this.#peer, 'worker', frame) === undefined)
    const refused = frames
      .slice(from)
      .flatMap((frame) => [[frame.type, problemOfPeer(this.#peer, 'worker', frame)] as const])
      .filter(([type, problem]) => problem !== undefined && type !== 'register')
    return refused.map(([type, problem]) => `${type}: ${problem}`)
  }
}

test.each(PEERS)('a host of $version gets all reports of its jobs', async (peer) => {
  const host = new RecordedHost(peer)
  const { daemon } = host
  const recording = recordedConversation(peer.version)
  for (const message of recording) await host.replay(message)
  expect(daemon.ends).toEqual([])
  expect(daemon.daemon.status()).toMatchObject({ online: true, executions: [] })
  expect([daemon.token, daemon.credential?.secret]).toEqual([undefined, expect.stringMatching(/^wc-/)])
  const completed = (frames: readonly { type: string }[]) =>
    frames.filter(({ type }) => type === 'run-complete').length
  expect(completed(daemon.frames)).toBe(completed(recording.map(({ frame }) => frame)))
  expect(host.problems).toEqual([])
  expect(daemon.transcript().filter((line) => line.startsWith('error'))).toEqual([])
})

describe('at a host of the first form', () => {
  async function registered(): Promise<DaemonConversation> {
    const host = new RecordedHost(FIRST)
    for (const message of recordedConversation(FIRST.version).slice(0, 3)) await host.replay(message)
    host.daemon.frames.splice(0)
    return host.daemon
  }

  test('a run whose agent has not begun is not claimed any more, so that the host queues it again', async () => {
    const daemon = await registered()
    await daemon.dispatch('ls-1')
    await daemon.acknowledge({ 'ls-1': 0 })
    daemon.daemon.drain()
    await daemon.clock.settle()
    expect(daemon.frames.some(({ type }) => type === 'run-complete')).toBe(false)
    expect(daemon.frames.findLast(({ type }) => type === 'heartbeat')).toMatchObject({ leases: [] })
  })

  test('a worker that was killed before the agent began reports an interruption', async () => {
    const daemon = await registered()
    await daemon.dispatch('ls-1')
    await daemon.restart()
    await daemon.openConnection()
    await daemon.hostSends({
      type: 'rejected',
      code: 'malformed',
      reason: '/capabilities/agents: unknown key',
    })
    daemon.frames.splice(0)
    await daemon.register({ 'ls-1': 0 })
    const complete = daemon.frames.find((frame) => frame.type === 'run-complete')
    expect(complete).toMatchObject({
      outcome: { status: 'failed', error: expect.stringMatching(/^interrupted: /) },
    })
    expect(complete).not.toHaveProperty('outcome.begun')
    expect(daemon.frames.flatMap((frame) => problemOfPeer(FIRST, 'worker', frame) ?? [])).toEqual([])
  })

  test('what the worker owes it beyond its protocol is not sent', async () => {
    const daemon = await registered()
    daemon.executor.expired = [{ runId: 'run-9', retainedUntil: '2026-01-01T00:00:00.000Z' }]
    for (let beats = 0; beats < 20; beats++) {
      await daemon.clock.advance(15_000)
      await daemon.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 0 })
    }
    expect(daemon.executor.protectedRuns.length).toBeGreaterThan(1)
    expect(daemon.daemon.status().online).toBe(true)
    expect(daemon.frames.flatMap((frame) => problemOfPeer(FIRST, 'worker', frame) ?? [])).toEqual([])
  })

  test('the next connection begins with all keys again, because the host may be updated', async () => {
    const daemon = await registered()
    await daemon.loseConnection()
    await daemon.clock.advance(1_000)
    await daemon.openConnection()
    expect(daemon.frames.at(-1)).toHaveProperty('oldestProtocolVersion')
  })
})
