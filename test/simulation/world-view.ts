/**
 * The world as laws see it: the disk with an index of its leases, and what crossed the wires.
 */
import type { ActorSnapshot } from '../../core/ports.ts'
import type { HostFrame, WorkerFrame, WorkerFrameOf } from '../../protocol/frames.ts'
import type { Run } from '../../protocol/run.ts'
import type { Batch, Change, Disk } from './disk.ts'
import { SECRET } from './host.ts'
import { wordOf } from './laws/applied.ts'
import { fieldsOf, type LiveLease, type Mark, type Sight } from './laws/law.ts'
import type { Wire } from './network.ts'
import type { NumberedFrame } from './outbox.ts'
import type { LeaseState } from './plan.ts'
import type { Boot } from './sandboxes.ts'
import type { Seat } from './terminal-viewers.ts'
import type { Process, Timeline } from './timeline.ts'
import type { Execution } from './worker.ts'
import { framesIn } from './worker-disk.ts'

const UNMARKED: Mark = { mark: 0, lost: [] }

const STATES: Readonly<Record<string, LeaseState>> = {
  o: 'offered',
  u: 'unconfirmed',
  h: 'held',
  a: 'adrift',
  c: 'cancelling',
}

/** Stands for a frame that was dropped before it was on disk. */
const LOST = { type: 'log', at: '2026-01-01T00:00:00.000Z', stream: 'stdout', text: '' } as const
/** After a pause everything that was due happens at once. */
const AWAKE_MS = 10

/** The other codes of a worker's record are those of one that may be given work. */
const DRAINING = 'd'

/** What only the world knows. */
export type Around = Pick<Sight, 'isClear' | 'hostIsAwake' | 'usedIn' | 'followUpsOf'>

export class View implements Sight {
  readonly disk: Disk
  readonly executions = new Set<Execution>()
  readonly boots = new Set<Boot>()
  readonly seats = new Set<Seat>()
  readonly guessed = new Set<string>()
  disturbed = false
  hasJumped = false
  hostile = false
  readonly #time: Timeline
  readonly #leases = new Map<string, LiveLease>()
  readonly #byRun = new Map<string, Map<string, LiveLease>>()
  readonly #byWorker = new Map<string, Map<string, LiveLease>>()
  readonly #stamped = new Map<string, Map<number, NumberedFrame>>()
  readonly #numbers = new Map<string, number>()
  readonly #spools = new Map<string, Disk>()
  readonly #discarded = new Set<string>()
  readonly #introductions = new WeakMap<Wire, WorkerFrameOf<'register'>>()
  #registered = new Map<Wire, string>()
  #current = new Map<string, Wire>()

  readonly #around: Around

  constructor(time: Timeline, disk: Disk, around: Around) {
    this.#time = time
    this.disk = disk
    this.#around = around
  }

  isClear(worker: string): boolean {
    return this.#around.isClear(worker)
  }

  hostIsAwake(): boolean {
    return this.#around.hostIsAwake()
  }

  usedIn(runId: string): number {
    return this.#around.usedIn(runId)
  }

  readonly secret = SECRET

  followUpsOf(runId: string, followUpId: string) {
    return this.#around.followUpsOf(runId, followUpId)
  }

  // ---- taking note -------------------------------------------------------------------------------------------------

  hostBooted(): void {
    this.#registered = new Map()
    this.#current = new Map()
  }

  hostSends(wire: Wire, frame: HostFrame): void {
    if (frame.type !== 'registered') return
    this.#registered.set(wire, frame.workerId)
    this.#current.set(frame.workerId, wire)
  }

  hostHears(wire: Wire, frame: WorkerFrame | undefined): void {
    if (frame?.type === 'register' && !this.#introductions.has(wire)) this.#introductions.set(wire, frame)
  }

  stampedFrame(frame: NumberedFrame): void {
    const { leaseId = '', seq = 0 } = frame
    const frames = this.#stamped.get(leaseId) ?? new Map<number, NumberedFrame>()
    this.#stamped.set(leaseId, frames.set(seq, frame))
    const word = wordOf(frame)
    if (word !== undefined) this.#numbers.set(word, seq)
  }

  discardAsked(runId: string): void {
    this.#discarded.add(runId)
  }

  daemonBooted(worker: string, spool: Disk): void {
    this.#spools.set(worker, spool)
  }

  /** What a daemon has put on its disk is what it has stamped; what it dropped before, it names there as lost. */
  spooled({ changes }: Batch): void {
    for (const { leaseId, seq, spooled } of framesIn(changes)) {
      if (spooled === null) continue
      if (spooled.as !== 'gap') {
        // The daemon writes to this shelf what it will send: the laws check it when it does.
        this.stampedFrame(JSON.parse(spooled.text) as NumberedFrame)
        continue
      }
      for (let lost = spooled.from; lost <= seq; lost++)
        if (this.stamped(leaseId, lost) === undefined)
          this.stampedFrame({ type: 'run-event', leaseId, seq: lost, event: LOST })
    }
  }

  #notePriced(change: Change): void {
    if (change.is !== 'key-value' || change.shelf !== 'session' || change.row === null) return
    const { runId, sinces, endedAt } = { runId: '', sinces: {}, endedAt: '', ...change.row.value }
    if (Object.values(sinces).includes(endedAt)) this.guessed.add(runId)
  }

  /** Answers the leases that came into another state. */
  landed({ changes }: Batch): LiveLease[] {
    const moved: LiveLease[] = []
    for (const change of changes) {
      this.#notePriced(change)
      if (change.is !== 'snapshot' || change.kind !== 'lease') continue
      const before = this.#leases.get(change.key)
      if (before !== undefined) this.#forget(before)
      if (change.row === null) continue
      const after = leaseFrom(change.key, change.row.value)
      this.#learn(after)
      if (after.state !== before?.state) moved.push(after)
    }
    return moved
  }

  #forget(lease: LiveLease): void {
    this.#leases.delete(lease.id)
    this.#byRun.get(lease.runId)?.delete(lease.id)
    this.#byWorker.get(lease.workerId)?.delete(lease.id)
  }

  #learn(lease: LiveLease): void {
    this.#leases.set(lease.id, lease)
    into(this.#byRun, lease.runId, lease)
    into(this.#byWorker, lease.workerId, lease)
  }

  // ---- looking -----------------------------------------------------------------------------------------------------

  now(): number {
    return this.#time.now
  }

  get leases(): readonly LiveLease[] {
    return [...this.#leases.values()]
  }

  lease(id: string): LiveLease | undefined {
    return this.#leases.get(id)
  }

  leasesOf(run: string): readonly LiveLease[] {
    return [...(this.#byRun.get(run)?.values() ?? [])]
  }

  leasesOn(workerId: string): readonly LiveLease[] {
    return [...(this.#byWorker.get(workerId)?.values() ?? [])]
  }

  worker(id: string): ActorSnapshot | undefined {
    return this.disk.life('worker', id)
  }

  workerState(id: string): 'active' | 'draining' | undefined {
    const record = this.worker(id)
    if (record === undefined) return undefined
    return record.s === DRAINING ? 'draining' : 'active'
  }

  run(id: string): Run | undefined {
    return this.disk.run(id)
  }

  wasDiscarded(run: string): boolean {
    return this.#discarded.has(run)
  }

  howEnded(leaseId: string): string | undefined {
    const { how } = { how: undefined, ...this.disk.fact('ended-lease', leaseId) }
    return how
  }

  markOf(leaseId: string): Mark {
    const fact = this.disk.fact('mark', leaseId)
    return fact === undefined ? UNMARKED : { ...UNMARKED, ...fact }
  }

  registeredAs(wire: Wire): string | undefined {
    return this.#registered.get(wire)
  }

  currentWire(workerId: string): Wire | undefined {
    return this.#current.get(workerId)
  }

  stamped(leaseId: string, seq: number): NumberedFrame | undefined {
    return this.#stamped.get(leaseId)?.get(seq)
  }

  numberOf(word: string): number | undefined {
    return this.#numbers.get(word)
  }

  spoolOf(worker: string): Disk | undefined {
    return this.#spools.get(worker)
  }

  isDrowsy(process: Process): boolean {
    return process.pausedUntil + AWAKE_MS >= this.#time.now
  }

  introduction(wire: Wire): WorkerFrameOf<'register'> | undefined {
    return this.#introductions.get(wire)
  }
}

function leaseFrom(id: string, record: ActorSnapshot): LiveLease {
  const { runId, workerId } = fieldsOf(record)
  return { id, runId: String(runId), workerId: String(workerId), state: STATES[record.s] ?? record.s }
}

function into(map: Map<string, Map<string, LiveLease>>, key: string, lease: LiveLease): void {
  const inner = map.get(key) ?? new Map<string, LiveLease>()
  map.set(key, inner.set(lease.id, lease))
}
