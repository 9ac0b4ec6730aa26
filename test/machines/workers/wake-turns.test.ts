/** Turns of sleeping workers: who is told of queued runs, and when a turn is over. */
import { expect, test } from '@jest/globals'
import type { EnrolledWorker } from '../../../actors/workers/enrolled-worker.ts'
import { WAKE_TURN_MS, WakeTurns } from '../../../actors/workers/module.ts'
import type { WorkerRegistry } from '../../../actors/workers/worker-registry.ts'
import { createSettableClock } from '../../support/test-resources.ts'

function open() {
  const clock = createSettableClock()
  const workers = new Map<string, EnrolledWorker>()
  // The fields of a worker and of the registry that turns read.
  const turns = new WakeTurns({ clock, workers: workers as unknown as WorkerRegistry })
  const change = (id: string, fields: Partial<EnrolledWorker>): EnrolledWorker => {
    const before = workers.get(id) ?? { id, online: false, state: 'active', context: {}, lastFrameAt: 0 }
    const worker = { ...before, ...fields } as EnrolledWorker
    workers.set(id, worker)
    return worker
  }
  return { clock, turns, change }
}

test('a run wakes one sleeping worker, and the others sleep on until its turn ends', () => {
  const { clock, turns, change } = open()
  const [attic, cellar] = [change('attic', {}), change('cellar', {})]
  expect(turns.promisedToOthers(attic, 1)).toBe(0)
  expect(turns.promisedToOthers(cellar, 1)).toBe(1)
  clock.wind(WAKE_TURN_MS)
  expect(turns.promisedToOthers(cellar, 1)).toBe(0)
})

test('the turn of a worker that came and went ends, although nobody asked while it was there', () => {
  const { clock, turns, change } = open()
  const cellar = change('cellar', {})
  expect(turns.promisedToOthers(change('attic', {}), 1)).toBe(0)
  clock.wind(1_000)
  const gone = change('attic', { lastFrameAt: clock.monotonic() })
  clock.wind(1_000)
  expect(turns.promisedToOthers(cellar, 1)).toBe(0)
  expect(turns.promisedToOthers(gone, 1)).toBe(1)
})

test('two wanted runs wake two workers', () => {
  const { turns, change } = open()
  expect(turns.promisedToOthers(change('attic', {}), 2)).toBe(0)
  expect(turns.promisedToOthers(change('cellar', {}), 2)).toBe(1)
  expect(turns.promisedToOthers(change('shed', {}), 2)).toBe(2)
})
