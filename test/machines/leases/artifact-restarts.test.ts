/**
 * Tests of FrameReceiver with a real store of artifacts and a host that restarts in the middle of artifacts: each
 * artifact is either kept whole, or named once in the run's log with all its bytes and the reason.
 */
import { describe, expect, test } from '@jest/globals'
import type { HostContext } from '../../../actors/host-context.ts'
import { FrameReceiver, type LeaseFrame } from '../../../actors/leases/frame-receiver.ts'
import { RunEventLog } from '../../../actors/runs/run-event-log.ts'
import type { Artifacts, Write } from '../../../core/ports/store.ts'
import { describeRefused } from '../../../core/run/arriving-artifact.ts'
import { ArtifactsOnDisk, describeFullBudget } from '../../../store/files/artifacts.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { MemoryArtifacts } from '../../support/memory-artifacts.ts'
import { Random, seedFromEnvironment } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const SCHEDULES = Number(process.env.ARTIFACT_SCHEDULES ?? 600)
const T0 = '2026-03-01T08:00:00.000Z'
const RUN = '01890000-0000-7000-8000-000000000001'
const LEASE = { id: 'ls-1', runId: RUN, workerId: 'wk-1', termMs: 1, grantedAt: T0, end: null, why: null }
const BUDGET = 1_000

type ReceiverModules = ConstructorParameters<typeof FrameReceiver>[1]

/** A host that is killed and started again on the same disk. */
class Host {
  readonly artifacts: Artifacts
  /** What the commits have written: watermarks by lease, and the lines of the run's log. */
  readonly marks = new Map<string, object>()
  readonly lines: string[] = []
  #writing: Promise<unknown> = Promise.resolve()
  #receiver!: FrameReceiver
  #runEventLog!: RunEventLog

  constructor(artifacts: Artifacts) {
    this.artifacts = artifacts
    this.start()
  }

  start(): void {
    const clock = new ManualClock()
    this.#runEventLog = new RunEventLog({
      events: { begin: () => {}, nextIndex: () => this.lines.length, storedBytes: () => 0 },
      requestCommit: () => {},
      publish: () => {},
      onLimit: () => {},
    })
    // The casts hold because the receiver uses nothing else of the host.
    const context = {
      clock,
      instant: () => T0,
      log: createRecordingLog(),
      meters: noMeters,
      store: {
        database: { keyValues: { get: (_collection: string, key: string) => this.marks.get(key) } },
        artifacts: {
          write: (...part: Parameters<Artifacts['write']>) => {
            const writing = this.artifacts.write(...part)
            this.#writing = writing
            return writing
          },
        },
      },
      config: () => ({ sandbox: { maxLogMib: 1, maxArtifactsMib: BUDGET / 2 ** 20 } }),
      requestCommit: () => {},
    } as unknown as HostContext
    const modules = { runRecords: { eventLog: this.#runEventLog } } as unknown as ReceiverModules
    this.#receiver = new FrameReceiver(context, modules, () => {})
    this.#receiver.openLease(LEASE, true, true)
  }

  /** Sends a frame, and waits until the host has applied it. */
  async send(frame: LeaseFrame): Promise<void> {
    const before = this.#receiver.countUncommittedFrames()
    this.#receiver.receiveFrame('wk-1', frame, 10)
    await this.#writing
    while (this.#receiver.countUncommittedFrames() === before) await new Promise(setImmediate)
  }

  commit(): void {
    const contributions = [this.#runEventLog.contribute(), this.#receiver.contribute()]
    for (const contribution of contributions) {
      for (const write of contribution?.writes ?? []) this.#store(write)
      contribution?.onCommitted()
    }
  }

  closeLease(): void {
    this.#receiver.closeLease(LEASE.id)
    this.commit()
  }

  get acknowledged(): number {
    return this.#receiver.acknowledge(LEASE.id)
  }

  get refusals(): string[] {
    return this.lines.map((line) => JSON.parse(line).text).filter((text) => text.includes('was not kept'))
  }

  async textOf(name: string): Promise<string | undefined> {
    const found = await this.artifacts.find(RUN, name)
    if (found.is !== 'file') return undefined
    const chunks: Uint8Array[] = []
    for await (const chunk of found.read()) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
  }

  #store(write: Write): void {
    if (write.table === 'events') this.lines.push(...Buffer.from(write.lines).toString().trim().split('\n'))
    if (write.table === 'key-value' && write.value === null) this.marks.delete(write.key)
    else if (write.table === 'key-value') this.marks.set(write.key, Object(write.value))
  }
}

/** Frames of artifacts, numbered from 1. */
function framesOf(artifacts: readonly { readonly name: string; readonly parts: readonly string[] }[]) {
  return artifacts
    .flatMap(({ name, parts }) =>
      parts.map((text, part) => ({ name, part, final: part === parts.length - 1, text })),
    )
    .map(
      ({ text, ...part }, index) =>
        ({
          type: 'run-artifact',
          leaseId: LEASE.id,
          seq: index + 1,
          data: Buffer.from(text).toString('base64'),
          ...part,
        }) satisfies LeaseFrame,
    )
}

describe.each([
  ['in files', SCHEDULES / 20, () => new ArtifactsOnDisk(tempFolder())],
  ['in memory', SCHEDULES, () => new MemoryArtifacts()],
])('artifacts %s', (_, schedules, create) => {
  const large = { name: 'large', parts: ['a', 'b', 'c', 'd', 'e'].map((text) => text.repeat(300)) }
  const REFUSAL = /^the artifact large \(1500 bytes\) was not kept: the artifacts of a run have at most 1000/

  test.each([
    ['', undefined],
    [' that replaces another one', 'old'],
  ])('a refused artifact%s is named over a restart behind each part', async (_title, old) => {
    const frames = framesOf([large])
    for (let committed = 0; committed < frames.length; committed++) {
      for (let sent = committed; sent < frames.length; sent++) {
        const host = new Host(create())
        if (old !== undefined) await host.artifacts.write(RUN, 'large', 0, Buffer.from(old), true)
        for (const [index, frame] of frames.slice(0, sent).entries()) {
          await host.send(frame)
          if (index < committed) host.commit()
        }
        host.start()
        expect(host.acknowledged).toBe(committed)
        for (const frame of frames.slice(committed)) await host.send(frame)
        host.commit()
        expect(host.refusals).toEqual([expect.stringMatching(REFUSAL)])
        expect(await host.textOf('large')).toBe(old)
      }
    }
  })

  test('a refused artifact without an end is named when its lease ends after a restart', async () => {
    const host = new Host(create())
    for (const frame of framesOf([large]).slice(0, 4)) await host.send(frame)
    host.commit()
    host.start()
    host.closeLease()
    expect(host.refusals).toEqual([expect.stringMatching(/^the artifact large \(1200 bytes\) was not kept/)])
  })

  test('an artifact without an end and a small one behind it are both named', async () => {
    const host = new Host(create())
    const frames = framesOf([large, { name: 'small', parts: ['x'.repeat(1_001)] }])
    const [, , , , , last] = frames
    if (last === undefined) throw new Error('a frame is missing')
    for (const frame of [...frames.slice(0, 4), { ...last, seq: 5 }]) await host.send(frame)
    host.commit()
    expect(host.refusals.map((text) => text.slice(0, 18))).toEqual([
      'the artifact large',
      'the artifact small',
    ])
  })

  test('random artifacts are kept whole or named once, over restarts at random instants', async () => {
    const seed = seedFromEnvironment(1)
    for (let schedule = 0; schedule < schedules; schedule++) await runSchedule(seed + schedule)
  }, 60_000)

  async function runSchedule(seed: number): Promise<void> {
    const random = new Random(seed)
    const host = new Host(create())
    const names = ['a', 'b', 'c', 'd', 'e']
    const old = new Map(
      names.filter(() => random.chance(0.5)).map((name) => [name, `old ${name}`.repeat(20)]),
    )
    for (const [name, text] of old) await host.artifacts.write(RUN, name, 0, Buffer.from(text), true)
    const artifacts = names.map((name) => ({
      name,
      parts: Array.from({ length: 1 + random.below(4) }, (_part, n) =>
        `${name}${n}`.repeat(random.below(100)),
      ),
    }))
    const frames = framesOf(artifacts)
    for (let restarts = 3; ; ) {
      const frame = frames[Math.max(host.acknowledged, 0)]
      if (frame === undefined) break
      const round = frames.slice(frame.seq - 1, frame.seq + random.below(frames.length))
      for (const each of round) {
        await host.send(each)
        if (random.chance(0.4)) host.commit()
      }
      if (restarts-- > 0) host.start()
      else host.commit()
    }
    host.commit()
    const notKept: string[] = []
    for (const { name, parts } of artifacts) {
      const text = parts.join('')
      const stored = await host.textOf(name)
      if (stored === text) continue
      expect({ seed, name, stored }).toEqual({ seed, name, stored: old.get(name) })
      notKept.push(...describeRefused({ name, bytes: text.length, refused: describeFullBudget(BUDGET) }))
    }
    expect({ seed, refusals: host.refusals }).toEqual({ seed, refusals: notKept })
  }
})
