/**
 * A service manager starts programs when their user logs in: systemd on Linux, launchd on macOS.
 *
 * Each service states its file, and the commands for a change as data, so that `--dry-run` prints what runs otherwise.
 */
import type { ManagerRunner } from './run-manager.ts'

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
