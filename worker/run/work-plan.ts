/**
 * What differs between a ticket's first work and a follow-up of its pull request: where it begins, what an agent is
 * told, and what is published. Types only; everything else about an execution is the same.
 */
import type { Result } from '../../core/result.ts'
import type { SandboxSession } from './sandbox-session.ts'
import type { SandboxFolders } from './sandboxes.ts'

/** What an agent is started for. */
export interface AgentRequest {
  readonly prompt: string
  /** The session that goes on. */
  readonly resume?: string
  readonly environment?: Readonly<Record<string, string>>
}

/** Whether it may still go on. */
export interface PublishGuard {
  /** Asked before each step that others can see. */
  readonly mayContinue: () => boolean
  readonly signal: AbortSignal
}

export interface PublishRequest extends PublishGuard {
  readonly session: SandboxSession
  /** The agent's last words. */
  readonly agentSummary: string
  /** For what has to follow a step that others have seen: one that was cancelled may still explain itself. */
  readonly afterPush: PublishGuard
}

/** What others can see now. */
export interface PublishedWork {
  readonly branch: string
  readonly prUrl: string
  readonly prState?: 'open' | 'draft'
  /** Absent: it was there before. */
  readonly pushed?: string
  /** In place of the agent's last words. */
  readonly summary?: string
}

export interface WorkPlan {
  /** Once, at the beginning. */
  openFolders(): Promise<SandboxFolders & { readonly number: number }>
  checkOut(session: SandboxSession, signal: AbortSignal): Promise<Result<void>>
  /** Once it is checked out. undefined: there is nothing for an agent to do. */
  agentRequest(): AgentRequest | undefined
  /** Whether the repository's setup is run before an agent, and whether it has to succeed. */
  setupRule(): 'required' | 'optional' | 'skip'
  /** The disk was there before this execution, so it stays whatever becomes of it. */
  hasRetainedSandbox(): boolean
  /** It holds what is nowhere else, also once all is published. */
  hasUnpublishedWork(): boolean
  /** undefined: nothing was changed. */
  publish(request: PublishRequest): Promise<Result<PublishedWork | undefined>>
}
