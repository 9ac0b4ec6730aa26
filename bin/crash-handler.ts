/**
 * Ends the process on an unexpected error. The data on disk is consistent at any time, so a restart is the safest
 * recovery.
 */
import type { Log } from '../core/ports.ts'
import { EXIT } from './exit.ts'

export function installCrashHandler(log: Log): void {
  const die = (error: unknown) => {
    log.error(
      { err: error },
      'unexpected error; the process ends, and recovers from disk when it is restarted',
    )
    process.exit(EXIT.broken)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  // A closed reader of our output is no reason to end.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
}
