/**
 * The book of frames: how far each live lease's reports are applied, and the applying itself.
 *
 * This is the hot path, so it is no actor: a run of a hundred thousand log lines costs its run and its lease a handful
 * of events. A frame that is next in line is applied whole or not at all; the mark moves with it, and both become
 * durable in one cut. What needs a file first (a part of an artifact, a usage snapshot) holds up the frames behind it,
 * within bounds; what is over the bounds is forgotten, and the unchanged mark asks the worker for it again.
 */
import { isNativeError } from 'node:util/types'
import { judge, judgeGap, type LeaseMark, UNMARKED, withLost } from '../../core/lease/watermark.ts'
import type { Artifacts, Clock, ControlDatabase, Log, Meters, UsageArchive, Write } from '../../core/ports.ts'
import { usageToArchive } from '../../core/run/usage.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import {
  FRAMES_PENDING_BYTES_MAX,
  LEASE_ACK_BYTES,
  LEASE_ACK_FRAMES,
  LEASE_PENDING_BYTES_MAX,
} from '../../protocol/limits.ts'
import type { Journal } from '../runs/run-event-log.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import type { LeaseContext, LeaseEvent } from './lease.machine.ts'

export type Report =
  | WorkerFrameOf<'run-patch'>
  | WorkerFrameOf<'run-event'>
  | WorkerFrameOf<'run-artifact'>
  | WorkerFrameOf<'run-memories'>
  | (WorkerFrameOf<'run-usage-snapshot'> & { readonly leaseId: string; readonly seq: number })
  | WorkerFrameOf<'run-complete'>
  | WorkerFrameOf<'lease-gap'>

export interface BookPorts {
  readonly clock: Clock
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly log: Log
  readonly meters: Meters
  readonly keyValues: ControlDatabase['keyValues']
  readonly artifacts: Artifacts
  readonly usage: UsageArchive
  readonly journal: Journal
  readonly tellLease: (leaseId: string, event: LeaseEvent) => void
  /** Not while the run recovers from a crash: what it was told meanwhile would be acknowledged before it is true. */
  readonly takesReports: (runId: string) => boolean
  readonly patchRun: (runId: string, workerId: string, patch: WorkerFrameOf<'run-patch'>['patch']) => void
  readonly remember: (runId: string, repo: string, facts: readonly string[]) => void
  readonly retentionHours: () => number
  /** Enough was put on disk since the last acknowledgement to send one. */
  readonly ackDue: (workerId: string, leaseId: string) => void
  readonly requestCommit: () => void
  /** An acknowledged number was about to fall. */
  readonly violated: () => void
}

/** How often applying may throw until a lease's frames are let lie. */
const CRASHES_MAX = 3
const CRASHES_WITHIN_MS = 60_000

interface Page {
  readonly leaseId: string
  readonly runId: string
  readonly workerId: string
  at: LeaseMark
  /** The same, as of the last cut that landed. */
  durable: LeaseMark
  /** The highest number that was acknowledged. */
  acknowledged: number
  /** The worker is known to have it. */
  accepted: boolean
  /** Applied to its end: nothing more counts. */
  complete: boolean
  /** There is a record of its mark on disk, or on its way. */
  written: boolean
  /** A file is being written for the frame behind the mark. */
  busy: boolean
  readonly waiting: { readonly frame: Report; readonly bytes: number }[]
  pendingBytes: number
  /** Of those, what is applied and waits only for the next cut. */
  appliedBytes: number
  framesSinceAck: number
  bytesSinceAck: number
  crashes: number[]
}

export class Book implements CommitParticipant {
  readonly #ports: BookPorts
  readonly #pages = new Map<string, Page>()
  readonly #dirty = new Set<Page>()
  readonly #closed: Page[] = []
  #pendingBytes = 0

  constructor(ports: BookPorts) {
    this.#ports = ports
  }

  // ---- following the leases ----------------------------------------------------------------------------------------

  open(lease: LeaseContext, restored: boolean, accepted: boolean): void {
    const known = this.#pages.get(lease.id)
    if (known !== undefined) {
      known.accepted ||= accepted
      return
    }
    // Only this class writes to the shelf.
    const stored = restored
      ? (this.#ports.keyValues.get('mark', lease.id) as LeaseMark | undefined)
      : undefined
    this.#pages.set(lease.id, {
      leaseId: lease.id,
      runId: lease.runId,
      workerId: lease.workerId,
      at: stored ?? UNMARKED,
      durable: stored ?? UNMARKED,
      acknowledged: 0,
      accepted,
      complete: false,
      written: stored !== undefined,
      busy: false,
      waiting: [],
      pendingBytes: 0,
      appliedBytes: 0,
      framesSinceAck: 0,
      bytesSinceAck: 0,
      crashes: [],
    })
  }

  close(leaseId: string): void {
    const page = this.#pages.get(leaseId)
    if (page === undefined) return
    page.complete = true
    this.#forget(page)
    this.#pages.delete(leaseId)
    this.#dirty.delete(page)
    this.#pendingBytes -= page.pendingBytes
    page.pendingBytes = 0
    if (page.written) {
      this.#closed.push(page)
      this.#ports.requestCommit()
    }
  }

  /** Nothing more of this worker's counts, not even what waits for a file that is being written. */
  silence(workerId: string): void {
    for (const page of this.#pages.values()) {
      if (page.workerId !== workerId) continue
      page.complete = true
      this.#forget(page)
    }
  }

  /** What is acknowledged now: never more than is on disk. */
  acknowledge(leaseId: string): number {
    const page = this.#pages.get(leaseId)
    if (page === undefined) return 0
    page.framesSinceAck = 0
    page.bytesSinceAck = 0
    if (page.durable.mark < page.acknowledged) this.#ports.violated()
    page.acknowledged = page.durable.mark
    return page.durable.mark
  }

  /** Its worker is known to have it. */
  isAccepted(leaseId: string): boolean {
    return this.#pages.get(leaseId)?.accepted === true
  }

  get size(): number {
    return this.#pages.size
  }

  /** Of frames that wait: for a file before them, or, applied, for the disk. Over all leases. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  /** Frames that are applied and not yet on disk, over all leases. */
  lag(): number {
    let frames = 0
    for (const page of this.#pages.values()) frames += page.at.mark - page.durable.mark
    return frames
  }

  // ---- frames ------------------------------------------------------------------------------------------------------

  /** Answers whether the lease is this worker's to speak for; what becomes of the frame is the book's affair. */
  receive(workerId: string, frame: Report, bytes: number): boolean {
    const page = this.#pages.get(frame.leaseId)
    if (page === undefined || page.workerId !== workerId) return false
    if (page.complete) return true
    if (!page.accepted) {
      // It reports, so it has it, even if the word of it was lost.
      page.accepted = true
      this.#ports.tellLease(page.leaseId, { type: 'accepted', at: this.#ports.instant() })
      if (!this.#pages.has(page.leaseId)) return false
    }
    if (page.busy) this.#wait(page, frame, bytes)
    else this.#apply(page, frame, bytes)
    return true
  }

  #wait(page: Page, frame: Report, bytes: number): void {
    if (!this.#hasRoom(page, bytes)) return
    page.waiting.push({ frame, bytes })
    this.#pend(page, bytes)
  }

  #hasRoom(page: Page, bytes: number): boolean {
    return (
      page.pendingBytes + bytes <= LEASE_PENDING_BYTES_MAX &&
      this.#pendingBytes + bytes <= FRAMES_PENDING_BYTES_MAX
    )
  }

  #pend(page: Page, bytes: number): void {
    page.pendingBytes += bytes
    this.#pendingBytes += bytes
  }

  #apply(page: Page, frame: Report, bytes: number): void {
    try {
      if (!this.#hasRoom(page, bytes)) return
      if (frame.type === 'lease-gap') this.#skip(page, frame, bytes)
      else if (judge(page.at.mark, frame.seq) === 'next') this.#applyNext(page, frame, bytes)
    } catch (error) {
      this.#threw(page, error)
    }
  }

  #applyNext(page: Page, frame: Exclude<Report, { type: 'lease-gap' }>, bytes: number): void {
    const { journal, patchRun, remember, tellLease, retentionHours } = this.#ports
    switch (frame.type) {
      case 'run-event':
        journal.note(page.runId, frame.event)
        break
      case 'run-patch':
        if (!this.#ports.takesReports(page.runId)) return
        patchRun(page.runId, page.workerId, frame.patch)
        break
      case 'run-memories':
        remember(page.runId, frame.repo, frame.facts)
        break
      case 'run-artifact':
        this.#whileFiled(page, bytes, frame.seq, () => this.#fileArtifact(page, frame))
        return
      case 'run-usage-snapshot':
        this.#whileFiled(page, bytes, frame.seq, () => this.#fileUsage(frame))
        return
      case 'run-complete':
        if (!this.#ports.takesReports(page.runId)) return
        page.complete = true
        page.at = { mark: frame.seq, lost: page.at.lost }
        this.#forget(page)
        tellLease(page.leaseId, {
          type: 'completed',
          at: this.#ports.instant(),
          outcome: frame.outcome,
          retentionHours: retentionHours(),
        })
        return
    }
    this.#advance(page, frame.seq, bytes)
  }

  #advance(page: Page, seq: number, bytes: number): void {
    page.at = { mark: seq, lost: page.at.lost }
    this.#moved(page, bytes)
  }

  #moved(page: Page, bytes: number): void {
    this.#pend(page, bytes)
    page.appliedBytes += bytes
    page.framesSinceAck += 1
    page.bytesSinceAck += bytes
    this.#dirty.add(page)
    this.#ports.requestCommit()
  }

  #skip(page: Page, { from, to }: WorkerFrameOf<'lease-gap'>, bytes: number): void {
    const lost = judgeGap(page.at.mark, from, to)
    if (typeof lost === 'string') return
    this.#ports.journal.note(page.runId, {
      at: this.#ports.instant(),
      type: 'gap',
      from: lost[0],
      to: lost[1],
    })
    this.#ports.meters.count('frames_lost_total', undefined, lost[1] - lost[0] + 1)
    page.at = withLost(page.at, lost)
    this.#moved(page, bytes)
  }

  /** The worker is asked for the frame again; a frame that throws each time must not hold its lease up for ever unseen. */
  #threw(page: Page, error: unknown): void {
    const now = this.#ports.clock.monotonic()
    page.crashes = [...page.crashes.filter((at) => now - at < CRASHES_WITHIN_MS), now]
    this.#ports.meters.count('actor_crashes_total', { kind: 'ledger' })
    this.#ports.log.error({ lease: page.leaseId, err: error }, 'a frame could not be applied')
    if (page.crashes.length < CRASHES_MAX) return
    page.complete = true
    this.#forget(page)
    this.#ports.tellLease(page.leaseId, { type: 'wedged', at: this.#ports.instant() })
  }

  // ---- frames that become files ------------------------------------------------------------------------------------

  #whileFiled(page: Page, bytes: number, seq: number, file: () => Promise<string | undefined>): void {
    page.busy = true
    this.#pend(page, bytes)
    file()
      .then(
        (problem) => this.#filed(page, bytes, seq, problem),
        (error: unknown) => this.#notFiled(page, bytes, error),
      )
      .catch((error: unknown) => this.#threw(page, error))
  }

  #filed(page: Page, bytes: number, seq: number, problem: string | undefined): void {
    page.busy = false
    if (this.#pages.get(page.leaseId) !== page) return
    this.#unpend(page, bytes)
    if (page.complete) return
    if (problem !== undefined) this.#ports.journal.say(page.runId, this.#ports.instant(), problem)
    this.#advance(page, seq, bytes)
    while (!page.busy && !page.complete) {
      const next = page.waiting.shift()
      if (next === undefined) return
      this.#unpend(page, next.bytes)
      this.#apply(page, next.frame, next.bytes)
    }
  }

  #notFiled(page: Page, bytes: number, error: unknown): void {
    page.busy = false
    if (this.#pages.get(page.leaseId) !== page) return
    this.#unpend(page, bytes)
    this.#forget(page)
    const reason = isNativeError(error) ? error.message : String(error)
    this.#ports.log.warn(
      { lease: page.leaseId, reason },
      'what a worker sent could not be put on disk; it is asked for again',
    )
  }

  #unpend(page: Page, bytes: number): void {
    page.pendingBytes -= bytes
    this.#pendingBytes -= bytes
  }

  #forget(page: Page): void {
    for (const { bytes } of page.waiting.splice(0)) this.#unpend(page, bytes)
  }

  /** Answers what was wrong with it, if anything: then it is applied all the same, as far as it ever will be. */
  async #fileArtifact(page: Page, frame: WorkerFrameOf<'run-artifact'>): Promise<string | undefined> {
    const { name, part, final, data } = frame
    const written = await this.#ports.artifacts.write(
      page.runId,
      name,
      part,
      Buffer.from(data, 'base64'),
      final,
    )
    return typeof written === 'object' ? `the artifact ${name} was not kept: ${written.refused}` : undefined
  }

  async #fileUsage({ snapshot }: WorkerFrameOf<'run-usage-snapshot'>): Promise<string | undefined> {
    const usable = usageToArchive(snapshot)
    if (!usable.ok) return `a usage snapshot was not kept: ${usable.refusal.message}`
    await this.#ports.usage.replace(usable.value.key, usable.value.text)
    return undefined
  }

  // ---- cuts --------------------------------------------------------------------------------------------------------

  contribute(): CommitContribution | undefined {
    if (this.#dirty.size === 0 && this.#closed.length === 0) return undefined
    const writes: Write[] = []
    const taken: { page: Page; at: LeaseMark; bytes: number }[] = []
    for (const page of this.#dirty) {
      writes.push({ table: 'key-value', collection: 'mark', key: page.leaseId, value: page.at })
      page.written = true
      taken.push({ page, at: page.at, bytes: page.appliedBytes })
      page.appliedBytes = 0
    }
    for (const { leaseId } of this.#closed.splice(0))
      writes.push({ table: 'key-value', collection: 'mark', key: leaseId, value: null })
    this.#dirty.clear()
    return { writes, onCommitted: () => this.#landed(taken) }
  }

  #landed(taken: readonly { readonly page: Page; readonly at: LeaseMark; readonly bytes: number }[]): void {
    for (const { page, at, bytes } of taken) {
      page.durable = at
      if (this.#pages.get(page.leaseId) !== page) continue
      this.#unpend(page, bytes)
      if (page.framesSinceAck >= LEASE_ACK_FRAMES || page.bytesSinceAck >= LEASE_ACK_BYTES)
        this.#ports.ackDue(page.workerId, page.leaseId)
    }
  }
}
