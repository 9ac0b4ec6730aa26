/**
 * A person in a run's retained sandbox: what the worker's lives need for it, as types only.
 *
 * A sandbox is booted once, however many look at it, and holds one terminal with the agent's session in it. What was
 * given to it for that, and every process, is gone when it is closed; its disk stays.
 */
import type { RunCredentials, UsageSnapshot } from '../../protocol/frames.ts'

export interface TerminalSize {
  readonly cols: number
  readonly rows: number
}

export interface BootRequest {
  readonly runId: string
  /** For this boot alone: handed on, and kept in no life. */
  readonly credentials: RunCredentials
}

export interface TerminalSessionListener {
  /** In order; whole characters. Never while paused, but for what was on its way. */
  onOutput(data: string): void
  /** The session's process ended by itself. Once, and the last that is heard. */
  onExit(code: number): void
}

/** The agent's session in a terminal. What is asked of one that has ended does nothing. */
export interface TerminalSession {
  input(data: string): void
  resize(size: TerminalSize): void
  /** Nothing more is read of what it prints, until `resume`: a terminal that nobody keeps up with stops by itself. */
  pause(): void
  resume(): void
}

export interface BootedSandbox {
  /** Once: the one terminal that everybody shares. Never throws; what can't be started is told as printed, and ended. */
  open(size: TerminalSize, listener: TerminalSessionListener): TerminalSession
  /**
   * Ends everything in it. Resolves when no process and no credential of it is left, with what the session has come to
   * by now, in numbers. Twice is once.
   */
  close(): Promise<readonly UsageSnapshot[]>
}

/** A terminal's picture, kept up with what is printed on it. */
export interface Screen {
  /** In order. Resolves once it counts in the picture. */
  write(data: string): Promise<void>
  resize(size: TerminalSize): void
  /** Draws it anew on any terminal: from a clean start, with a bounded part of what has scrolled away. */
  serialize(): string
  close(): void
}

/**
 * The one terminal that a session talks to: those of its views only draw. `answer`: what it replies to the session's
 * questions (where the cursor is, what it can do), once, however many look on.
 */
export type CreateScreen = (size: TerminalSize, answer: (data: string) => void) => Screen
