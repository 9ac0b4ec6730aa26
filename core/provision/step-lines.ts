/** Formats the steps of a provisioning as lines: the command prints them, and the API's `output` is made of them. */
import { formatDuration } from '../../protocol/format.ts'
import { toSingleLine, truncate } from '../safe-text.ts'

export type ProvisionStep = 'connect' | 'check' | 'copy' | 'drain' | 'install' | 'pair' | 'online'

export interface FinishedStep {
  readonly step: string
  /** Counted from 1. */
  readonly number: number
  readonly count: number
  readonly status: 'done' | 'failed'
  readonly ms: number
  readonly message: string
}

const STEP_COLUMNS = 'install'.length
const TIME_COLUMNS = 5
const MESSAGE_CHARS_MAX = 500

/** Like `1/6 connect`. */
export const stepHeading = ({
  step,
  number,
  count,
}: Pick<FinishedStep, 'step' | 'number' | 'count'>): string =>
  `${number}/${count} ${step.padEnd(STEP_COLUMNS)}`

/** Like `1/6 connect  ok     0.4s  host key ED25519 SHA256:9mXq…, in known_hosts`. */
export function formatStep(finished: FinishedStep): string {
  const word = finished.status === 'done' ? 'ok  ' : 'fail'
  const time = formatDuration(finished.ms).padStart(TIME_COLUMNS)
  return `${stepHeading(finished)}  ${word} ${time}  ${finished.message}`.trimEnd()
}

/** Text of another machine on one line, bounded and without invisible characters. */
export const remoteLine = (text: string): string => truncate(toSingleLine(text), MESSAGE_CHARS_MAX)
