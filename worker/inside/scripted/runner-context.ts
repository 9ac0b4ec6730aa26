/** What a performance stands on: its voice, its hands, its purse, and who may interrupt it. */
import type { StreamLine, StreamLines } from './stream-lines.ts'
import type { ToolEnvironment } from './tools.ts'
import type { Transcript } from './transcript.ts'
import type { UsageMeter } from './usage-meter.ts'

export interface RunnerContext {
  readonly lines: StreamLines
  readonly meter: UsageMeter
  readonly transcript: Transcript
  readonly environment: ToolEnvironment
  readonly maxTurns?: number
  readonly maxCostUsd?: number
  /** Aborted when somebody interrupts. */
  readonly signal: AbortSignal
  readonly emit: (line: StreamLine) => void
  /** A line that is not of the dialect. */
  readonly printRaw: (text: string) => void
  readonly now: () => number
  /** Resolves early when interrupted. */
  readonly sleep: (ms: number) => Promise<void>
  /** From now on nothing but SIGKILL is heard. */
  readonly ignoreSignals: () => void
  /** Random hex digits. */
  readonly randomHex: (digits: number) => string
}
