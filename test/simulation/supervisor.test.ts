/**
 * Simulates as many schedules of a worker's supervisor as a test may take, and finds faults that were put into it.
 *
 * `npm run simulate:supervisor -- --seeds 1000` simulates more of them, and `--mutants` tries every fault.
 */
import { spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { drawSeed } from '../support/random.ts'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const simulate = (...args: readonly string[]) =>
  spawnSync(process.execPath, ['build/simulate-supervisor.mjs', ...args], { cwd: root, encoding: 'utf8' })

test('no stop destroys work, no other drain is lifted, and no work waits for ever', () => {
  const from = drawSeed()
  const { status, stdout } = simulate('--seeds', '40', '--from', String(from))
  expect([status, stdout]).toEqual([0, expect.stringContaining('no law broken')])
}, 60_000)

test('the schedules find a supervisor that counts no terminals', () => {
  const { status, stdout } = simulate('--mutants', '--only', 'terminals do not count')
  expect([status, stdout]).toEqual([0, expect.stringContaining('1 of 1 faults were found')])
}, 60_000)
