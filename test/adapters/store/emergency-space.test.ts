/** The file that is thrown overboard when the disk is full. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { EmergencySpace } from '../../../store/lmdb/emergency-space.ts'
import { tempFolder } from '../../support/real-files.ts'

const BYTES = 64 * 1024
/** Longer than it takes another thread to give a file its name. */
const POLL_MS = 20

/** Before anybody in this process has heard that the file got its name: this thread does not rest meanwhile. */
async function hasJustAppeared(file: string): Promise<void> {
  for (let isThere = false; !isThere; ) {
    await new Promise((resolve) => setImmediate(resolve))
    const end = performance.now() + POLL_MS
    while (!isThere && performance.now() < end) isThere = existsSync(file)
  }
}

test('thrown overboard in the moment in which it is made, it is not there, and can be made again', async () => {
  const file = join(tempFolder(), 'ballast')
  const ballast = new EmergencySpace(file, BYTES)
  const making = ballast.make()
  await hasJustAppeared(file)
  ballast.free()
  expect(await making).toBe(false)
  expect(existsSync(file)).toBe(false)
  expect(await ballast.make()).toBe(true)
  expect(existsSync(file)).toBe(true)
})
