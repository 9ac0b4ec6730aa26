/** The dependencies of `ScriptRunner`: output, transcript, usage, limits, time and interruption. */
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
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal
  readonly emit: (line: StreamLine) => void
  /** Prints a line that is not JSON. */
  readonly printRaw: (text: string) => void
  readonly now: () => number
  /** Resolves early when `signal` aborts. */
  readonly sleep: (ms: number) => Promise<void>
  /** Ignores SIGINT and SIGTERM from now on. */
  readonly ignoreSignals: () => void
  /** Random hex digits. */
  readonly randomHex: (digits: number) => string
}
