/**
 * What lives keep of themselves on disk: words that one process writes and a later one reads.
 *
 * A run's own record (`Run`) lies among all runs; here is only what a run must remember beyond it. Whoever changes a
 * shape raises the version of its layout and says how the old one is lifted.
 */
import Type, { type Static, type TSchema } from 'typebox'
import { JobFollowUp, RunOutcome } from './frames.ts'
import { type Checker, createChecker } from './parse.ts'
import { RUN_STATUSES, RunCosts, RunResult, RunSandbox } from './run.ts'
import { Count, ForeignId, Id, Instant, Link, Name, record, stringEnum, Text } from './schema-helpers.ts'
import { WorkerCapabilities } from './worker.ts'

const OrNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export const LeaseFields = record('LeaseFields', {
  id: Id,
  runId: Id,
  workerId: Id,
  termMs: Count,
  grantedAt: Instant,
  end: OrNull(stringEnum(['completed', 'declined', 'lost', 'expired', 'fenced'])),
  why: OrNull(Text),
})
export type LeaseFields = Static<typeof LeaseFields>

/** A run's record less the run itself. */
export const RunFields = record('RunFields', {
  job: stringEnum(['run', 'follow-up']),
  /** The lease that may speak for it; granted before it is accepted. */
  lease: OrNull(Id),
  /** Dispatches that were accepted, over the run's whole life: the next execution's number. */
  attempts: Count,
  /** How many of its costs are from before the current lease. */
  costsBefore: Count,
  /** Leases lost in a row. */
  interruptions: Count,
  /** The current lease has reported a pull request. */
  opened: Type.Boolean(),
  /** Of a follow-up: what to go back to when it fails. */
  earlier: OrNull(
    record('EarlierResult', {
      result: OrNull(RunResult),
      startedAt: OrNull(Instant),
      finishedAt: OrNull(Instant),
    }),
  ),
  /** In which status it was woken. */
  woken: OrNull(stringEnum(RUN_STATUSES)),
  /** Which one it is, when it is a follow-up: minted once, however often it is begun. */
  followUp: OrNull(JobFollowUp),
})
export type RunFields = Static<typeof RunFields>

export const WorkerFields = record('WorkerFields', {
  id: Id,
  name: Name,
  /** SHA-256 of its credential, in hex. */
  hash: Type.String({ minLength: 64, maxLength: 64 }),
  enrolledAt: Instant,
  local: Type.Boolean(),
  capabilities: OrNull(WorkerCapabilities),
  lastSeenAt: OrNull(Instant),
  /** It has sent a heartbeat, so it has its credential. */
  proven: Type.Boolean(),
})
export type WorkerFields = Static<typeof WorkerFields>

// ---- a worker's own ------------------------------------------------------------------------------------------------

/** What an execution has come to so far, as far as it must outlive the daemon. */
export const ExecutionProgress = record('ExecutionProgress', {
  sandbox: Type.Optional(RunSandbox),
  agentSessionId: Type.Optional(ForeignId),
  branch: Type.Optional(Name),
  pushed: Type.Optional(Name),
  prUrl: Type.Optional(Link),
  prState: Type.Optional(stringEnum(['open', 'draft'])),
})
export const checkExecutionProgress = createChecker(ExecutionProgress)

/** Neither the job nor anything out of it that could be a secret. */
export const ExecutionFields = record('ExecutionFields', {
  leaseId: Id,
  runId: Id,
  workerId: Id,
  /** As the dispatch said it, for people. */
  expiresAt: Instant,
  retentionHours: Type.Number({ minimum: 0 }),
  progress: ExecutionProgress,
  /** Of this lease, as far as they were told. */
  costs: RunCosts,
  /** It has to end before it is done: what its outcome becomes (`nothing` is told), and how it is stopped. */
  stop: OrNull(
    record('ExecutionStop', {
      as: stringEnum(['cancelled', 'interrupted', 'nothing']),
      how: stringEnum(['interrupt', 'kill']),
      reason: Text,
    }),
  ),
  /** Once it is finished. */
  outcome: OrNull(RunOutcome),
})
export type ExecutionFields = Static<typeof ExecutionFields>

/** As the layouts of lives want it: a check, and a text that is the same only for the same shape. */
export function snapshotShape<S extends TSchema>(
  schema: S,
): { readonly check: Checker<Static<S>>; readonly text: string } {
  return { check: createChecker(schema), text: JSON.stringify(schema) }
}
