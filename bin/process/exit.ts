/**
 * The exit codes of all commands, as in sysexits.h where it has a code. Scripts rely on the numbers.
 */
import type { Result } from '../../core/result.ts'

export const EXIT = {
  done: 0,
  refused: 1,
  usage: 2,
  /** The data was written by a newer version. */
  dataTooNew: 65,
  /** A port is in use, no host is reachable, or this machine has no sandbox. */
  unavailable: 69,
  /** A bug or a disk failure. */
  broken: 70,
  /** Another process uses this data directory or this credential. */
  inUse: 75,
  /** Host and worker do not understand each other's version. */
  protocol: 76,
  /** The host does not accept this worker (any more). */
  notAccepted: 77,
  /** The configuration does not validate. */
  config: 78,
  /** Ctrl-C ended watching or a question. */
  interrupted: 130,
} as const

/** The exit codes that shells use for programs ended by a signal. */
export const EXIT_OF_SIGNAL = { SIGHUP: 129, SIGINT: 130, SIGQUIT: 131, SIGTERM: 143 } as const

/** An expected end of the command: a message for the person, an exit code for scripts. */
export class ExitError extends Error {
  /** Programs are bundled apart from the command that starts them, and have a class of their own. */
  readonly isExit = true
  readonly code: number
  /** A command or a deed that helps, printed on a line of its own. */
  readonly cure: string | undefined

  constructor(code: number, message: string, cure?: string) {
    super(message)
    this.code = code
    this.cure = cure
  }
}

/** The end of a command that was called wrongly. */
export const usageError = (message: string, cure?: string): ExitError =>
  new ExitError(EXIT.usage, message, cure)

/** The end of a command that was understood and cannot be done. */
export const refusedError = (message: string, cure?: string): ExitError =>
  new ExitError(EXIT.refused, message, cure)

export const isExitError = (error: unknown): error is ExitError =>
  error instanceof Error && Reflect.get(error, 'isExit') === true

/** Returns the value; a refusal ends the command, as wrong usage unless the code says more. */
export function unwrapOrExit<T>(answer: Result<T>, code: number = EXIT.usage): T {
  if (answer.ok) return answer.value
  throw new ExitError(code, answer.refusal.message)
}
