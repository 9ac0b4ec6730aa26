/**
 * What nobody foresaw. What is on disk is consistent at any instant, so the safest thing is to end and to start anew
 * from it.
 */
import type { Log } from '../core/ports.ts'
import { EXIT } from './exit.ts'

export function installCrashHandler(log: Log): void {
  const die = (error: unknown) => {
    log.error({ err: error }, 'an unexpected error; ending, to recover from what is on disk')
    process.exit(EXIT.broken)
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  // Whoever read our output went away: no reason to end.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
}
