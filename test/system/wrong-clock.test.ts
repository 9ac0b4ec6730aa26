/** A worker process whose clock is wrong keeps the work that exists nowhere else until its host has it discarded. */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
/** Longer than a busy machine takes from the end of the run to the restarted worker. */
const RETENTION_SECONDS = 60
const MONTH_AHEAD = 'const now = Date.now; Date.now = () => now() + 30 * 24 * 3_600_000'

test(
  'a worker that starts with its clock a month ahead discards nothing; its host has it discarded in time',
  async () => {
    const workerEnv: NodeJS.ProcessEnv = {}
    const system = await LocalSystem.open({
      sandbox: { retentionHours: RETENTION_SECONDS / 3_600 },
      workerEnv,
    })
    const worker = await system.pairWorker()
    system.writeTicket('LOST-1', ['write only-here.txt', '  hours of work', 'hang'])
    const { id } = await system.waitForStatus('LOST-1', 'running')
    await system.host.request(`/api/runs/${id}/cancel`, { method: 'POST' })
    const run = await system.waitForEnd('LOST-1')
    const folder = system.sandboxOf(run) ?? ''
    worker.process.kill('SIGTERM')
    await worker.exit

    const ahead = join(system.folder, 'ahead.cjs')
    writeFileSync(ahead, MONTH_AHEAD)
    workerEnv.NODE_OPTIONS = `--require ${ahead}`
    const shifted = system.startWorker(worker.dataDir)
    await until('the worker has compared its clock', () => shifted.err().includes('differ by 30d0h'))
    expect(existsSync(folder)).toBe(true)
    shifted.process.kill('SIGTERM')
    await shifted.exit

    delete workerEnv.NODE_OPTIONS
    const isOver = () => Date.now() > Date.parse(run.sandbox.retainedUntil ?? '')
    await until('the time of the sandbox is over by the clock of the host', isOver)
    system.startWorker(worker.dataDir)
    await until('its host has the sandbox discarded', () => !existsSync(folder))
  },
  TEST_MS_MAX,
)
