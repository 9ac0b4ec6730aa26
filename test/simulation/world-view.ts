/**
 * WorldView is the world as the laws see it: the disk with an index of its leases, and the frames that were
 * exchanged.
 */
import type { ActorSnapshot } from '../../core/ports/store.ts'
import type { HostFrame, WorkerFrame, WorkerFrameOf } from '../../protocol/frames.ts'
import type { Run } from '../../protocol/run.ts'
import { LostRows } from './disk-damage.ts'
import { type DamagedHostRow, HostDamage } from './host-damage.ts'
import { SECRET } from './host-machine.ts'
import { reportIdOf } from './laws/is-on-disk.ts'
import { fieldsOf, type LawView, type LiveLease, type WatermarkRecord } from './laws/law.ts'
import type { LeaseState } from './plan.ts'
import type { NumberedFrame } from './reference-outbox.ts'
import type { SandboxBoot } from './sandbox-boots.ts'
import type { SimConnection } from './sim-connection.ts'
import type { DiskBatch, DiskChange, SimDisk } from './sim-disk.ts'
import type { ObservedExecution } from './sim-worker.ts'
import type { TerminalViewer } from './terminal-viewers.ts'
import type { Process, Timeline } from './timeline.ts'
import { frameChangesIn } from './worker-disk.ts'

const NO_WATERMARK: WatermarkRecord = { mark: 0, lost: [] }

const LEASE_STATE_OF_CODE: Readonly<Record<string, LeaseState>> = {
  o: 'offered',
  u: 'unconfirmed',
  h: 'held',
  a: 'adrift',
  c: 'cancelling',
}

/** Stands for a frame that was dropped before it reached the disk. */
const LOST_EVENT = { type: 'log', at: '2026-01-01T00:00:00.000Z', stream: 'stdout', text: '' } as const
/** After a pause all overdue steps run at once. */
const AWAKE_MS = 10
/** A process learns of a sleep within a second, and a timer that should have fired meanwhile fires within another. */
const WOKEN_MS = 2_500

/** All other state codes of a worker allow runs. */
const DRAINING_STATE = 'd'

/** Queries that only the world can answer. */
export type WorldQueries = Pick<
  LawView,
  | 'isLinkSteady'
  | 'isHostAwake'
  | 'isHostDiskWell'
  | 'liveConfig'
  | 'unnamedDamage'
  | 'graceMsMin'
  | 'hostNow'
  | 'sharedClockErrorMs'
  | 'countUsageOf'
  | 'countFollowUpSteps'
  | 'runOfPull'
  | 'wasPullIn'
  | 'tickets'
>

export class WorldView implements LawView {
  readonly disk: SimDisk
  readonly executions = new Set<ObservedExecution>()
  readonly boots = new Set<SandboxBoot>()
  readonly viewers = new Set<TerminalViewer>()
  readonly approximatedRuns = new Set<string>()
  readonly lostRows = new LostRows()
  readonly hostDamage = new HostDamage()
  isDisturbed = false
  hasWallClockJumped = false
  hasHostClockJumped = false
  hasHostileLink = false
  readonly #time: Timeline
  readonly #leases = new Map<string, LiveLease>()
  readonly #byRun = new Map<string, Map<string, LiveLease>>()
  readonly #byWorker = new Map<string, Map<string, LiveLease>>()
  readonly #frames = new Map<string, Map<number, NumberedFrame>>()
  readonly #seqByReport = new Map<string, number>()
  readonly #workerDisks = new Map<string, SimDisk>()
  readonly #discarded = new Set<string>()
  readonly #registerFrames = new WeakMap<SimConnection, WorkerFrameOf<'register'>>()
  #registered = new Map<SimConnection, string>()
  #currentConnections = new Map<string, SimConnection>()

  readonly #queries: WorldQueries

  constructor(time: Timeline, disk: SimDisk, queries: WorldQueries) {
    this.#time = time
    this.disk = disk
    this.#queries = queries
  }

  isLinkSteady(worker: string): boolean {
    return this.#queries.isLinkSteady(worker)
  }

  isHostAwake(): boolean {
    return this.#queries.isHostAwake()
  }

  isHostDiskWell(): boolean {
    return this.#queries.isHostDiskWell()
  }

  liveConfig(): object | undefined {
    return this.#queries.liveConfig()
  }

  unnamedDamage(): readonly string[] | undefined {
    return this.#queries.unnamedDamage()
  }

  hostNow(): number {
    return this.#queries.hostNow()
  }

  sharedClockErrorMs(): number {
    return this.#queries.sharedClockErrorMs()
  }

  countUsageOf(runId: string): number {
    return this.#queries.countUsageOf(runId)
  }

  readonly secret = SECRET

  get graceMsMin(): number {
    return this.#queries.graceMsMin
  }

  tickets() {
    return this.#queries.tickets()
  }

  runOfPull(url: string) {
    return this.#queries.runOfPull(url)
  }

  wasPullIn(url: string, state: string) {
    return this.#queries.wasPullIn(url, state)
  }

  countFollowUpSteps(runId: string, followUpId: string) {
    return this.#queries.countFollowUpSteps(runId, followUpId)
  }

  // ---- recording ---------------------------------------------------------------------------------------------------

  onHostStarting(): void {
    this.#registered = new Map()
    this.#currentConnections = new Map()
  }

  onHostSends(connection: SimConnection, frame: HostFrame): void {
    if (frame.type !== 'registered') return
    this.#registered.set(connection, frame.workerId)
    this.#currentConnections.set(frame.workerId, connection)
  }

  onHostReceives(connection: SimConnection, frame: WorkerFrame | undefined): void {
    if (frame?.type === 'register' && !this.#registerFrames.has(connection))
      this.#registerFrames.set(connection, frame)
  }

  recordFrame(frame: NumberedFrame): void {
    const { leaseId = '', seq = 0 } = frame
    const frames = this.#frames.get(leaseId) ?? new Map<number, NumberedFrame>()
    this.#frames.set(leaseId, frames.set(seq, frame))
    const reportId = reportIdOf(frame)
    if (reportId !== undefined) this.#seqByReport.set(reportId, seq)
  }

  onDiscardRequested(runId: string): void {
    this.#discarded.add(runId)
  }

  onDaemonStarted(worker: string, workerDisk: SimDisk): void {
    this.#workerDisks.set(worker, workerDisk)
  }

  /** Frames on a daemon's disk have their numbers; the lost ranges there name the frames it dropped earlier. */
  onWorkerCommitted({ changes }: DiskBatch): void {
    for (const { leaseId, seq, stored } of frameChangesIn(changes)) {
      if (stored === null) continue
      if (stored.as !== 'gap') {
        // The daemon writes the frames that it will send; the laws check them when it does.
        this.recordFrame(JSON.parse(stored.text) as NumberedFrame)
        continue
      }
      for (let lost = stored.from; lost <= seq; lost++)
        if (this.frameOf(leaseId, lost) === undefined)
          this.recordFrame({ type: 'run-event', leaseId, seq: lost, event: LOST_EVENT })
    }
  }

  /** No host knows a lease whose record is damaged; its worker may still execute it. */
  onHostRowDamaged(row: DamagedHostRow): void {
    this.hostDamage.add(row)
    const lease = row.collection === 'lease' ? this.#leases.get(row.key) : undefined
    if (lease !== undefined) this.#removeLease(lease)
  }

  #noteApproximated(change: DiskChange): void {
    if (change.is !== 'key-value' || change.collection !== 'session' || change.row === null) return
    const { runId, sinces, endedAt } = { runId: '', sinces: {}, endedAt: '', ...change.row.value }
    if (Object.values(sinces).includes(endedAt)) this.approximatedRuns.add(runId)
  }

  /** Returns the leases that entered another state. */
  onCommitted({ changes }: DiskBatch): LiveLease[] {
    const changed: LiveLease[] = []
    for (const change of changes) {
      this.#noteApproximated(change)
      if (change.is !== 'snapshot' || change.kind !== 'lease') continue
      const before = this.#leases.get(change.key)
      if (before !== undefined) this.#removeLease(before)
      if (change.row === null) continue
      const after = leaseFrom(change.key, change.row.value)
      this.#addLease(after)
      if (after.state !== before?.state) changed.push(after)
    }
    return changed
  }

  #removeLease(lease: LiveLease): void {
    this.#leases.delete(lease.id)
    this.#byRun.get(lease.runId)?.delete(lease.id)
    this.#byWorker.get(lease.workerId)?.delete(lease.id)
  }

  #addLease(lease: LiveLease): void {
    this.#leases.set(lease.id, lease)
    addTo(this.#byRun, lease.runId, lease)
    addTo(this.#byWorker, lease.workerId, lease)
  }

  // ---- queries -----------------------------------------------------------------------------------------------------

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
    return this.disk.snapshot('worker', id)
  }

  workerState(id: string): 'active' | 'draining' | undefined {
    const record = this.worker(id)
    if (record === undefined) return undefined
    return record.s === DRAINING_STATE ? 'draining' : 'active'
  }

  run(id: string): Run | undefined {
    return this.disk.run(id)
  }

  wasDiscarded(run: string): boolean {
    return this.#discarded.has(run)
  }

  howEnded(leaseId: string): string | undefined {
    const { how } = { how: undefined, ...this.disk.keyValue('ended-lease', leaseId) }
    return how
  }

  watermarkOf(leaseId: string): WatermarkRecord {
    const fact = this.disk.keyValue('mark', leaseId)
    return fact === undefined ? NO_WATERMARK : { ...NO_WATERMARK, ...fact }
  }

  registeredAs(connection: SimConnection): string | undefined {
    return this.#registered.get(connection)
  }

  currentConnection(workerId: string): SimConnection | undefined {
    return this.#currentConnections.get(workerId)
  }

  frameOf(leaseId: string, seq: number): NumberedFrame | undefined {
    return this.#frames.get(leaseId)?.get(seq)
  }

  seqOfReport(reportId: string): number | undefined {
    return this.#seqByReport.get(reportId)
  }

  workerDiskOf(worker: string): SimDisk | undefined {
    return this.#workerDisks.get(worker)
  }

  isPausedOrResuming(process: Process): boolean {
    const { pausedUntil, wakesAt = Number.NEGATIVE_INFINITY } = process
    return Math.max(pausedUntil + AWAKE_MS, wakesAt + WOKEN_MS) >= this.#time.now
  }

  registerFrameOf(connection: SimConnection): WorkerFrameOf<'register'> | undefined {
    return this.#registerFrames.get(connection)
  }
}

function leaseFrom(id: string, record: ActorSnapshot): LiveLease {
  const { runId, workerId } = fieldsOf(record)
  return {
    id,
    runId: String(runId),
    workerId: String(workerId),
    state: LEASE_STATE_OF_CODE[record.s] ?? record.s,
  }
}

function addTo(map: Map<string, Map<string, LiveLease>>, key: string, lease: LiveLease): void {
  const inner = map.get(key) ?? new Map<string, LiveLease>()
  map.set(key, inner.set(lease.id, lease))
}
