/**
 * A service manager starts programs when their user logs in: systemd on Linux, launchd on macOS.
 *
 * Each service states its file, and the commands for a change as data, so that `--dry-run` prints what runs otherwise.
 */
import { execFile } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { refusedError } from '../../process/exit.ts'

/** A command of the service manager; stopping the host is one. */
const SERVICE_COMMAND_MS_MAX = 90_000

/** The line by which a file is known as written by `service install`. */
export const BY_SWITCHYARD = 'Written by switchyard service install, which replaces edits.'

export interface ServiceCommand {
  readonly words: readonly string[]
  /** The command fails where there is nothing to do. */
  readonly mayFail?: true
  /** The command fails while an ended service is still being removed. */
  readonly isRetried?: true
  /** The command ends when the program is ready, or has failed to become so. */
  readonly startsProgram?: true
}

/** The file is new, differs from the installed one, or is the same while the program does not run. */
export type ServiceChange = 'new' | 'changed' | 'stopped'

export interface ServiceState {
  /** The manager starts the program at login. */
  readonly enabled: boolean
  readonly running: boolean
  /** The manager's own word. */
  readonly state: string
  readonly pid?: number
  readonly since?: string
  /** The exit code of the last run that ended. */
  readonly exitCode?: number
}

/** A program that a manager starts. */
export interface Service {
  readonly role: 'host' | 'worker'
  readonly file: string
  /** The file for this program with these arguments. @param stopSeconds how long a stop may take */
  readonly format: (words: readonly string[], stopSeconds: number) => string
  /** The command that shows the program's log. */
  readonly logCommand: string
  readonly commandsFor: (change: ServiceChange) => readonly ServiceCommand[]
  readonly beforeRemoval: readonly ServiceCommand[]
  readonly afterRemoval: readonly ServiceCommand[]
  readonly readState: (run: ManagerRunner) => Promise<ServiceState>
}

export interface ServiceManager {
  readonly name: 'systemd' | 'launchd'
  readonly host: Service
  /** Absent where no machine can execute runs. */
  readonly worker?: Service
  /** Throws an ExitError when the manager does not answer. */
  readonly requireRunning: (run: ManagerRunner) => Promise<void>
  /** The host's data directory in the file of any of its services. */
  readonly dataDirIn: (content: string) => string | undefined
  /** A sentence when services end with the login session, with the command against it. */
  readonly findSessionNote: (run: ManagerRunner) => Promise<string | undefined>
}

interface ManagerAnswer {
  /** Undefined when the program can't be started. */
  readonly code: number | undefined
  readonly out: string
  readonly err: string
}

export type ManagerRunner = (words: readonly string[]) => Promise<ManagerAnswer>

/** Runs the commands of a service manager, with output that programs can read. */
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
    if (tried >= tries) throw refusedError(`${command.words.join(' ')} failed: ${firstLine(err)}`)
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
