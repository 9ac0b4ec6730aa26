/**
 * What a law is, and what it may look at.
 *
 * A law sees the world from outside: what is on the host's disk, what crosses the wires, what runs on workers, what
 * people asked for. It shares no code with what it judges but the protocol's own words. It says no by throwing.
 */

import type { DaemonEnd } from '../../../actors/daemon/daemon-dependencies.ts'
import type { ExecutionReport, StopRequest } from '../../../core/daemon/ports.ts'
import type { ActorSnapshot } from '../../../core/ports.ts'
import type { HostFrame, WorkerFrame } from '../../../protocol/frames.ts'
import type { Run } from '../../../protocol/run.ts'
import type { Batch, Disk } from '../disk.ts'
import type { Wire } from '../network.ts'
import type { NumberedFrame } from '../outbox.ts'
import type { Boot } from '../sandboxes.ts'
import type { Seat } from '../terminal-viewers.ts'
import type { Process } from '../timeline.ts'
import type { DaemonExecution, Execution, SimWorker } from '../worker.ts'

/** What a person, or a supervisor on a worker's machine, asks the front desk for. */
export interface Request {
  readonly what:
    | 'cancel'
    | 'retry'
    | 'discard'
    | 'drain'
    | 'enable'
    | 'revoke'
    | 'own drain'
    | 'own enable'
    | 'admit'
    | 'token'
    | 'resume'
    | 'attach'
    | 'release'
    | 'follow up'
  readonly workerId?: string
  readonly runId?: string
  /** For `admit`: whether the credential is the right one. */
  readonly genuine?: boolean
}

export interface LiveLease {
  readonly id: string
  readonly runId: string
  readonly workerId: string
  readonly state: string
}

export interface Sight {
  now(): number
  readonly disk: Disk
  /** The leases on disk. */
  lease(id: string): LiveLease | undefined
  leasesOf(run: string): readonly LiveLease[]
  leasesOn(workerId: string): readonly LiveLease[]
  /** The worker as it is on disk. */
  worker(id: string): ActorSnapshot | undefined
  workerState(id: string): 'active' | 'draining' | undefined
  run(id: string): Run | undefined
  /** Somebody has asked for it to be discarded, with its sandbox and all that was in it. */
  wasDiscarded(run: string): boolean
  /** How a lease ended, as the disk has it. */
  howEnded(leaseId: string): string | undefined
  markOf(leaseId: string): Mark
  /** Whom the host has told that he is registered here, on this wire and since it was last started. */
  registeredAs(wire: Wire): string | undefined
  currentWire(workerId: string): Wire | undefined
  /** What a worker put under a number. */
  stamped(leaseId: string, seq: number): NumberedFrame | undefined
  /** The number that a report got, by its word. */
  numberOf(word: string): number | undefined
  /** The disk of a machine that runs the product's daemon. */
  spoolOf(worker: string): Disk | undefined
  /** It is paused, or has just gone on: what it does now it should have done before. */
  isDrowsy(process: Process): boolean
  /** Executions that run right now. */
  readonly executions: ReadonlySet<Execution>
  /** Sandboxes that are booted for people right now, or on their way there or back. */
  readonly boots: ReadonlySet<Boot>
  /** Where people sit at terminals, or sat. */
  readonly seats: ReadonlySet<Seat>
  /** Nothing was the matter with the line to a worker, nor with either end of it, for a while. */
  isClear(worker: string): boolean
  /** The host is up, and has not slept for a while: after a sleep it gives everybody more time. */
  hostIsAwake(): boolean
  /** How much people have used in a run's sandboxes, in entries of their logs. */
  usedIn(runId: string): number
  /** What nobody but a sandbox may ever see. */
  readonly secret: string
  /** How often a follow-up was pushed, and its summary said. */
  followUpsOf(runId: string, followUpId: string): { readonly pushes: number; readonly summaries: number }
  /** Runs of which nothing was archived when a person's session was: by two machines' clocks, what is whose is a guess. */
  readonly guessed: ReadonlySet<string>
  /** A worker's wall clock was set to another time: nothing that is told by it can be put in order. */
  readonly hasJumped: boolean
  /** Something was longer silent, slow or asleep than a dispatch is waited for. */
  readonly disturbed: boolean
  /** Somebody repeats, reorders, drops and invents frames, as no connection does. */
  readonly hostile: boolean
  /** Who registered with what: by wire. */
  introduction(wire: Wire): Extract<WorkerFrame, { type: 'register' }> | undefined
}

export interface Mark {
  readonly mark: number
  readonly lost: readonly (readonly [number, number])[]
}

export interface Watch {
  booted?(): void
  serving?(): void
  /** About to be on disk: the last look at what was there before. */
  landing?(batch: Batch): void
  landed?(batch: Batch): void
  hostSends?(wire: Wire, frame: HostFrame): void
  hostHears?(wire: Wire, frame: WorkerFrame | undefined): void
  workerHears?(wire: Wire, frame: HostFrame): void
  started?(execution: Execution): void
  stopped?(execution: Execution): void
  // Of the product's daemon alone:
  workerSends?(worker: SimWorker, wire: Wire, frame: WorkerFrame, text: string): void
  /** About to be on its disk, and there. */
  spooling?(worker: SimWorker, batch: Batch): void
  spooled?(worker: SimWorker, batch: Batch): void
  crashed?(worker: SimWorker): void
  daemonEnds?(worker: SimWorker, end: DaemonEnd): void
  told?(execution: Execution, told: ExecutionReport): void
  ordered?(execution: DaemonExecution, order: StopRequest): void
  published?(execution: DaemonExecution): void
  followedUp?(execution: DaemonExecution, followUpId: string): void
  sandboxDiscarded?(worker: SimWorker, runId: string): void
  boots?(boot: Boot): void
  bootMoved?(boot: Boot): void
  bootGone?(boot: Boot): void
  reclaims?(worker: SimWorker, isClaimed: (runId: string) => boolean): void
  tookBack?(worker: SimWorker, runId: string): void
  lineDown?(worker: SimWorker): void
  /** Now and then: which sandboxes a worker could take back. */
  overdue?(worker: SimWorker, runIds: readonly string[]): void
  /** What a process writes into its log. */
  logged?(text: string): void
  /** A fault has happened to a worker's machine. */
  struck?(worker: SimWorker, fault: string): void
  /** A moment has passed. */
  ticked?(): void
  trimmed?(leaseId: string, upTo: number): void
  deletedCredential?(workerId: string): void
  asked?(request: Request): void
  answered?(request: Request, ok: boolean, value: unknown): void
  movedTicket?(ticketId: string, state: string): void
}

export type Broken = (what: string, facts?: object) => never

export interface Law {
  readonly number: string
  readonly sentence: string
  watch(sight: Sight, broken: Broken): Watch
}

export class LawBroken extends Error {
  override readonly name = 'LawBroken'
  readonly law: string
  readonly sentence: string
  readonly what: string
  readonly facts: object
  readonly at: number

  constructor(law: string, sentence: string, what: string, facts: object, at: number) {
    super(`law ${law}: ${sentence}: ${what} ${JSON.stringify(facts)}`)
    this.law = law
    this.sentence = sentence
    this.what = what
    this.facts = facts
    this.at = at
  }
}

// ---- what several laws read off the disk -----------------------------------------------------------------------------

export const TERMINAL: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

export const isTerminal = (run: Run | undefined): boolean => run !== undefined && TERMINAL.has(run.status)

/** A life's plain fields, of which a law reads one or two. */
export function fieldsOf(record: ActorSnapshot | undefined): Readonly<Record<string, unknown>> {
  const fields = record?.c
  return typeof fields === 'object' && fields !== null ? { ...fields } : {}
}
