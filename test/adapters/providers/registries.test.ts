/** Every driver of the configuration's schema has an entry in its registry, and no entry lacks a schema. */
import { expect, test } from '@jest/globals'
import { CODE_HOST_DRIVERS, TRACKER_DRIVERS } from '../../../protocol/drivers.ts'
import { CODE_HOST_REGISTRY } from '../../../providers/codehost/registry.ts'
import { TRACKER_REGISTRY } from '../../../providers/tracker/registry.ts'

test('the tracker registry has the drivers of the schema', () => {
  expect(Object.keys(TRACKER_REGISTRY)).toEqual(TRACKER_DRIVERS)
})

test('the code host registry has the drivers of the schema', () => {
  expect(Object.keys(CODE_HOST_REGISTRY)).toEqual(CODE_HOST_DRIVERS)
})
