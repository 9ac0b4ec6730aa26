/**
 * A service manager starts the host when its user logs in: systemd on Linux, launchd on macOS.
 *
 * Each manager states its file, and the commands for a change as data, so that `--dry-run` prints what runs otherwise.
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
  /** The command ends when the host is ready, or has failed to become so. */
  readonly startsHost?: true
}

/** The file is new, differs from the installed one, or is the same while the host does not run. */
export type ServiceChange = 'new' | 'changed' | 'stopped'

export interface ServiceState {
  /** The manager starts the host at login. */
  readonly enabled: boolean
  readonly running: boolean
  /** The manager's own word. */
  readonly state: string
  readonly pid?: number
  readonly since?: string
  /** The exit code of the last run that ended. */
  readonly exitCode?: number
}

export interface ServiceManager {
  readonly name: 'systemd' | 'launchd'
  readonly file: string
  /** The file as this program writes it now. */
  readonly content: string
  /** The command that shows the host's log. */
  readonly logCommand: string
  readonly commandsFor: (change: ServiceChange) => readonly ServiceCommand[]
  readonly beforeRemoval: readonly ServiceCommand[]
  readonly afterRemoval: readonly ServiceCommand[]
  /** Throws an ExitError when the manager does not answer. */
  readonly requireRunning: (run: ManagerRunner) => Promise<void>
  readonly readState: (run: ManagerRunner) => Promise<ServiceState>
  readonly dataDirIn: (content: string) => string | undefined
  /** A sentence when the host ends with the login session, with the command against it. */
  readonly findSessionNote: (run: ManagerRunner) => Promise<string | undefined>
}
