/** A running sandbox that outgrows its disk quota is found out, without measuring it all the time. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import {
  measureWithDu,
  QuotaWatch,
  type QuotaWatchOptions,
  SANDBOX_MEASURE_EVERY_MS,
  SANDBOX_MEASURE_PAUSE_MS_MIN,
} from '../../../../worker/run/disk/disk-space.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const GIB = 1024 ** 3
const free = (gib: number) => ({ bytes: gib * GIB, files: 1_000_000 })

function startWatch(changes: Partial<QuotaWatchOptions> = {}) {
  const clock = new ManualClock()
  const measured: number[] = []
  const run = { gib: 0, takesMs: 0 }
  const watch = new QuotaWatch({
    folder: '/run-1',
    quotaGib: 10,
    diskBytes: 1_000 * GIB,
    free: free(100),
    clock,
    measure: async () => {
      measured.push(run.gib)
      await clock.advance(run.takesMs)
      return run.gib * GIB
    },
    ...changes,
  })
  return { watch, clock, measured, run }
}

describe('a folder is measured', () => {
  test('when the disk has lost half of what the run may still write', async () => {
    const { watch, clock, measured, run } = startWatch()
    expect(await watch.findProblem(free(95.1))).toBeUndefined()
    expect(measured).toEqual([])
    run.gib = 4
    expect(await watch.findProblem(free(95))).toBeUndefined()
    await clock.advance(SANDBOX_MEASURE_PAUSE_MS_MIN)
    // Six more may be written, of which half is three.
    expect(await watch.findProblem(free(92.1))).toBeUndefined()
    expect(measured).toEqual([4])
    run.gib = 11
    expect(await watch.findProblem(free(92))).toBe(
      "the run's files take 11 GiB, and sandbox.diskQuotaGib allows 10 GiB",
    )
  })

  test('now and then, because another folder may shrink as much as this one grows', async () => {
    const { watch, clock, run } = startWatch()
    run.gib = 20
    await clock.advance(SANDBOX_MEASURE_EVERY_MS - 1)
    expect(await watch.findProblem(free(100))).toBeUndefined()
    await clock.advance(1)
    expect(await watch.findProblem(free(100))).toMatch(/^the run's files take 20 GiB/)
  })

  test('not again before a pause, which is longer where measuring takes long', async () => {
    const { watch, clock, measured, run } = startWatch()
    run.takesMs = 2_000
    await watch.findProblem(free(90))
    await clock.advance(39_999)
    await watch.findProblem(free(50))
    expect(measured).toHaveLength(1)
    await clock.advance(1)
    await watch.findProblem(free(50))
    expect(measured).toHaveLength(2)
  })
})

test('without the setting a run may take a quarter of the disk', async () => {
  const { watch, run } = startWatch({ quotaGib: undefined, diskBytes: 40 * GIB })
  run.gib = 12
  expect(await watch.findProblem(free(90))).toMatch(
    /^the run's files take 12 GiB, and a quarter of .* is 10 GiB/,
  )
})

test('an unknown size ends no run', async () => {
  const { watch } = startWatch({ measure: async () => undefined })
  expect(await watch.findProblem(free(0))).toBeUndefined()
  const { watch: onUnknownDisk, run } = startWatch({ quotaGib: undefined, diskBytes: undefined })
  run.gib = 1_000
  expect(await onUnknownDisk.findProblem(free(0))).toBeUndefined()
})

test('a real folder is measured without following its links', async () => {
  const folder = tempFolder()
  mkdirSync(join(folder, 'run'))
  mkdirSync(join(folder, 'other'))
  writeFileSync(join(folder, 'other', 'big'), Buffer.alloc(3_000_000))
  writeFileSync(join(folder, 'run', 'small'), Buffer.alloc(1_000_000))
  symlinkSync(join(folder, 'other'), join(folder, 'run', 'link'))
  const bytes = (await measureWithDu(join(folder, 'run'))) ?? 0
  expect(bytes).toBeGreaterThan(900_000)
  expect(bytes).toBeLessThan(2_000_000)
  expect(await measureWithDu(join(folder, 'none'))).toBeUndefined()
})
