/** What a performance stands on: its voice, its hands, its purse, and who may interrupt it. */
import type { Dialect, Line } from './stream-lines.ts'
import type { Meter } from './usage-meter.ts'
import type { Surroundings } from './tools.ts'
import type { Transcript } from './transcript.ts'

export interface Stage {
  readonly dialect: Dialect
  readonly meter: Meter
  readonly transcript: Transcript
  readonly around: Surroundings
  readonly maxTurns?: number
  readonly maxCostUsd?: number
  /** Aborted when somebody interrupts. */
  readonly signal: AbortSignal
  readonly emit: (line: Line) => void
  /** A line that is not of the dialect. */
  readonly blurt: (text: string) => void
  readonly now: () => number
  /** Resolves early when interrupted. */
  readonly sleep: (ms: number) => Promise<void>
  /** From now on nothing but SIGKILL is heard. */
  readonly deafen: () => void
  /** Random hex digits. */
  readonly hex: (digits: number) => string
}
