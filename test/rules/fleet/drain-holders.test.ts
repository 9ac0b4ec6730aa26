/** The holders of a drain: a drain stays until its last holder ends it. */
import { expect, test } from '@jest/globals'
import { addDrainHolder, drainHolders, releaseDrainHolder } from '../../../core/fleet/drain-holders.ts'
import type { DrainHolder } from '../../../protocol/worker.ts'

test.each<[string, readonly DrainHolder[] | undefined, DrainHolder, readonly DrainHolder[]]>([
  ['a supervisor ends its own drain', ['supervisor'], 'supervisor', []],
  ['the drain of an operator stays', ['supervisor', 'operator'], 'supervisor', ['operator']],
  ['the drain of a program on the machine stays', ['worker', 'supervisor'], 'supervisor', ['worker']],
  ['a drain of an earlier version is no supervisor’s', undefined, 'supervisor', ['operator']],
])('%s', (_, stored, released, left) => {
  expect(releaseDrainHolder(stored, released)).toEqual(left)
})

test('a holder that drains twice holds once', () => {
  expect(addDrainHolder(addDrainHolder(['operator'], 'supervisor'), 'supervisor')).toEqual([
    'operator',
    'supervisor',
  ])
  expect(drainHolders([])).toEqual(['operator'])
})
