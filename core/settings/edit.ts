/**
 * What a change of the file by hand means for a running service.
 *
 * The person at the file may do anything that start-up would accept, credentials included. A text that start-up would
 * refuse is refused here with the same words, so that a running service and a restarted one never disagree.
 */
import type { CompletedConfig } from '../../protocol/config.ts'
import { no, type Result, yes } from '../result.ts'
import { readConfig } from './read.ts'
import { needsRestart } from './restart.ts'

export interface AdoptedEdit extends CompletedConfig {
  /** Something is bound once at start, and only a restart brings it about. */
  readonly restartNeeded: boolean
}

/** @param text what the file holds now; undefined when it is gone, which no editor means as "every default" */
export function adoptEdit(current: CompletedConfig, text: string | undefined): Result<AdoptedEdit> {
  if (text === undefined)
    return no('invalid', '/: is gone; what was loaded last stays in force until the file is back')
  const read = readConfig(text)
  if (!read.ok) return read
  return yes({ ...read.value, restartNeeded: needsRestart(current.effective, read.value.effective) })
}
