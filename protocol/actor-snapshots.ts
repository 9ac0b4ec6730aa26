/**
 * The fields of actors on disk, which one process writes and a later one reads.
 *
 * A run's own record (`Run`) is stored in the runs table; this file contains only what a run must remember besides. A
 * change of a schema needs a higher layout version and a migration from the old one.
 */
import Type, { type Static, type TSchema } from 'typebox'
import { JobFollowUp, RunOutcome } from './frames.ts'
import { type Checker, createChecker } from './parse.ts'
import { RUN_STATUSES, RunCosts, RunResult } from './run.ts'
import { ReportedSandbox } from './run-sandbox.ts'
import { Count, ForeignId, Id, Instant, Link, Name, record, stringEnum, Text } from './schema-helpers.ts'
import { DrainHolder, WorkerCapabilities } from './worker.ts'

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

/** The fields of a run actor, without the run's record. */
export const RunFields = record('RunFields', {
  job: stringEnum(['run', 'follow-up']),
  /** The lease that may report for this run; granted before the dispatch is accepted. */
  lease: OrNull(Id),
  /** Accepted dispatches over the run's whole life, from which the next execution's number follows. */
  attempts: Count,
  /** Number of cost entries from before the current lease. */
  costsBefore: Count,
  /** Leases lost in a row. */
  interruptions: Count,
  /** The current lease has reported a pull request. */
  opened: Type.Boolean(),
  /** The repository and the branch of the job that the lease's worker received; null before the first lease. */
  place: OrNull(record('JobPlace', { remote: Name, branch: Name })),
  /** Whether the code host says that a lease of this run opened the pull request; null until it has answered. */
  opener: OrNull(stringEnum(['run', 'other'])),
  /** Set while the run, whose worker is lost, waits for the code host to confirm its pull request. */
  adoption: OrNull(record('Adoption', { since: Instant, startedAt: OrNull(Instant), reason: OrNull(Text) })),
  /** When the worker was lost on which the agent was done; null unless the run waits for another lease since then. */
  doneAt: OrNull(Instant),
  /** Set while the agent is done and the sandbox holds its work, which could not be published yet. */
  publishing: OrNull(
    record('Publishing', {
      /** How often publishing has failed. */
      tries: Count,
      /** null: as soon as the worker has a free slot. */
      nextAt: OrNull(Instant),
      why: Text,
      /** When the agent's execution began. */
      startedAt: OrNull(Instant),
      /** A person said that the work is published although it holds keys. */
      anyway: Type.Optional(Type.Literal(true)),
      /** The digest of the keys that this person was shown. */
      shownKeys: Type.Optional(Name),
      /** The result of the executions so far. */
      result: OrNull(RunResult),
    }),
  ),
  /** The result before a follow-up, restored when the follow-up fails. */
  earlier: OrNull(
    record('EarlierResult', {
      result: OrNull(RunResult),
      startedAt: OrNull(Instant),
      finishedAt: OrNull(Instant),
    }),
  ),
  /** The status of the finished run when a retry or follow-up started this actor; null for a new run. */
  woken: OrNull(stringEnum(RUN_STATUSES)),
  /**
   * The follow-up's id and number, created once, however often the follow-up is started. `isInstructed`: the run's
   * instructions were given with this follow-up; otherwise they are older and not for it.
   */
  followUp: OrNull(
    record('StoredFollowUp', { ...JobFollowUp.properties, isInstructed: Type.Optional(Type.Literal(true)) }),
  ),
})
export type RunFields = Static<typeof RunFields>

export const WorkerFields = record('WorkerFields', {
  id: Id,
  name: Name,
  /** SHA-256 of the worker's credential, in hex. */
  hash: Type.String({ minLength: 64, maxLength: 64 }),
  enrolledAt: Instant,
  local: Type.Boolean(),
  capabilities: OrNull(WorkerCapabilities),
  lastSeenAt: OrNull(Instant),
  /** The worker has sent a heartbeat, so it has received its credential. */
  proven: Type.Boolean(),
  /** The holders of the drain. Absent or empty while the worker is active. */
  drainedBy: Type.Optional(Type.Array(DrainHolder, { maxItems: 3 })),
  /** The id of the join key that enrolled the worker. */
  joinKey: Type.Optional(Id),
  /** Removed when it has been vacant for long enough. */
  ephemeral: Type.Optional(Type.Literal(true)),
  /** An ephemeral worker that has neither a connection nor a lease. */
  vacant: Type.Optional(Type.Boolean()),
})
export type WorkerFields = Static<typeof WorkerFields>

// ---- actors of a worker --------------------------------------------------------------------------------------------

/** The progress of an execution, as far as it must survive a restart of the daemon. */
export const ExecutionProgress = record('ExecutionProgress', {
  sandbox: Type.Optional(ReportedSandbox),
  agentSessionId: Type.Optional(ForeignId),
  branch: Type.Optional(Name),
  pushed: Type.Optional(Name),
  prUrl: Type.Optional(Link),
  prState: Type.Optional(stringEnum(['open', 'draft'])),
})
export const checkExecutionProgress = createChecker(ExecutionProgress)

/** Contains neither the job nor anything of it that could be a secret. */
export const ExecutionFields = record('ExecutionFields', {
  leaseId: Id,
  runId: Id,
  workerId: Id,
  /** The expiry in the dispatch, for people. */
  expiresAt: Instant,
  retentionHours: Type.Number({ minimum: 0 }),
  /** The agent may have begun to work. */
  begun: Type.Boolean(),
  progress: ExecutionProgress,
  /** The costs of this lease that were reported. */
  costs: RunCosts,
  /**
   * Set when the execution must end early: what its outcome becomes (`nothing`: no outcome is reported), and how it
   * is stopped.
   */
  stop: OrNull(
    record('ExecutionStop', {
      as: stringEnum(['cancelled', 'interrupted', 'nothing']),
      how: stringEnum(['interrupt', 'kill']),
      reason: Text,
    }),
  ),
  /** Set when the execution has finished. */
  outcome: OrNull(RunOutcome),
})
export type ExecutionFields = Static<typeof ExecutionFields>

/** A schema as a snapshot layout needs it: a check, and a text that identifies the schema. */
export function snapshotShape<S extends TSchema>(
  schema: S,
): { readonly check: Checker<Static<S>>; readonly text: string } {
  return { check: createChecker(schema), text: JSON.stringify(schema, withoutMark) }
}

/** A snapshot has the same fields whether or not the first form of the worker channel has them. */
const withoutMark = (key: string, value: unknown): unknown => (key === 'x-added' ? undefined : value)
