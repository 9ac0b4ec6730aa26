/**
 * `WorkPlan` holds the differences between a new run and a follow-up: where the work begins, the agent's prompt, and
 * what is published. Types only; `execution.ts` does everything that both have in common.
 */
import type { Result } from '../../core/result.ts'
import type { ReachableHosts } from '../registries/registry-hosts.ts'
import type { FinalizingTime } from './finalizing-time.ts'
import type { SandboxSession } from './sandbox-session.ts'
import type { NumberedFolders } from './sandboxes.ts'
import type { UnpublishedWork } from './unpublished-work.ts'

/** The request that an agent is started with. */
export interface AgentRequest {
  readonly prompt: string
  /** The id of the agent session to resume. */
  readonly resume?: string
  readonly environment?: Readonly<Record<string, string>>
}

/** Tells whether publishing may still continue. */
export interface PublishGuard {
  /** Asked before each step that is visible outside this machine. */
  readonly mayContinue: () => boolean
  readonly signal: AbortSignal
}

export interface PublishRequest extends PublishGuard {
  readonly session: SandboxSession
  /** The time of the steps before something is pushed. */
  readonly time: FinalizingTime
  /** The agent's last message. */
  readonly agentSummary: string
  /** Adds an artifact that the worker made, not the agent. */
  readonly addArtifact: (name: string, text: string) => void
  /** Adds the bundle of unpublished commits; returns whether it is not too large. */
  readonly addBundle: (path: string) => Promise<boolean>
  /** The guard for the steps after a push: a cancelled follow-up may still post the comment that explains its push. */
  readonly afterPush: PublishGuard
}

/** The result that is visible on the code host now. */
export interface PublishedWork {
  readonly branch: string
  readonly prUrl: string
  readonly prState?: 'open' | 'draft'
  /** The pushed commit. Absent: this execution pushed nothing. */
  readonly pushed?: string
  /** Replaces the agent's last message as the run's summary. */
  readonly summary?: string
}

export interface PublishEnd {
  /** undefined: nothing changed, so nothing was published. */
  readonly published: Result<PublishedWork | undefined>
  /** The sandbox holds finished work that can be published later. */
  readonly isUnpublished: boolean
}

/** The rest of an execution after its agent, besides the hook. */
export type WorkDue = Pick<UnpublishedWork, 'areOutputsDue'>

export interface WorkPlan {
  /** Called once, at the beginning. Refused with the failure `publish`, as is `checkOut`: nobody can read what was done. */
  openFolders(): Promise<Result<NumberedFolders>>
  /**
   * Calls `onAgentKnown` when the checkout does not wait for other runs any more, unless what the agent is asked depends
   * on the checkout.
   */
  checkOut(
    session: SandboxSession,
    signal: AbortSignal,
    onAgentKnown: (agentRequest: AgentRequest) => void,
  ): Promise<Result<void>>
  /** Called after the checkout; undefined: the network does not depend on hosts. */
  reachableHosts(): ReachableHosts | undefined
  /** Called after the checkout. undefined: there is nothing for an agent to do. */
  agentRequest(): AgentRequest | undefined
  /** Whether the repository's setup runs before the agent, and whether it has to succeed. */
  setupRule(): 'required' | 'optional' | 'skip'
  /** Whether the sandbox is older than this execution and therefore stays, whatever the outcome. */
  hasRetainedSandbox(): boolean
  /** Whether the sandbox still holds work that exists nowhere else after everything is published. */
  hasUnpublishedWork(): boolean
  /**
   * Remembers finished work at the end of the agent, and before the hook that follows: an end of the worker must not lose
   * the work.
   */
  remember(session: SandboxSession, agentSummary: string, due: WorkDue): Promise<void>
  /** Whether an earlier execution has left finished work whose hook has not come to its end. */
  isHookDue(): boolean
  publish(request: PublishRequest): Promise<PublishEnd>
}
