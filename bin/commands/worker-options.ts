/** The options of `switchyard worker`, and what they mean when they are left out. */
import { hostname } from 'node:os'
import { normalizeWorkerName } from '../../core/fleet/naming.ts'
import type { TakeOver } from '../../core/owner.ts'
import { EXIT, ExitError } from '../exit.ts'
import type { LogChoice } from '../log-options.ts'

export interface WorkerOptions extends LogChoice {
  readonly host?: string
  readonly tokenFile?: string
  readonly joinKeyFile?: string
  readonly name?: string
  /** Absent: 2, or 1 for a worker that takes one run. */
  readonly concurrency?: number
  readonly dataDir?: string
  readonly takeOver?: TakeOver
  readonly sandboxDir?: string
  /** Folders below which git may use local repositories. */
  readonly localRepos: readonly string[]
  /** Code hosts that git may contact at private addresses and other ports. */
  readonly privateCodeHost: readonly string[]
  readonly caFile?: string
  readonly insecure?: true
  /** The SHA-256 of the host's certificate or of its key. */
  readonly fingerprint?: string
  /** The user whose program a host on this machine is. */
  readonly hostUser?: string
  readonly drainSeconds?: number
  /** Take one run and end. */
  readonly once?: true
  readonly shareActors?: true
  /** End after so long without a run and a terminal. */
  readonly idleSeconds?: number
  /** An agent without output for this long counts as stalled. */
  readonly stallMinutes: number
  /** End when standard input is closed, that is when the parent process has ended. */
  readonly endWithStdin?: true
  /** Finish the runs and end when standard input is closed, that is when the supervisor has ended. */
  readonly drainWithStdin?: true
}

/** Runs at once of a worker that is not told how many. */
const CONCURRENCY = 2

export function chooseName(asked: string | undefined): string {
  const name = normalizeWorkerName(asked ?? hostname())
  if (name === '' && asked !== undefined)
    throw new ExitError(
      EXIT.usage,
      '--name: must have a visible character; leave it out for the name of this machine',
    )
  return name || 'worker'
}

export function chooseConcurrency({ concurrency, once }: WorkerOptions): number {
  if (once === true && concurrency !== undefined && concurrency > 1)
    throw new ExitError(
      EXIT.usage,
      '--concurrency: a worker takes one run with --once; leave one of the two out',
    )
  return concurrency ?? (once === true ? 1 : CONCURRENCY)
}
