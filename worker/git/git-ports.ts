/**
 * `GitSources`: everything that an execution asks of git, from the checkout to the pull request. Types only.
 *
 * Commands that touch the agent's tree run inside the sandbox (`SandboxRunner`). Outside, git uses only the worker's own
 * bare repositories, which are filled from bundles.
 */
import type { CodeHost } from '../../core/ports/code-host.ts'
import type { Result } from '../../core/result.ts'
import type { Job } from '../../protocol/frames.ts'
import type { ReachableHosts } from '../registries/registry-hosts.ts'
import type { MarkedKey } from '../secrets/key-forms.ts'
import type { WorkBundle } from './checkout/run-repository.ts'

export interface SandboxCommandResult {
  /** Absent when a signal ended it, or the sandbox could not be made. */
  readonly code?: number
  /** The last part of both output streams, of limited size. */
  readonly output: string
  readonly startFailure?: string
  /** Set when the command was killed, because it did not end within this many minutes. */
  readonly timedOutMinutes?: number
}

/** Runs one command in a sandbox with the run's /work and home, without network and credentials. */
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
      readonly signal?: AbortSignal
    },
  ): Promise<SandboxCommandResult>
}

/** A run's folders on the worker's disk. */
export interface RunFolders {
  /** Owned by the sandbox user, mounted inside as /work. */
  readonly work: string
  readonly home: string
  /** The worker's own folder, never visible to the agent; holds imported packs and the run repository. */
  readonly staging: string
  /** Owned by the sandbox user; mounted only while a script of the worker runs, which writes its bundle there. */
  readonly exchange: string
}

export interface CheckedOut {
  /** The commit at which the work starts. */
  readonly base: string
  /** The newest commit of the base branch, where the work starts at an earlier one. */
  readonly baseTip?: string
  /** The commit of the run's branch on the code host before this run, if the branch exists. */
  readonly pushedBefore?: string
  /** The hosts that the sandbox reaches besides those of the configuration; undefined: it does not depend on hosts. */
  readonly reachable?: ReachableHosts
}

export interface CollectedWork {
  /** Findings of what looks like keys in the commits that would be pushed. */
  readonly keys?: readonly MarkedKey[]
  /** undefined: nothing changed. */
  readonly head?: string
  readonly commits: number
  /** The totals, and a text like `git diff --stat` with the first files. */
  readonly diff: {
    readonly files: number
    readonly additions: number
    readonly deletions: number
    readonly text: string
    /** The first of the files that run in CI or on a reviewer's machine, or decide who reviews. */
    readonly readFirst?: readonly string[]
  }
  readonly heldBack?: HeldBackChanges
}

/** Changes of CI definitions that are not pushed. */
export interface HeldBackChanges {
  /** The first of the paths. */
  readonly paths: readonly string[]
  /** The changes, as git shows them. */
  readonly patch: string
}

export interface PublishedPull {
  readonly pushed: string
  readonly prUrl: string
  readonly prState: 'open' | 'draft'
  readonly adopted: boolean
}

/** Writes a line to the run's log, for example why a step takes long. */
export type LogToRun = (line: string) => void

export interface GitSources {
  /**
   * Updates the repository's mirror outside, then checks the branch out inside. Calls `onTurn` as soon as no other run
   * uses the mirror, before the update.
   */
  checkOut(
    job: Job,
    folders: RunFolders,
    sandbox: SandboxRunner,
    signal: AbortSignal,
    logToRun?: LogToRun,
    onTurn?: () => void,
  ): Promise<Result<CheckedOut>>
  /** Commits the remaining changes inside, and imports the work as a bundle into the run repository. */
  collect(
    job: Job,
    folders: RunFolders,
    sandbox: SandboxRunner,
    from: CheckedOut,
    signal?: AbortSignal,
  ): Promise<Result<CollectedWork>>
  /**
   * Pushes over the expected commit, and opens the pull request or adopts an existing one. `mayContinue` is asked
   * right before each step that others can see: false once the lease is lost.
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
  /** Bundles the work that was last collected, if it is still there: the commits of the branch beyond the base. */
  bundle(
    folders: Pick<RunFolders, 'staging'>,
    work: { readonly branch: string; readonly base: string },
  ): Promise<Result<WorkBundle | undefined>>
  readonly followUps: FollowUpSources
}

// ---- follow-ups ----------------------------------------------------------------------------------------------------

/** The state of a pull request's branch in the sandbox, before an agent starts. */
export interface FollowUpStart {
  /**
   * `pushed`: an earlier attempt of this follow-up has already pushed. `current`: the branch already contains the newest
   * base. `rebased`: the rebase succeeded without a conflict. `conflict`: the rebase stopped and must be continued.
   */
  readonly state: 'pushed' | 'current' | 'rebased' | 'conflict'
  /** The branch's commit when it was fetched; a push replaces only this commit. */
  readonly head: string
  /** The newest commit of the base. */
  readonly base: string
  /** The branch's commit after the rebase; undefined while the rebase is unfinished. */
  readonly tip: string | undefined
  /** The first files in conflict. */
  readonly conflictFiles: readonly string[]
  /**
   * The first merge commits on the branch, if manual changes in them may be lost by the rebase: always in state
   * `conflict`, in state `rebased` only if they could not be restored.
   */
  readonly merges?: readonly string[]
  /** The agent has pushed the commit `head` itself, so it is work. */
  readonly isHeadOurs?: boolean
  /** Whether the checkout is new, so that the repository's setup has not run in it. */
  readonly isNewCheckout: boolean
  /** The same as in `CheckedOut`. */
  readonly reachable?: ReachableHosts
  /** Branches or folders inside that preserve work which existed only in this sandbox. */
  readonly preserved: readonly string[]
}

export interface FollowUpPushRequest {
  readonly job: Job
  readonly folders: RunFolders
  readonly sandbox: SandboxRunner
  readonly start: FollowUpStart
  /** Runs each step that comes before a push. */
  readonly within?: <T>(step: (signal: AbortSignal) => Promise<Result<T>>) => Promise<Result<T>>
  /** Called when the work goes on from other commits, because somebody else pushed meanwhile. */
  readonly onMoved?: (start: FollowUpStart) => Promise<void>
  readonly logToRun?: LogToRun
}

export interface FollowUpPushResult {
  /** The pushed commit; undefined: there was nothing to push. */
  readonly pushed: string | undefined
  /** Whether the newest base already contains the whole branch. */
  readonly isContained: boolean
  readonly diff: CollectedWork['diff'] | undefined
  readonly heldBack?: HeldBackChanges
}

export interface FollowUpSources {
  /** `isRetained`: the sandbox and its checkout come from an earlier execution. */
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
  /** Commits the remaining changes and pushes over the fetched commit; rebases if somebody else pushed meanwhile. */
  push(
    work: FollowUpPushRequest,
    mayContinue: () => boolean,
    signal: AbortSignal,
  ): Promise<Result<FollowUpPushResult>>
  /** Whether the pull request has a comment with this marker. */
  hasComment(job: Job, marker: string, signal: AbortSignal, logToRun?: LogToRun): Promise<Result<boolean>>
  /** Posts the comment exactly once, even if responses get lost. `body` contains `marker`. */
  postComment(
    comment: {
      readonly job: Job
      readonly marker: string
      readonly body: string
      /** Whether an earlier attempt of this follow-up may already have posted the comment. */
      readonly isTakenOver: boolean
      readonly logToRun?: LogToRun
    },
    mayContinue: () => boolean,
    signal: AbortSignal,
  ): Promise<Result<void>>
}
