/**
 * A person's terminal session in a retained sandbox: its interfaces, the refusal of a boot as text, and the pieces in
 * which output is sent.
 *
 * A sandbox is booted once for all viewers, and contains one terminal that runs the agent's session. Closing the
 * sandbox ends all of its processes and removes its credentials; its disk stays.
 */
import type { RunCredentials, UsageSnapshot } from '../../protocol/frames.ts'
import { ATTACH_DATA_CHARS_MAX } from '../../protocol/limits.ts'
import { no, type Refusal, type Refused } from '../result.ts'

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

// ---- the texts of a session --------------------------------------------------------------------------------------

const LASTING_KINDS = ['gone', 'invalid'] as const

/**
 * The reason why a sandbox could not be booted, as one sentence from the worker to the host.
 *
 * A permanent reason starts with its kind, as a refused dispatch starts with its class. All other reasons are
 * temporary.
 */
export function formatBootRefusal({ kind, message }: Refusal): string {
  return LASTING_KINDS.some((lasting) => lasting === kind) ? `${kind}: ${message}` : message
}

export function parseBootRefusal(text: string): Refused {
  const kind = LASTING_KINDS.find((lasting) => text.startsWith(`${lasting}: `))
  return kind === undefined ? no('conflict', text) : no(kind, text.slice(`${kind}: `.length))
}

/** Pieces of at most `ATTACH_DATA_CHARS_MAX`, without splitting a surrogate pair. */
export function splitTerminalData(data: string): string[] {
  if (data.length <= ATTACH_DATA_CHARS_MAX) return data === '' ? [] : [data]
  const pieces: string[] = []
  for (let from = 0; from < data.length; ) {
    const until = splitBefore(data, from + ATTACH_DATA_CHARS_MAX)
    pieces.push(data.slice(from, until))
    from = until
  }
  return pieces
}

function splitBefore(data: string, at: number): number {
  if (at >= data.length) return data.length
  const isInside = (data.charCodeAt(at) & 0xfc00) === 0xdc00 && (data.charCodeAt(at - 1) & 0xfc00) === 0xd800
  return isInside ? at - 1 : at
}
