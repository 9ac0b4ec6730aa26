/** A worker whose disk is full discards retained sandboxes before it refuses a dispatch, but none in vain. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { yes } from '../../../../core/result.ts'
import type { Job } from '../../../../protocol/frames.ts'
import { DISPATCH_RECLAIM_MS_MAX, openExecutor } from '../../../../worker/executor.ts'
import type { ExecutorDependencies } from '../../../../worker/run/execution/executor-dependencies.ts'
import { confirmedClock } from '../../../support/confirmed-clock.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'

const MIB = 1024 ** 2
const HOUR_MS = 3_600_000
/** Each sandbox of these tests stands for this much of the disk, in the trash too. */
const SANDBOX_BYTES = 400 * MIB
const MANY_FILES = 2 ** 30

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
function leaveSandbox(runId: string, { unpushed = false, retainedHours = 24, files = 100 } = {}): void {
  const number = readdirSync(join(data, 'sandboxes')).length
  const root = join(data, 'sandboxes', runId)
  mkdirSync(join(root, 'work'), { recursive: true })
  const createdAt = new Date(clock.now() - 10 * HOUR_MS + number * 60_000).toISOString()
  const retainedUntil = new Date(clock.now() + retainedHours * HOUR_MS).toISOString()
  const bytes = SANDBOX_BYTES
  writeFileSync(
    join(root, 'sandbox.json'),
    JSON.stringify({ v: 1, runId, number, createdAt, retainedUntil, unpushed, bytes, files, sessionId: 's' }),
  )
}

const folders = (name: 'sandboxes' | 'trash') => readdirSync(join(data, name)).sort()

const stored = () => folders('sandboxes').length + folders('trash').length

/** A disk on which this much is free beside all sandboxes and the trash. */
function openOn(bytes: number, more: Partial<ExecutorDependencies> = {}) {
  return openExecutor({
    folder: data,
    clock,
    retentionClock: confirmedClock(clock),
    log,
    firstNumber: 0,
    isRoot: false,
    removeFolder: (folder: string) => rm(folder, { recursive: true, force: true }),
    codehostFor: () => yes({}),
    freeSpace: async () => ({ bytes: bytes - SANDBOX_BYTES * stored(), files: MANY_FILES }),
    diskBytes: async () => undefined,
    onClosed: async () => {},
    ...more,
  } as unknown as ExecutorDependencies)
}

const job = { kind: 'run', run: { id: 'run-new' }, agent: {} } as unknown as Job
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

  test('deletes expired sandboxes first, then the oldest, and unpushed work never', async () => {
    leaveSandbox('unpushed', { unpushed: true })
    leaveSandbox('expired-unpushed', { unpushed: true, retainedHours: -1 })
    leaveSandbox('pushed')
    leaveSandbox('expired', { retainedHours: -1 })
    const left = []
    const answers = []
    for (const kept of [3, 2, 1]) {
      const executor = await openOn(1024 * MIB + kept * SANDBOX_BYTES)
      answers.push(await executor.refusalOf(job, noneProtected))
      left.push(folders('sandboxes'))
    }
    const unpushed = ['expired-unpushed', 'unpushed']
    expect(left).toEqual([[unpushed[0], 'pushed', unpushed[1]], unpushed, unpushed])
    expect(answers).toEqual([
      undefined,
      undefined,
      expect.stringMatching(/^disk: .* 2 with unpushed work stay until somebody discards their runs/),
    ])
  })

  test('is refused without a deletion when every sandbox that is not in use gives too little room', async () => {
    for (const runId of ['run-1', 'run-2', 'run-3']) leaveSandbox(runId)
    const executor = await openOn(1024 * MIB + SANDBOX_BYTES)
    expect(await executor.refusalOf(job, (runId) => runId !== 'run-3')).toMatch(
      /^disk: room for 224 MiB, a run needs 1024; .*are kept; free disk space/,
    )
    expect(folders('sandboxes')).toEqual(['run-1', 'run-2', 'run-3'])
    expect(log.lines).toEqual([])
  })

  test('deletes expired sandboxes although they give too little room', async () => {
    leaveSandbox('run-1')
    leaveSandbox('expired', { retainedHours: -1 })
    const executor = await openOn(1024 * MIB - SANDBOX_BYTES)
    expect(await executor.refusalOf(job, noneProtected)).toMatch(/^disk: /)
    expect(folders('sandboxes')).toEqual(['run-1'])
  })

  test('ends the deletions when one gives no room, because something else fills the disk', async () => {
    for (const runId of ['run-1', 'run-2', 'run-3']) leaveSandbox(runId)
    const freeSpace = async () => ({ bytes: 900 * MIB, files: MANY_FILES })
    const executor = await openOn(0, { freeSpace })
    expect(await executor.refusalOf(job, noneProtected)).toMatch(
      /^disk: room for 900 MiB.* deletion .*gave no room/,
    )
    expect(folders('sandboxes')).toEqual(['run-2', 'run-3'])
  })

  test('ends the deletions when what they gave is used up by something else', async () => {
    for (const runId of ['run-1', 'run-2', 'run-3', 'run-4']) leaveSandbox(runId)
    let used = 0
    const freeSpace = async () => {
      used += 300 * MIB
      return { bytes: 2_200 * MIB - used - SANDBOX_BYTES * stored(), files: MANY_FILES }
    }
    const executor = await openOn(0, { freeSpace })
    expect(await executor.refusalOf(job, noneProtected)).toMatch(/^disk: .*are kept/)
    expect(folders('sandboxes')).toEqual(['run-3', 'run-4'])
  })

  test('ends the deletions when one fails, and tries that one again before any other', async () => {
    for (const runId of ['run-1', 'run-2', 'run-3']) leaveSandbox(runId)
    let isBroken = true
    const removeFolder = async (folder: string) => {
      if (isBroken) throw new Error('the disk is broken')
      await rm(folder, { recursive: true, force: true })
    }
    const executor = await openOn(1024 * MIB + 2 * SANDBOX_BYTES, { removeFolder })
    for (let tries = 0; tries < 3; tries++)
      expect(await executor.refusalOf(job, noneProtected)).toMatch(/^disk: .*could not be deleted/)
    expect([folders('sandboxes'), folders('trash')]).toEqual([['run-2', 'run-3'], [expect.any(String)]])
    isBroken = false
    expect(await executor.refusalOf(job, noneProtected)).toBe(undefined)
    expect([folders('sandboxes'), folders('trash')]).toEqual([['run-2', 'run-3'], []])
  })

  test.each([
    ['is accepted once a sandbox gave enough inodes', 9_000, undefined, ['run-2', 'run-3']],
    ['keeps sandboxes with too few inodes', 2_900, /^disk: room for 1000 files/, ['run-1', 'run-2', 'run-3']],
  ])('%s', async (_, files, refusal, left) => {
    for (const runId of ['run-1', 'run-2', 'run-3']) leaveSandbox(runId, { files })
    const freeSpace = async () => ({ bytes: 2 ** 40, files: 1_000 + (3 - stored()) * files })
    const executor = await openOn(0, { freeSpace })
    const refused = await executor.refusalOf(job, noneProtected)
    if (refusal === undefined) expect(refused).toBe(undefined)
    else expect(refused).toMatch(refusal)
    expect(folders('sandboxes')).toEqual(left)
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
