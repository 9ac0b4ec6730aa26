/**
 * A run's way with git, from the code host into a sandbox and back out: what the execution asks of it.
 *
 * Types only. Whatever touches the agent's tree runs inside (`Inside`); outside, git sees bare repositories of the
 * worker's own, made of bundles.
 */
import type { CodeHost } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import type { Job } from '../../protocol/frames.ts'

export interface SandboxCommandResult {
  /** Absent when a signal ended it, or the sandbox could not be made. */
  readonly code?: number
  /** The last part of what it printed, both streams, bounded. */
  readonly output: string
  readonly startFailure?: string
}

/** Runs one command in a short sandbox with the run's /work and home, without agent and without a way out. */
export interface SandboxRunner {
  run(
    command: readonly string[],
    options?: {
      readonly mounts?: readonly {
        readonly from: string
        readonly to: string
        readonly writable?: boolean
      }[]
      readonly stdin?: string
      readonly timeoutMs?: number
    },
  ): Promise<SandboxCommandResult>
}

/** Where a run's things lie on the worker's disk. */
export interface RunFolders {
  /** Owned by the slot's user, seen inside as /work. */
  readonly work: string
  readonly home: string
  /** The worker's own, never seen by the agent: bundles come out here, and the clean bare repository. */
  readonly staging: string
  /** The slot's, seen inside as a mount only by the worker's own short commands. */
  readonly exchange: string
}

export interface CheckedOut {
  /** The commit that the work starts from. */
  readonly base: string
  /** The commit the run's branch had on the code host before, when it is there already. */
  readonly pushedBefore?: string
}

export interface CollectedWork {
  /** undefined: nothing was changed. */
  readonly head?: string
  readonly commits: number
  /** `git diff --stat`-like figures and the first files, for people. */
  readonly diff: {
    readonly files: number
    readonly additions: number
    readonly deletions: number
    readonly text: string
  }
}

export interface PublishedPull {
  readonly pushed: string
  readonly prUrl: string
  readonly prState: 'open' | 'draft'
  readonly adopted: boolean
}

/** A line for whoever looks at the run: why something takes its time. */
export type LogToRun = (line: string) => void

export interface GitSources {
  /** Brings the bare cache of the repository up to date, outside, then checks the branch out inside. */
  checkOut(
    job: Job,
    folders: RunFolders,
    sandbox: SandboxRunner,
    signal: AbortSignal,
    logToRun?: LogToRun,
  ): Promise<Result<CheckedOut>>
  /** Commits what is left inside, brings it out as a bundle into a clean bare repository. */
  collect(
    job: Job,
    folders: RunFolders,
    sandbox: SandboxRunner,
    from: CheckedOut,
  ): Promise<Result<CollectedWork>>
  /**
   * Pushes with the expected commit and opens the pull request, or adopts the one that is there. `fence` is asked
   * right before each step that others can see: false when the lease is gone.
   */
  publish(
    request: {
      readonly job: Job
      readonly leaseId: string
      readonly folders: RunFolders
      readonly from: CheckedOut
      readonly collected: CollectedWork
      readonly summary: string
      readonly logToRun?: LogToRun
    },
    codehost: CodeHost,
    mayContinue: () => boolean,
    signal: AbortSignal,
  ): Promise<Result<PublishedPull>>
  readonly followUps: FollowUpSources
}

// ---- follow-ups ----------------------------------------------------------------------------------------------------

/** How a pull request's branch stands in the sandbox, before an agent sees it. */
export interface FollowUpStart {
  /**
   * `pushed`: an earlier attempt of this follow-up did. `current`: it holds the newest base already. `rebased`: onto it,
   * without a conflict. `conflict`: the rebase has stopped in the middle, and waits for somebody who goes on with it.
   */
  readonly state: 'pushed' | 'current' | 'rebased' | 'conflict'
  /** The commit of the branch that was fetched: what a push may replace, and nothing else. */
  readonly head: string
  /** The newest commit of the base. */
  readonly base: string
  /** Where the branch stands after the rebase; undefined while that is not over. */
  readonly tip: string | undefined
  /** In conflict, the first of them. */
  readonly conflictFiles: readonly string[]
  /**
   * In conflict, the first merges on the branch: a rebase leaves them out, and what was changed in them by hand. When
   * rebased, only if that could not be put back.
   */
  readonly merges?: readonly string[]
  /** The checkout is a new one, in which nothing has been set up. */
  readonly isNewCheckout: boolean
  /** Branches or folders inside, on which is what the sandbox held and nobody else has. */
  readonly preserved: readonly string[]
}

export interface FollowUpPushRequest {
  readonly job: Job
  readonly folders: RunFolders
  readonly sandbox: SandboxRunner
  readonly start: FollowUpStart
  readonly logToRun?: LogToRun
}

export interface FollowUpPushResult {
  /** undefined: what is on the code host is as it should be. */
  readonly pushed: string | undefined
  /** The newest base has all of the branch. */
  readonly isContained: boolean
  readonly diff: CollectedWork['diff'] | undefined
}

export interface FollowUpSources {
  /** `kept`: the sandbox of an earlier execution, with its checkout. */
  begin(
    request: {
      readonly job: Job
      readonly folders: RunFolders
      readonly sandbox: SandboxRunner
      readonly isRetained: boolean
      readonly logToRun?: LogToRun
    },
    signal: AbortSignal,
  ): Promise<Result<FollowUpStart>>
  /** Commits what is left and pushes it over the commit that was fetched; onto what somebody pushed meanwhile. */
  push(
    work: FollowUpPushRequest,
    mayContinue: () => boolean,
    signal: AbortSignal,
  ): Promise<Result<FollowUpPushResult>>
  /** Whether a comment with this text is there. */
  hasComment(job: Job, marker: string, signal: AbortSignal, logToRun?: LogToRun): Promise<Result<boolean>>
  /** Once, whatever becomes of the answer: `body` holds `marker`. */
  postComment(
    comment: {
      readonly job: Job
      readonly marker: string
      readonly body: string
      /** An earlier attempt of this follow-up may have come so far. */
      readonly isTakenOver: boolean
      readonly logToRun?: LogToRun
    },
    mayContinue: () => boolean,
    signal: AbortSignal,
  ): Promise<Result<void>>
}
