/**
 * Decides what a hand edit of the configuration file means for a running service.
 *
 * The person may change everything that start-up accepts, credentials included. A text that start-up would refuse is
 * refused here with the same words, so a running service and a restarted one always agree.
 */
import type { CompletedConfig } from '../../protocol/config.ts'
import { no, type Result, yes } from '../result.ts'
import { type FindTlsFault, requireOpenListeners } from './listeners.ts'
import { readConfig } from './read.ts'
import { needsRestart } from './restart.ts'

export interface AdoptedEdit extends CompletedConfig {
  /** A changed setting is bound once at start, so the change needs a restart. */
  readonly restartNeeded: boolean
}

/** @param text the current text of the file; undefined when the file is gone, which never means "use every default" */
export function adoptEdit(
  current: CompletedConfig,
  text: string | undefined,
  findTlsFault: FindTlsFault,
): Result<AdoptedEdit> {
  if (text === undefined)
    return no('invalid', '/: is gone; what was loaded last stays in force until the file is back')
  const read = readConfig(text)
  if (!read.ok) return read
  const openable = requireOpenListeners(current.effective, read.value.effective, findTlsFault)
  if (!openable.ok) return openable
  return yes({ ...read.value, restartNeeded: needsRestart(current.effective, read.value.effective) })
}
