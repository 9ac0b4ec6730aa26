/** When the runs of a ticket have ended counts for whether the ticket runs again, also where records are damaged. */
import { expect, test } from '@jest/globals'
import type { HostContext } from '../../../actors/host-context.ts'
import { FinishedRuns } from '../../../actors/runs/finished-runs.ts'
import type { RunRecordsView } from '../../../actors/runs/module.ts'
import { RunManager } from '../../../actors/runs/run-manager.ts'
import type { WorkersView } from '../../../actors/workers/module.ts'
import { createIds } from '../../../core/ids.ts'
import type { ControlDatabase } from '../../../core/ports/store.ts'
import { sampleTicket } from '../../rules/tickets/samples.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const HOUR_MS = 3_600_000

/** A manager whose store learns of the damage of the only run when its ticket's runs are listed. */
function createManager(runId: string, startedAt: string): RunManager {
  let isKnown = false
  const runs = {
    list() {
      isKnown = true
      return []
    },
    damagedOf: () => (isKnown ? [runId] : []),
  } as unknown as ControlDatabase['runs']
  const finishedRuns = new FinishedRuns(
    runs,
    () => {},
    () => {},
  )
  // The answer needs no more of a host.
  const context = { store: { database: { runs } }, instant: () => startedAt }
  return new RunManager(
    context as unknown as HostContext,
    { finishedRuns } as unknown as RunRecordsView,
    {} as WorkersView,
  )
}

test.each([-HOUR_MS, HOUR_MS])(
  'a damaged run that began %i ms after this start, by its own clock, counts as ended',
  (ms) => {
    const clock = new ManualClock()
    const at = (time: number) => new Date(time).toISOString()
    const runId = createIds(
      { now: () => clock.now() + ms },
      { bytes: (count) => new Uint8Array(count) },
    ).run()
    const manager = createManager(runId, at(clock.now()))
    expect(manager.lastFinishedAt(sampleTicket())).toBe(at(clock.now() + Math.max(0, ms)))
  },
)
