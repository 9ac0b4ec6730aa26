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

/** On a busy machine this thread may be late for the moment between the file's appearance and the end of its creation. */
const ATTEMPTS_MAX = 50

/** Returns an emergency space whose file is there, and whose creation has not ended. */
async function spaceInTheMaking() {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const file = join(diskFolder(), 'ballast')
    const space = new EmergencySpace(file, BYTES)
    let hasEnded = false
    const making = space.make().finally(() => {
      hasEnded = true
    })
    await hasJustAppeared(file)
    if (!hasEnded) return { file, space, making }
  }
  throw new Error(`the file was always complete before it was seen, ${ATTEMPTS_MAX} times`)
}

test('emergency space that is freed while it is written does not exist, and can be created again', async () => {
  const { file, space, making } = await spaceInTheMaking()
  space.free()
  expect(await making).toBe(false)
  expect(existsSync(file)).toBe(false)
  expect(await space.make()).toBe(true)
  expect(existsSync(file)).toBe(true)
})
