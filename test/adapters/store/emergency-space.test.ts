/** Tests of the file that is deleted when the disk is full. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { EmergencySpace } from '../../../store/lmdb/emergency-space.ts'
import { diskFolder } from '../../support/temp-folder.ts'

const BYTES = 64 * 1024
/** Longer than another thread needs to rename a file. */
const POLL_MS = 20

/** Polls without yielding, so that this test sees the new file name before the code under test does. */
async function hasJustAppeared(file: string): Promise<void> {
  for (let isThere = false; !isThere; ) {
    await new Promise((resolve) => setImmediate(resolve))
    const end = performance.now() + POLL_MS
    while (!isThere && performance.now() < end) isThere = existsSync(file)
  }
}

test('emergency space that is freed while it is written does not exist, and can be created again', async () => {
  const file = join(diskFolder(), 'ballast')
  const space = new EmergencySpace(file, BYTES)
  const making = space.make()
  await hasJustAppeared(file)
  space.free()
  expect(await making).toBe(false)
  expect(existsSync(file)).toBe(false)
  expect(await space.make()).toBe(true)
  expect(existsSync(file)).toBe(true)
})
