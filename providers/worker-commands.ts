/**
 * createCommandDriver starts and stops a worker by two commands of the operator, without a shell.
 *
 * A command that exits with 0 has done its work: after the stop the worker has ended, after the start it runs or will.
 * The time of each is limited. Its process group ends with it, so a command must not leave the worker behind as a child.
 */
import { isAbsolute } from 'node:path'
import type { DriverResult, WorkerDriver } from '../core/fleet/supervision-ports.ts'
import type { Clock, Log } from '../core/ports.ts'
import { toSingleLine, truncate } from '../core/safe-text.ts'
import { type ProgramEnvironment, programOnPath, startProgram } from './run-program.ts'

export interface CommandDriverOptions {
  /** Absent: something else starts the worker, such as the boot of its machine. */
  readonly startCommand?: readonly string[]
  readonly stopCommand: readonly string[]
  readonly msMax: number
  readonly folder: string
  readonly environment: ProgramEnvironment
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
}

const OUTPUT_CHARS_MAX = 300

export function createCommandDriver(options: CommandDriverOptions): WorkerDriver {
  const { startCommand, stopCommand } = options
  return {
    ownsWorker: false,
    start: async () => (startCommand === undefined ? { is: 'done' } : await runWords(options, startCommand)),
    stop: async () => await runWords(options, stopCommand),
  }
}

async function runWords(
  { msMax, folder, environment, clock, log }: CommandDriverOptions,
  words: readonly string[],
): Promise<DriverResult> {
  const [name = '', ...args] = words
  const program = isAbsolute(name) ? name : await programOnPath(name, environment.PATH)
  if (program === undefined) return { is: 'failed', reason: `${name} is not on the PATH` }
  const result = await startProgram({ program, args, folder, environment, msMax }, clock).ended
  if (result.is === 'late') return { is: 'failed', reason: `${name} took longer than ${msMax / 1_000} s` }
  if (result.is === 'unstartable')
    return { is: 'failed', reason: `${name} can't be started: ${result.reason}` }
  const output = truncate(toSingleLine(`${result.err} ${result.out}`).trim(), OUTPUT_CHARS_MAX)
  if (result.code === 0) {
    log.debug({ program, output }, 'the command has ended')
    return { is: 'done' }
  }
  const how = result.code === undefined ? 'was ended by a signal' : `ended with exit code ${result.code}`
  return { is: 'failed', reason: `${name} ${how}${output === '' ? '' : `: ${output}`}` }
}
