/** The order in which free workers are offered is that of `placeRun`, whatever happens to them. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { FreeWorkers } from '../../../core/fleet/free-workers.ts'
import type { WorkerFacts } from '../../../core/fleet/obstacles.ts'
import { firstFit, placeRun } from '../../../core/fleet/placement.ts'

const NOW = 1_000
const facts = fc.record({
  id: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
  online: fc.boolean(),
  state: fc.constantFrom('active' as const, 'draining' as const),
  max: fc.nat(4),
  used: fc.nat(4),
  pausedUntil: fc.constantFrom(0, 0, 2 * NOW),
})
const step = fc.oneof(
  { weight: 5, arbitrary: facts.map((worker) => ({ does: 'update' as const, worker })) },
  { weight: 1, arbitrary: facts.map((worker) => ({ does: 'remove' as const, worker })) },
)

test('the first worker in the order that fits is the one that is chosen among all', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const free = new FreeWorkers<WorkerFacts>()
      // The registry changes its workers in place.
      const workers = new Map<string, { -readonly [K in keyof WorkerFacts]: WorkerFacts[K] }>()
      for (const { does, worker } of steps) {
        if (does === 'remove') {
          workers.delete(worker.id)
          free.remove(worker.id)
          continue
        }
        const known = workers.get(worker.id) ?? { ...worker, name: worker.id }
        workers.set(worker.id, Object.assign(known, worker))
        free.update(known)

        const order = [...free.inOrder()]
        const isFree = ({ online, state, max, used }: WorkerFacts) =>
          online && state === 'active' && used < max
        expect(new Set(order)).toEqual(new Set([...workers.values()].filter(isFree)))
        const placed = placeRun({ runId: 'r' }, workers.values(), NOW)
        expect(firstFit({ runId: 'r' }, order, NOW)?.id).toBe(
          placed.is === 'placed' ? placed.worker : undefined,
        )
      }
    }),
    { numRuns: 300 },
  )
})
