/** The driver of tickets in a folder. */
import { no } from '../../../core/result.ts'
import type { TrackerDriver } from '../tracker-driver.ts'
import { createLocalTracker } from './tracker.ts'

const NO_ACCOUNT = no('invalid', 'the tracker is a folder on this machine, which needs no account')

export const localTrackerDriver: TrackerDriver = {
  create: ({ tracker: { path, pollSeconds } }, ports) =>
    path === undefined ? undefined : createLocalTracker({ ...ports, path, pollMs: pollSeconds * 1_000 }),
  checkAccount: async () => NO_ACCOUNT,
  consent: NO_ACCOUNT,
}
