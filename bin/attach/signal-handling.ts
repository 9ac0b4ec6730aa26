/**
 * Restores the person's terminal when this process is suspended or ended by a signal, a bug or a closed window.
 */
import { EXIT } from '../exit.ts'
import { LogRedactor } from '../log-redaction.ts'
import type { LocalTerminal } from './local-terminal.ts'

/** The exit codes that shells use for programs ended by a signal. */
const EXIT_OF_SIGNAL = { SIGHUP: 129, SIGINT: 130, SIGQUIT: 131, SIGTERM: 143 } as const
/** The signals that a terminal sends for keys, to every program in the foreground. */
const KEY_SIGNALS: readonly string[] = ['SIGINT', 'SIGQUIT']
export const EXIT_HUNG_UP = EXIT_OF_SIGNAL.SIGHUP

/** Restores the terminal when the process is suspended; takes it over again and calls the listeners when it continues. */
export function handleSuspension(
  terminal: LocalTerminal,
  title: string,
  listeners: Iterable<() => void>,
): void {
  process.on('SIGTSTP', () => {
    terminal.restore()
    process.kill(process.pid, 'SIGSTOP')
  })
  process.on('SIGCONT', () => {
    terminal.takeOver(title)
    for (const listener of [...listeners]) listener()
  })
}

/**
 * Calls `restore` before this process ends because of a signal or a bug.
 *
 * @param isForChild a child in the foreground handles the keys of the terminal, and this process goes on
 */
export function handleProcessEnd(restore: () => void, isForChild: () => boolean = () => false): void {
  for (const [signal, code] of Object.entries(EXIT_OF_SIGNAL))
    process.on(signal, () => {
      if (KEY_SIGNALS.includes(signal) && isForChild()) return
      restore()
      process.exit(code)
    })
  const die = (error: unknown) => {
    restore()
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    process.stderr.write(`switchyard: ${new LogRedactor().redact(text)}\n`)
    process.exit(EXIT.broken)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  // Ignore write errors of a terminal that is gone.
  for (const stream of [process.stdin, process.stdout, process.stderr]) stream.on('error', () => {})
}
