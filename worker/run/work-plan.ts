/**
 * What differs between a ticket's first work and a follow-up of its pull request: where it begins, what an agent is
 * told, and what is published. Types only; everything else about an execution is the same.
 */
import type { Result } from '../../core/result.ts'
import type { Room } from './sandbox-session.ts'
import type { SandboxFolders } from './sandboxes.ts'

/** What an agent is started for. */
export interface Errand {
  readonly prompt: string
  /** The session that goes on. */
  readonly resume?: string
  readonly environment?: Readonly<Record<string, string>>
}

/** Whether it may still go on. */
export interface Leave {
  /** Asked before each step that others can see. */
  readonly fence: () => boolean
  readonly signal: AbortSignal
}

export interface Publishing extends Leave {
  readonly room: Room
  /** The agent's last words. */
  readonly said: string
  /** For what has to follow a step that others have seen: one that was cancelled may still explain itself. */
  readonly toEnd: Leave
}

/** What others can see now. */
export interface Shown {
  readonly branch: string
  readonly prUrl: string
  readonly prState?: 'open' | 'draft'
  /** Absent: it was there before. */
  readonly pushed?: string
  /** In place of the agent's last words. */
  readonly summary?: string
}

export interface Course {
  /** Once, at the beginning. */
  folders(): Promise<SandboxFolders & { readonly number: number }>
  checkOut(room: Room, signal: AbortSignal): Promise<Result<void>>
  /** Once it is checked out. undefined: there is nothing for an agent to do. */
  errand(): Errand | undefined
  /** Whether the repository's setup is run before an agent, and whether it has to succeed. */
  setup(): 'must' | 'may' | 'not'
  /** The disk was there before this execution, so it stays whatever becomes of it. */
  isKept(): boolean
  /** It holds what is nowhere else, also once all is published. */
  holdsMore(): boolean
  /** undefined: nothing was changed. */
  publish(order: Publishing): Promise<Result<Shown | undefined>>
}
