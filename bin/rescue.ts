/**
 * Says what a stopping process reports about the copy that saves a lost database, and how long it waits for the copy.
 */
import type { RescueCopy, StoreState } from '../core/ports.ts'
import { RESCUE_BYTES_PER_SECOND_MIN, RESCUE_MS_MIN } from '../protocol/limits.ts'

const NOT_IN_TIME = 'its content could not be saved in time'

export interface RescueReport {
  /** The time that the copy may take; 0 without a copy. */
  readonly msMax: number
  /** Adds the outcome of the copy to the reason of the stop. */
  describe(reason: string): string
}

export function watchRescue(state: StoreState): RescueReport {
  const rescue = state.is === 'broken' ? state.rescue : undefined
  if (rescue === undefined) return { msMax: 0, describe: (reason) => reason }
  let outcome = NOT_IN_TIME
  void rescue.ended.then((ended) => {
    outcome = ended
  })
  return { msMax: rescueMsMax(rescue), describe: (reason) => `${reason}; ${outcome}` }
}

/** A copy without a limit would keep the process forever when its disk hangs. */
const rescueMsMax = ({ bytes }: RescueCopy): number =>
  RESCUE_MS_MIN + Math.ceil((1_000 * bytes) / RESCUE_BYTES_PER_SECOND_MIN)
