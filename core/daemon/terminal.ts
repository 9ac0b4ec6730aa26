/**
 * The interfaces for a person's terminal session in a retained sandbox, as types only.
 *
 * A sandbox is booted once for all viewers, and contains one terminal that runs the agent's session. Closing the
 * sandbox ends all of its processes and removes its credentials; its disk stays.
 */
import type { RunCredentials, UsageSnapshot } from '../../protocol/frames.ts'

export interface TerminalSize {
  readonly cols: number
  readonly rows: number
}

export interface BootRequest {
  readonly runId: string
  /** Credentials for this boot only; no actor keeps them. */
  readonly credentials: RunCredentials
}

export interface TerminalSessionListener {
  /**
   * Called with output in order, in whole characters. While the session is paused, only output that was already on
   * its way arrives.
   */
  onOutput(data: string): void
  /** Called once, as the last event, when the session's process has exited. */
  onExit(code: number): void
}

/** The agent's session in a terminal. Calls after its exit do nothing. */
export interface TerminalSession {
  /** Sends keystrokes to the session. */
  input(data: string): void
  /** Changes the size of the terminal. */
  resize(size: TerminalSize): void
  /** Stops reading output until `resume`, so that a terminal without readers blocks by itself. */
  pause(): void
  /** Reads output again. */
  resume(): void
}

export interface BootedSandbox {
  /** The agent's session under which the usage is exported. */
  readonly sessionId: string
  /**
   * Opens the terminal that all viewers share; called once. Never throws: a start failure arrives as output and an
   * exit.
   */
  open(size: TerminalSize, listener: TerminalSessionListener): TerminalSession
  /**
   * Ends the sandbox. Resolves when no process and no credential is left, with the usage of the session so far. A
   * second call changes nothing.
   */
  close(): Promise<readonly UsageSnapshot[]>
}

/** A terminal screen that follows the output and can be drawn again. */
export interface Screen {
  /** Applies output in order. Resolves when the screen includes it. */
  write(data: string): Promise<void>
  /** Changes the size of the screen. */
  resize(size: TerminalSize): void
  /** Returns output that draws the screen on any empty terminal, with a bounded part of the scrollback. */
  serialize(): string
  /** Releases the screen. */
  close(): void
}

/**
 * Creates the screen that answers the session; the viewers' terminals only draw. `answer` receives each reply to a
 * question of the session (the cursor's position, the terminal's features) once, however many viewers there are.
 */
export type CreateScreen = (size: TerminalSize, answer: (data: string) => void) => Screen
