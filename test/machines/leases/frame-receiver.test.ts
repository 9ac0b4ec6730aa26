/**
 * Tests of FrameReceiver with frames that are repeated, early or lost, slow or failing files, and a run event log
 * that throws: each frame is applied once and in order, and only frames on disk are acknowledged.
 */
import { describe, expect, test } from '@jest/globals'
import type { HostContext } from '../../../actors/host-context.ts'
import {
  FrameReceiver,
  LEASE_ACK_BYTES,
  LEASE_ACK_FRAMES,
  LEASE_PENDING_BYTES_MAX,
  type LeaseFrame,
} from '../../../actors/leases/frame-receiver.ts'
import type { LeaseContext, LeaseEvent } from '../../../actors/leases/lease.machine.ts'
import { type EventAppend, RunEventLog } from '../../../actors/runs/run-event-log.ts'
import { WorkerRegistry } from '../../../actors/workers/worker-registry.ts'
import { type Damage, DamagedRecord } from '../../../core/damage.ts'
import type { Artifacts, KeyValues, UsageArchive, Write } from '../../../core/ports/store.ts'
import type { RunPatch } from '../../../protocol/frames.ts'
import type { ReportedEvent } from '../../../protocol/run.ts'
import { ManualClock, settlePromises } from '../../support/manual-clock.ts'
import { Random, seedFromEnvironment } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

const SCHEDULES = Number(process.env.BOOK_SCHEDULES ?? 200)
const T0 = '2026-03-01T08:00:00.000Z'
const lease = (id: string): LeaseContext => ({
  id,
  runId: `run of ${id}`,
  workerId: 'wk-1',
  termMs: 1,
  grantedAt: T0,
  end: null,
  why: null,
})

/** A file write that the test ends. */
interface FileWrite {
  readonly seq: number
  done(outcome: 'kept' | 'refused' | 'failed'): void
}

function createReceiver(stored: Readonly<Record<string, object>> = {}, damage?: Damage) {
  const clock = new ManualClock()
  const log = createRecordingLog()
  /** Numbers of applied frames, by lease. */
  const applied = new Map<string, number[]>()
  const leaseEvents: string[] = []
  const acks: string[] = []
  const writing: FileWrite[] = []
  const trouble = { journal: false, screen: false, lease: false }
  const apply = (runId: string, seq: number) => {
    const id = runId.replace('run of ', '')
    applied.set(id, [...(applied.get(id) ?? []), seq])
  }

  /** The real log. Each event carries the number of its frame. */
  class ThrowingRunEventLog extends RunEventLog {
    override append(runId: string, event: ReportedEvent, logBytesMax?: number): EventAppend {
      if (trouble.journal && event.type === 'log' && event.stream === 'stdout') throw new Error('no ink')
      if (event.type === 'log' && event.stream === 'stdout') apply(runId, Number(event.text))
      return super.append(runId, event, logBytesMax)
    }
  }
  const runEventLog = new ThrowingRunEventLog({
    events: { begin: () => {}, nextIndex: () => 0, storedBytes: () => 0 },
    requestCommit: () => {},
    publish: () => {},
    onLimit: () => {},
  })
  const writeFile = <T>(runId: string, seq: number, kept: T, refused: T): Promise<T> =>
    new Promise((resolve, reject) => {
      writing.push({
        seq,
        done: (outcome) => {
          if (outcome === 'failed') return reject(new Error('no room left on the disk'))
          apply(runId, seq)
          resolve(outcome === 'kept' ? kept : refused)
        },
      })
    })

  const keyValues: KeyValues = {
    get: (_collection, key) => {
      if (damage !== undefined) throw new DamagedRecord(damage)
      return stored[key]
    },
    all: () => [],
  }
  const artifacts: Pick<Artifacts, 'write'> = {
    write: (runId, name) =>
      writeFile<'kept' | { readonly refused: string }>(runId, Number(name), 'kept', {
        refused: 'it is too large',
      }),
  }
  const usage: Pick<UsageArchive, 'replace'> = {
    replace: ({ projectKey, sessionId }) =>
      writeFile(`run of ${projectKey}`, Number(sessionId), undefined, undefined),
  }
  const sendToLease = (id: string, event: LeaseEvent) => {
    if (trouble.lease && event.type === 'completed') throw new Error('no line')
    leaseEvents.push(`${id} ${event.type}`)
    // The host does the same when the lease has ended.
    if (event.type === 'completed') {
      apply(`run of ${id}`, 0)
      receiver.closeLease(id)
    }
  }
  // The casts hold because the receiver uses nothing else of the host.
  const context = {
    clock,
    instant: () => new Date(clock.now()).toISOString(),
    log,
    meters: noMeters,
    store: { database: { keyValues }, artifacts, usage },
    system: {
      isRunning: () => true,
      send: (_kind: string, id: string, event: LeaseEvent) => sendToLease(id, event),
    },
    config: () => ({
      sandbox: {
        retentionHours: 24,
        maxLogMib: Number.POSITIVE_INFINITY,
        maxArtifactsMib: Number.POSITIVE_INFINITY,
      },
    }),
    requestCommit: () => {},
    onInvariantViolated: () => void leaseEvents.push('a law was broken'),
  } as unknown as HostContext
  const modules = {
    workers: { registry: new WorkerRegistry() },
    runs: {
      send: (runId: string, event: { readonly patch: RunPatch }) =>
        apply(runId, Number(event.patch.agentSessionId)),
    },
    runRecords: { eventLog: runEventLog },
    leaseShares: { labelOf: () => undefined },
    jobs: {
      preparation: {
        screenSession: (_: string, report: object) => report,
        recordMemories: (runId: string, _repo: string, facts: readonly string[]) =>
          apply(runId, Number(facts[0])),
      },
      runPulls: {
        screen(_: string, report: object) {
          if (trouble.screen) throw new Error('no sieve')
          return { report }
        },
      },
    },
  } as unknown as ConstructorParameters<typeof FrameReceiver>[1]
  const receiver: FrameReceiver = new FrameReceiver(context, modules, (_workerId, id) => void acks.push(id))
  const isOpen = (id: string): boolean => !leaseEvents.includes(`${id} completed`)
  /** Starts a commit; `land` puts it on disk. */
  const commit = () => {
    const contributions = [runEventLog.contribute(), receiver.contribute()].filter(
      (contribution) => contribution !== undefined,
    )
    return {
      writes: contributions.flatMap(({ writes }) => writes),
      land: () => {
        for (const contribution of contributions) contribution.onCommitted()
      },
    }
  }
  return { receiver, clock, log, applied, leaseEvents, acks, writing, trouble, commit, isOpen }
}

const event = (leaseId: string, seq: number): LeaseFrame => ({
  type: 'run-event',
  leaseId,
  seq,
  event: { at: T0, type: 'log', stream: 'stdout', text: String(seq) },
})

/** A frame of any kind whose content carries its own number. */
function frameOf(leaseId: string, seq: number, kind: number): LeaseFrame {
  switch (kind) {
    case 0:
      return { type: 'run-patch', leaseId, seq, patch: { agentSessionId: String(seq) } }
    case 1:
      return { type: 'run-memories', leaseId, seq, repo: 'owner/name', facts: [String(seq)] }
    case 2:
      return { type: 'run-artifact', leaseId, seq, name: String(seq), part: 0, final: true, data: '' }
    case 3: {
      const snapshot = { projectKey: leaseId, sessionId: String(seq), entries: [] }
      return { type: 'run-usage-snapshot', leaseId, seq, snapshot }
    }
    default:
      return event(leaseId, seq)
  }
}

const complete = (leaseId: string, seq: number): LeaseFrame => ({
  type: 'run-complete',
  leaseId,
  seq,
  outcome: { status: 'completed', costs: [] },
})

const markIn = (writes: readonly Write[], id: string): unknown =>
  writes.flatMap((write) =>
    write.table === 'key-value' && write.collection === 'mark' && write.key === id ? [write.value] : [],
  )[0]

const eventsIn = (writes: readonly Write[]): unknown[] =>
  writes.flatMap((write) =>
    write.table === 'events'
      ? Buffer.from(write.lines)
          .toString()
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line))
      : [],
  )

describe('FrameReceiver', () => {
  test('accepts frames of known leases from their own worker only', () => {
    const { receiver, applied } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    expect(receiver.receiveFrame('wk-2', event('ls-1', 1), 10)).toBe(false)
    expect(receiver.receiveFrame('wk-1', event('ls-9', 1), 10)).toBe(false)
    expect(receiver.receiveFrame('wk-1', event('ls-1', 1), 10)).toBe(true)
    expect(applied.get('ls-1')).toEqual([1])
  })

  test('a worker that sends frames has accepted, even if `dispatch-accepted` was lost', () => {
    const { receiver, leaseEvents } = createReceiver()
    receiver.openLease(lease('ls-1'), false, false)
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    receiver.receiveFrame('wk-1', event('ls-1', 2), 10)
    expect(leaseEvents).toEqual(['ls-1 accepted'])
  })

  test('applies the next frame, ignores repeats, and does not keep early frames', () => {
    const { receiver, applied } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    for (const seq of [1, 1, 3, 2, 2, 3]) receiver.receiveFrame('wk-1', event('ls-1', seq), 10)
    expect(applied.get('ls-1')).toEqual([1, 2, 3])
    expect(receiver.countUncommittedFrames()).toBe(3)
  })

  test('acknowledges frames on disk only', () => {
    const { receiver, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    const first = commit()
    receiver.receiveFrame('wk-1', event('ls-1', 2), 10)
    expect(receiver.acknowledge('ls-1')).toBe(0)
    expect(markIn(first.writes, 'ls-1')).toEqual({ mark: 1, lost: [] })
    first.land()
    expect(receiver.acknowledge('ls-1')).toBe(1)
    expect(receiver.pendingBytes).toBe(10)
    commit().land()
    expect(receiver.acknowledge('ls-1')).toBe(2)
    expect(receiver.pendingBytes).toBe(0)
    expect(receiver.countUncommittedFrames()).toBe(0)
  })

  test('continues after a restart from the watermark on disk', () => {
    const { receiver, applied } = createReceiver({ 'ls-1': { mark: 4, lost: [[2, 3]] } })
    receiver.openLease(lease('ls-1'), true, true)
    expect(receiver.acknowledge('ls-1')).toBe(4)
    for (const seq of [4, 5]) receiver.receiveFrame('wk-1', event('ls-1', seq), 10)
    expect(applied.get('ls-1')).toEqual([5])
  })

  test('a gap is logged in the run and advances the watermark', () => {
    const { receiver, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    receiver.receiveFrame('wk-1', { type: 'lease-gap', leaseId: 'ls-1', from: 2, to: 4 }, 10)
    const { writes } = commit()
    expect(markIn(writes, 'ls-1')).toEqual({ mark: 4, lost: [[2, 4]] })
    expect(eventsIn(writes)).toMatchObject([{ type: 'log' }, { type: 'gap', from: 2, to: 4 }])
  })

  test('a frame that needs a file holds back later frames until the file is on disk', async () => {
    const { receiver, applied, writing, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', frameOf('ls-1', 1, 2), 10)
    receiver.receiveFrame('wk-1', event('ls-1', 2), 10)
    expect(commit().writes).toEqual([])
    expect(applied.get('ls-1')).toBeUndefined()
    writing[0]?.done('kept')
    await settlePromises()
    expect(applied.get('ls-1')).toEqual([1, 2])
    expect(markIn(commit().writes, 'ls-1')).toEqual({ mark: 2, lost: [] })
  })

  test('a failed file write drops the frames behind it: the unchanged watermark asks for them again', async () => {
    const { receiver, applied, writing, log } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', frameOf('ls-1', 1, 3), 10)
    receiver.receiveFrame('wk-1', event('ls-1', 2), 10)
    writing[0]?.done('failed')
    await settlePromises()
    expect(applied.get('ls-1')).toBeUndefined()
    expect(receiver.pendingBytes).toBe(0)
    expect(log.lines.map(({ message }) => message)).toEqual([expect.stringContaining('will resend')])
  })

  test('a refused file counts as written, and the run’s log names the reason', async () => {
    const { receiver, writing, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', frameOf('ls-1', 1, 2), 10)
    writing[0]?.done('refused')
    await settlePromises()
    const { writes } = commit()
    const text = expect.stringContaining('was not kept: it is too large')
    expect(eventsIn(writes)).toEqual([expect.objectContaining({ type: 'log', text })])
    expect(markIn(writes, 'ls-1')).toEqual({ mark: 1, lost: [] })
  })

  test('frames over the limit of waiting bytes are dropped as a whole', () => {
    const { receiver, applied, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    const half = LEASE_PENDING_BYTES_MAX / 2
    for (const seq of [1, 2, 3]) receiver.receiveFrame('wk-1', event('ls-1', seq), half)
    expect(applied.get('ls-1')).toEqual([1, 2])
    commit().land()
    receiver.receiveFrame('wk-1', event('ls-1', 3), half)
    expect(applied.get('ls-1')).toEqual([1, 2, 3])
  })

  test('frames after a completion have no effect', () => {
    const { receiver, applied, leaseEvents, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    commit().land()
    receiver.receiveFrame('wk-1', complete('ls-1', 2), 10)
    expect(receiver.receiveFrame('wk-1', event('ls-1', 3), 10)).toBe(false)
    expect(applied.get('ls-1')).toEqual([1, 0])
    expect(leaseEvents).toEqual(['ls-1 completed'])
    expect(markIn(commit().writes, 'ls-1')).toBeNull()
    expect(receiver.size).toBe(0)
  })

  test('a completion waits for all frames before it', async () => {
    const { receiver, leaseEvents, writing } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', complete('ls-1', 2), 10)
    expect(leaseEvents).toEqual([])
    receiver.receiveFrame('wk-1', frameOf('ls-1', 1, 2), 10)
    receiver.receiveFrame('wk-1', complete('ls-1', 2), 10)
    expect(leaseEvents).toEqual([])
    writing[0]?.done('kept')
    await settlePromises()
    expect(leaseEvents).toEqual(['ls-1 completed'])
    expect(receiver.pendingBytes).toBe(0)
  })

  test('a lease that ended before its first commit leaves nothing on disk', () => {
    const { receiver, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    receiver.closeLease('ls-1')
    expect(markIn(commit().writes, 'ls-1')).toBeUndefined()
    expect(receiver.pendingBytes).toBe(0)
  })

  test('frames of an ignored worker have no effect, even those that waited for a file', async () => {
    const { receiver, applied, writing, commit } = createReceiver()
    for (const id of ['ls-1', 'ls-2']) receiver.openLease(lease(id), false, true)
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    receiver.receiveFrame('wk-1', frameOf('ls-2', 1, 2), 10)
    receiver.receiveFrame('wk-1', event('ls-2', 2), 10)
    receiver.ignoreWorker('wk-1')
    receiver.receiveFrame('wk-1', event('ls-1', 2), 10)
    writing[0]?.done('kept')
    await settlePromises()
    expect(applied.get('ls-1')).toEqual([1])
    const { writes, land } = commit()
    expect(markIn(writes, 'ls-1')).toEqual({ mark: 1, lost: [] })
    expect(markIn(writes, 'ls-2')).toBeUndefined()
    land()
    expect(receiver.pendingBytes).toBe(0)
  })

  test('a watermark is erased when its lease ended while it was being written', () => {
    const { receiver, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    const first = commit()
    receiver.closeLease('ls-1')
    first.land()
    expect(markIn(commit().writes, 'ls-1')).toBeNull()
    expect(receiver.pendingBytes).toBe(0)
  })

  test('enough frames or bytes on disk make an acknowledgement due', () => {
    const { receiver, acks, commit } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    for (let seq = 1; seq < LEASE_ACK_FRAMES; seq++) receiver.receiveFrame('wk-1', event('ls-1', seq), 1)
    commit().land()
    expect(acks).toEqual([])
    receiver.receiveFrame('wk-1', event('ls-1', LEASE_ACK_FRAMES), 1)
    commit().land()
    expect(acks).toEqual(['ls-1'])
    expect(receiver.acknowledge('ls-1')).toBe(LEASE_ACK_FRAMES)
    receiver.receiveFrame('wk-1', event('ls-1', LEASE_ACK_FRAMES + 1), LEASE_ACK_BYTES)
    commit().land()
    expect(acks).toEqual(['ls-1', 'ls-1'])
  })

  test('a frame that throws is not applied, and the worker resends it', () => {
    const { receiver, applied, trouble, log } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    trouble.journal = true
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    trouble.journal = false
    expect(receiver.countUncommittedFrames()).toBe(0)
    expect(receiver.pendingBytes).toBe(0)
    receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    expect(applied.get('ls-1')).toEqual([1])
    expect(log.lines).toMatchObject([{ level: 'error', fields: { lease: 'ls-1', err: expect.any(Error) } }])
  })

  test.each(['screen', 'lease'] as const)(
    'a completion that throws in its %s is not applied, and the worker resends it',
    (part) => {
      const { receiver, leaseEvents, trouble } = createReceiver()
      receiver.openLease(lease('ls-1'), false, true)
      receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
      trouble[part] = true
      expect(receiver.receiveFrame('wk-1', complete('ls-1', 2), 10)).toBe(true)
      trouble[part] = false
      expect(receiver.countUncommittedFrames()).toBe(1)
      receiver.receiveFrame('wk-1', complete('ls-1', 2), 10)
      expect(leaseEvents).toEqual(['ls-1 completed'])
      expect(receiver.size).toBe(0)
    },
  )

  test('a completion that throws lets a repeat behind it count, which waited for the same file', async () => {
    const { receiver, leaseEvents, trouble, writing, log } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    receiver.receiveFrame('wk-1', frameOf('ls-1', 1, 2), 10)
    for (let n = 0; n < 2; n++) receiver.receiveFrame('wk-1', complete('ls-1', 2), 10)
    trouble.screen = true
    const { error } = log
    log.error = (...line) => {
      trouble.screen = false
      error(...line)
    }
    writing[0]?.done('kept')
    await settlePromises()
    expect(leaseEvents).toEqual(['ls-1 completed'])
    expect(receiver.pendingBytes).toBe(0)
  })

  test('a completion that throws repeatedly fails its lease', () => {
    const { receiver, leaseEvents, trouble } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    trouble.screen = true
    for (let n = 0; n < 3; n++) receiver.receiveFrame('wk-1', complete('ls-1', 1), 10)
    expect(leaseEvents).toEqual(['ls-1 frames failed'])
  })

  test('a run with a damaged watermark starts again when the worker of its lease is there', () => {
    const { receiver, leaseEvents, applied } = createReceiver(
      {},
      { id: 'mark ls-1', where: 'mark', message: 'the stored mark ls-1 is damaged' },
    )
    receiver.openLease(lease('ls-1'), true, true)
    expect(receiver.receiveFrame('wk-1', event('ls-1', 1), 10)).toBe(true)
    expect([leaseEvents, applied.get('ls-1')]).toEqual([[], undefined])
    expect(receiver.mayAcknowledge('ls-1')).toBe(false)
    receiver.onLeaseHeld('ls-1')
    expect(leaseEvents).toEqual(['ls-1 frames failed'])
  })

  test('a frame that throws repeatedly fails its lease, and later frames have no effect', () => {
    const { receiver, applied, trouble } = createReceiver()
    receiver.openLease(lease('ls-1'), false, true)
    trouble.journal = true
    for (let n = 0; n < 3; n++) receiver.receiveFrame('wk-1', event('ls-1', 1), 10)
    trouble.journal = false
    expect(receiver.receiveFrame('wk-1', event('ls-1', 1), 10)).toBe(true)
    expect(applied.get('ls-1')).toBeUndefined()
    expect(receiver.pendingBytes).toBe(0)
  })
})

// ---- against a naive model -----------------------------------------------------------------------------------------

/** A lease as its worker knows it: all frames, and which of them the worker lost. */
interface WorkerLease {
  readonly id: string
  readonly frames: readonly LeaseFrame[]
  readonly bytes: readonly number[]
  /** Ranges of frames that the worker lost, both ends included. */
  readonly gaps: readonly (readonly [number, number])[]
}

function randomLease(id: string, random: Random): WorkerLease {
  const length = 3 + random.below(25)
  const frames = Array.from({ length }, (_, at) => frameOf(id, at + 1, random.below(12)))
  frames.push(complete(id, length + 1))
  const gaps: (readonly [number, number])[] = []
  for (let from = 1 + random.below(8); from < length; from += 3 + random.below(12)) {
    const to = Math.min(length, from + random.below(3))
    gaps.push([from, to])
    from = to
  }
  // Some frames are so large that few of them fit into the limit.
  const bytes = frames.map(() => (random.chance(0.1) ? LEASE_PENDING_BYTES_MAX / 2 : 1 + random.below(1_000)))
  return { id, frames, bytes, gaps }
}

const gapAt = ({ gaps }: WorkerLease, seq: number) => gaps.find(([from, to]) => from <= seq && seq <= to)

function sendFrame(harness: ReturnType<typeof createReceiver>, workerLease: WorkerLease, seq: number): void {
  const gap = gapAt(workerLease, seq)
  const frame = workerLease.frames[seq - 1]
  if (gap !== undefined) {
    harness.receiver.receiveFrame(
      'wk-1',
      { type: 'lease-gap', leaseId: workerLease.id, from: gap[0], to: gap[1] },
      50,
    )
  } else if (frame !== undefined)
    harness.receiver.receiveFrame('wk-1', frame, workerLease.bytes[seq - 1] ?? 1)
}

/** The frames that should be applied, once and in this order; the completion is written as 0. */
const expected = (workerLease: WorkerLease): number[] => [
  ...workerLease.frames
    .map((_, at) => at + 1)
    .filter((seq) => seq < workerLease.frames.length && gapAt(workerLease, seq) === undefined),
  0,
]

async function schedule(seed: number): Promise<void> {
  const random = new Random(seed)
  const harness = createReceiver()
  const { receiver, applied, writing, trouble, clock, isOpen } = harness
  const leases = ['ls-1', 'ls-2', 'ls-3'].map((id) => randomLease(id, random))
  const onDisk = new Map<string, number>()
  const flying: { readonly writes: readonly Write[]; land(): void }[] = []
  for (const { id } of leases) receiver.openLease(lease(id), false, random.chance(0.5))

  const land = () => {
    const first = flying.shift()
    if (first === undefined) return
    for (const { id } of leases) {
      const value = markIn(first.writes, id) as { mark: number } | null | undefined
      if (value !== undefined && value !== null) onDisk.set(id, value.mark)
    }
    first.land()
  }
  const wanted = new Map(leases.map((workerLease) => [workerLease.id, expected(workerLease)]))
  const check = () => {
    for (const { id, gaps } of leases) {
      if (!isOpen(id)) continue
      const seen = applied.get(id) ?? []
      // Applied frames must be a prefix of the expected ones: each once, and in order.
      if (!seen.every((seq, at) => wanted.get(id)?.[at] === seq)) throw new Error(`${id} applied ${seen}`)
      const acknowledged = receiver.acknowledge(id)
      if (acknowledged > (onDisk.get(id) ?? 0))
        throw new Error(`${id} acknowledged ${acknowledged}, not on disk`)
      const lost = gaps.reduce(
        (sum, [from, to]) => sum + Math.max(0, Math.min(to, acknowledged) - from + 1),
        0,
      )
      if (seen.length < acknowledged - lost)
        throw new Error(`${id} acknowledged ${acknowledged}, applied ${seen}`)
    }
    if (receiver.pendingBytes < 0) throw new Error(`${receiver.pendingBytes} bytes are pending`)
  }

  for (let step = 0; step < 150; step++) {
    const workerLease = random.pick(leases)
    const due = isOpen(workerLease.id) ? receiver.acknowledge(workerLease.id) + 1 : workerLease.frames.length
    const die = random.fraction()
    if (die < 0.6) {
      // Usually resend from the acknowledged frame on, as a worker does; now and then from anywhere.
      const from = random.chance(0.8) ? due : 1 + random.below(workerLease.frames.length)
      const many = 1 + random.below(8)
      for (let seq = from; seq < from + many; seq++)
        if (random.chance(0.95)) sendFrame(harness, workerLease, seq)
    } else if (die < 0.75) {
      writing
        .splice(random.below(writing.length), 1)[0]
        ?.done(random.pick(['kept', 'kept', 'refused', 'failed']))
      await settlePromises()
    } else if (die < 0.85) flying.push(harness.commit())
    else if (die < 0.95) land()
    else {
      trouble.journal = true
      sendFrame(harness, workerLease, due)
      trouble.journal = false
      // Leave enough time between the errors, so that the lease is not given up.
      await clock.advance(60_001)
    }
    check()
  }

  // Resend everything until everything is acknowledged.
  for (let round = 0; round < 200 && receiver.size > 0; round++) {
    for (const workerLease of leases) {
      if (!isOpen(workerLease.id)) continue
      for (let seq = receiver.acknowledge(workerLease.id) + 1; seq <= workerLease.frames.length; seq++)
        sendFrame(harness, workerLease, seq)
    }
    for (const file of writing.splice(0)) file.done('kept')
    await settlePromises()
    flying.push(harness.commit())
    while (flying.length > 0) land()
  }
  expect(receiver.size).toBe(0)
  for (const workerLease of leases) expect(applied.get(workerLease.id)).toEqual(expected(workerLease))
  flying.push(harness.commit())
  while (flying.length > 0) land()
  expect(receiver.pendingBytes).toBe(0)
  expect(receiver.countUncommittedFrames()).toBe(0)
  expect(harness.leaseEvents).not.toContain('a law was broken')
}

test(
  `${SCHEDULES} random schedules: each frame is applied once and in order, and what is acknowledged is on disk`,
  async () => {
    const from = seedFromEnvironment(1)
    for (let seed = from; seed < from + SCHEDULES; seed++) {
      try {
        await schedule(seed)
      } catch (error) {
        throw new Error(`SEED=${seed}: ${String(error)}`, { cause: error })
      }
    }
  },
  60_000 + SCHEDULES * 50,
)
