/** A worker whose disk is full discards retained sandboxes before it refuses a dispatch. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { yes } from '../../../../core/result.ts'
import type { Job } from '../../../../protocol/frames.ts'
import { DISPATCH_RECLAIM_MS_MAX } from '../../../../protocol/limits.ts'
import { openExecutor } from '../../../../worker/executor.ts'
import type { ExecutorDependencies } from '../../../../worker/run/executor-dependencies.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'

const MIB = 1024 ** 2
const HOUR_MS = 3_600_000
/** Each sandbox of these tests stands for this much of the disk, in the trash too. */
const SANDBOX_BYTES = 400 * MIB

let data = ''
let clock = new ManualClock()
let log = createRecordingLog()
beforeEach(async () => {
  data = await mkdtemp(join(tmpdir(), 'switchyard-room-'))
  for (const name of ['sandboxes', 'trash']) mkdirSync(join(data, name))
  clock = new ManualClock()
  log = createRecordingLog()
})
afterEach(() => rm(data, { recursive: true, force: true }))

/** Leaves a retained sandbox behind; each one is newer than those before. */
function leaveSandbox(runId: string, { unpushed = false, retainedHours = 24 } = {}): void {
  const number = readdirSync(join(data, 'sandboxes')).length
  const root = join(data, 'sandboxes', runId)
  mkdirSync(join(root, 'work'), { recursive: true })
  const createdAt = new Date(clock.now() - 10 * HOUR_MS + number * 60_000).toISOString()
  const retainedUntil = new Date(clock.now() + retainedHours * HOUR_MS).toISOString()
  const bytes = SANDBOX_BYTES
  writeFileSync(
    join(root, 'sandbox.json'),
    JSON.stringify({ v: 1, runId, number, createdAt, retainedUntil, unpushed, bytes, sessionId: 's' }),
  )
}

const folders = (name: 'sandboxes' | 'trash') => readdirSync(join(data, name)).sort()

/** A disk on which this much is free beside all sandboxes and the trash. */
function openOn(bytes: number, more: Partial<ExecutorDependencies> = {}) {
  return openExecutor({
    folder: data,
    clock,
    log,
    firstNumber: 0,
    isRoot: false,
    removeFolder: (folder: string) => rm(folder, { recursive: true, force: true }),
    codehostFor: () => yes({}),
    freeBytes: async () => bytes - SANDBOX_BYTES * (folders('sandboxes').length + folders('trash').length),
    diskBytes: async () => undefined,
    onClosed: async () => {},
    ...more,
  } as unknown as ExecutorDependencies)
}

const job = { kind: 'run', run: { id: 'run-new' } } as unknown as Job
const noneProtected = () => false

describe('a dispatch to a worker with a full disk', () => {
  test('is accepted once the oldest sandboxes are deleted, and no more than necessary', async () => {
    for (const runId of ['run-1', 'run-2', 'run-3', 'run-4']) leaveSandbox(runId)
    const executor = await openOn(1024 * MIB + 2 * SANDBOX_BYTES)
    expect(await executor.refusalOf(job, noneProtected)).toBe(undefined)
    expect([folders('sandboxes'), folders('trash')]).toEqual([['run-3', 'run-4'], []])
    expect(await executor.refusalOf(job, noneProtected)).toBe(undefined)
    expect(folders('sandboxes')).toHaveLength(2)
  })

  test('deletes expired sandboxes first and unpushed work last, with a line in the log', async () => {
    leaveSandbox('unpushed', { unpushed: true })
    leaveSandbox('pushed')
    leaveSandbox('expired', { retainedHours: -1 })
    const left = []
    for (const kept of [2, 1, 0]) {
      const executor = await openOn(1024 * MIB + kept * SANDBOX_BYTES)
      expect(await executor.refusalOf(job, noneProtected)).toBe(undefined)
      left.push(folders('sandboxes'))
    }
    expect(left).toEqual([['pushed', 'unpushed'], ['unpushed'], []])
    const warnings = log.lines.filter(({ level }) => level === 'warn')
    expect(warnings).toEqual([
      expect.objectContaining({
        fields: { runId: 'unpushed', bytes: SANDBOX_BYTES },
        message: expect.stringMatching(/unpushed work .*disk is full/),
      }),
    ])
  })

  test('is refused when deleting every sandbox that is not in use gives too little room', async () => {
    for (const runId of ['run-1', 'run-2', 'run-3']) leaveSandbox(runId)
    const executor = await openOn(1024 * MIB)
    expect(await executor.refusalOf(job, (runId) => runId === 'run-1')).toMatch(/^disk: room for 624 MiB/)
    expect(folders('sandboxes')).toEqual(['run-1'])
  })

  test('deletes nothing when there is room', async () => {
    for (const runId of ['run-1', 'run-2']) leaveSandbox(runId)
    const executor = await openOn(1024 * MIB + 2 * SANDBOX_BYTES)
    expect(await executor.refusalOf(job, noneProtected)).toBe(undefined)
    expect(folders('sandboxes')).toHaveLength(2)
  })

  test('is answered in time while a deletion is slow, which frees no more than the room needs', async () => {
    for (const runId of ['run-1', 'run-2', 'run-3']) leaveSandbox(runId)
    let finish = () => {}
    const gate = new Promise<void>((resolve) => {
      finish = resolve
    })
    const removeFolder = async (folder: string) => {
      await gate
      await rm(folder, { recursive: true, force: true })
    }
    const executor = await openOn(1024 * MIB + 2 * SANDBOX_BYTES, { removeFolder })
    const answers = [executor.refusalOf(job, noneProtected), executor.refusalOf(job, noneProtected)]
    while (clock.timers < 2) await new Promise((resolve) => setImmediate(resolve))
    await clock.advance(DISPATCH_RECLAIM_MS_MAX)
    for (const answer of answers) expect(await answer).toMatch(/^busy: .*being deleted to make room/)
    finish()
    expect(await executor.refusalOf(job, noneProtected)).toBe(undefined)
    expect(folders('sandboxes')).toEqual(['run-2', 'run-3'])
    await executor.close()
    expect(existsSync(join(data, 'sandboxes/run-2'))).toBe(true)
  })
})
