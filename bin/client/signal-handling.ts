/**
 * What may come between a person and a session from outside: signals, bugs, a window that is closed.
 *
 * None of them may leave the person's terminal as the session had it.
 */
import { EXIT } from '../exit.ts'
import { LogRedactor } from '../log-redaction.ts'
import type { LocalTerminal } from './local-terminal.ts'

/** What a shell says of a program that a signal ended. */
const EXIT_OF_SIGNAL = { SIGHUP: 129, SIGINT: 130, SIGQUIT: 131, SIGTERM: 143 } as const
export const EXIT_HUNG_UP = EXIT_OF_SIGNAL.SIGHUP

/** Stopped, it leaves the terminal to its shell; continued, it has it again, and whoever wishes to know is told. */
export function handleSuspension(terminal: LocalTerminal, title: string, wishes: Iterable<() => void>): void {
  process.on('SIGTSTP', () => {
    terminal.restore()
    process.kill(process.pid, 'SIGSTOP')
  })
  process.on('SIGCONT', () => {
    terminal.takeOver(title)
    for (const wish of [...wishes]) wish()
  })
}

/** However this process ends, what was lent is given back first. */
export function handleProcessEnd(giveBack: () => void): void {
  for (const [signal, code] of Object.entries(EXIT_OF_SIGNAL))
    process.on(signal, () => {
      giveBack()
      process.exit(code)
    })
  const die = (error: unknown) => {
    giveBack()
    const said = error instanceof Error ? (error.stack ?? error.message) : String(error)
    process.stderr.write(`switchyard: ${new LogRedactor().redact(said)}\n`)
    process.exit(EXIT.broken)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  // A terminal that is gone can be told nothing any more.
  for (const stream of [process.stdin, process.stdout, process.stderr]) stream.on('error', () => {})
}
