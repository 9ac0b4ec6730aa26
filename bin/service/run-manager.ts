/** Runs the commands of a service manager, with output that programs can read. */
import { execFile } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { SERVICE_COMMAND_MS_MAX } from '../../protocol/limits.ts'
import { EXIT, ExitError } from '../exit.ts'
import type { Service, ServiceCommand } from './service-manager.ts'

export interface ManagerAnswer {
  /** Undefined when the program can't be started. */
  readonly code: number | undefined
  readonly out: string
  readonly err: string
}

export type ManagerRunner = (words: readonly string[]) => Promise<ManagerAnswer>

export function createManagerRunner(env: NodeJS.ProcessEnv): ManagerRunner {
  const plain = { ...env, LC_ALL: 'C', TZ: 'UTC', SYSTEMD_PAGER: '', SYSTEMD_COLORS: '0' }
  return ([program = '', ...args]) =>
    new Promise((resolve) => {
      execFile(program, args, { env: plain, timeout: SERVICE_COMMAND_MS_MAX }, (error, out, err) => {
        if (error === null) resolve({ code: 0, out, err })
        else if (typeof error.code === 'number') resolve({ code: error.code, out, err })
        else resolve({ code: undefined, out, err: err === '' ? error.message : err })
      })
    })
}

const TRIES = 40
const WAIT_MS = 250

/** Runs a command that changes something; its failure ends this program. */
export async function runServiceCommand(run: ManagerRunner, command: ServiceCommand): Promise<void> {
  const tries = command.isRetried === true ? TRIES : 1
  for (let tried = 1; ; tried += 1) {
    const { code, err } = await run(command.words)
    if (code === 0 || command.mayFail === true) return
    if (tried >= tries)
      throw new ExitError(EXIT.refused, `${command.words.join(' ')} failed: ${firstLine(err)}`)
    await pause(WAIT_MS)
  }
}

/** A program that ended, or still begins, fails the command that starts it; the state of the service says more than that. */
export async function runChange(
  service: Pick<Service, 'readState'>,
  run: ManagerRunner,
  command: ServiceCommand,
): Promise<void> {
  try {
    await runServiceCommand(run, command)
  } catch (error) {
    if (command.startsProgram !== true) throw error
    const { exitCode, state } = await service.readState(run)
    if (exitCode === undefined && !state.startsWith('activating')) throw error
  }
}

export const firstLine = (text: string): string => text.trim().split('\n')[0] ?? ''
