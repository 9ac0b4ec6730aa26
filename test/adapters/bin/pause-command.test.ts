/** `switchyard pause --wait`: when it goes on waiting, and with which code it ends. */
import { expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/cli/command/run-command.ts'
import { pause, resume } from '../../../bin/cli/status/pause.ts'
import type { WaitingOptions } from '../../../bin/cli/workers/watch-fleet.ts'
import { yes } from '../../../core/result.ts'
import type { Gate } from '../../../protocol/explain.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { fakeRun, fakeWorker, WORKER_ID } from '../../support/fake-host-api.ts'
import { until } from '../../support/until.ts'

async function openHost(activeRuns: number) {
  const { hostApi, print } = await openCommandHost()
  const worker = { ...fakeWorker(WORKER_ID), name: 'forge', connection: 'online' as const, activeRuns }
  const running = { ...fakeRun('run-1', 'running', 'ENG-1'), sandbox: { workerId: WORKER_ID } }
  const runs = [running, fakeRun('run-2', 'queued', 'ENG-2')]
  const hello = { ...hostApi.helloAnswer, runs, workers: [worker] }
  let isGreeted = false
  hostApi.hello = () => {
    isGreeted = true
    return hello
  }
  return {
    push: hostApi.push.bind(hostApi),
    worker,
    untilWatched: () => until('the command listens', () => isGreeted),
    pause: (options: WaitingOptions) =>
      print((context: CommandContext<WaitingOptions>) => pause(context), { options }),
  }
}

test('pause --wait ends when no run executes and no dispatch is on its way', async () => {
  const host = await openHost(2)
  const paused = host.pause({ wait: true })
  await host.untilWatched()
  host.push({ type: 'run-updated', run: fakeRun('run-1', 'completed', 'ENG-1') })
  host.push({ type: 'workers', workers: [{ ...host.worker, activeRuns: 1, connection: 'offline' }] })
  host.push({ type: 'workers', workers: [{ ...host.worker, activeRuns: 0 }] })
  const { code, out, err } = await paused
  expect([code, out]).toEqual([0, expect.stringMatching(/^paused: nothing runs any more after /)])
  expect(err).toMatch(/^2 left: ENG-1 running 30m$/m)
  expect(err).toMatch(/^1 left; forge is offline, its runs are waited for until their leases end$/m)
  expect(err).toMatch(/^Next: switchyard resume$/m)
})

test('pause --wait with --json prints the answer of the API once nothing runs', async () => {
  const host = await openHost(1)
  const paused = host.pause({ wait: true, json: true })
  await host.untilWatched()
  host.push({ type: 'workers', workers: [{ ...host.worker, activeRuns: 0 }] })
  expect(JSON.parse((await paused).out)).toEqual({ paused: true })
})

test('pause --wait ends with 1 when the time is over, and the host stays paused', async () => {
  const host = await openHost(1)
  const { code, out, err } = await host.pause({ wait: true, timeout: '1s' })
  expect([code, out]).toEqual([1, ''])
  expect(err).toMatch(/^Not all have ended in 1\.?0?s: 1 left: ENG-1 running 30m; the host stays paused\.$/m)
})

test('--timeout without --wait is wrong use', async () => {
  const host = await openHost(1)
  await expect(host.pause({ timeout: '30m' })).rejects.toMatchObject({
    code: 2,
    cure: 'switchyard pause --wait --timeout 30m',
  })
})

const pausedGate: Gate = { id: 'policy', status: 'stop', message: 'running work goes on; 1 run would start' }

test('resume names the runs that start, and counts those that wait for anything else', async () => {
  const { hostApi, print } = await openCommandHost()
  const gates: Record<string, Gate[]> = {
    'ENG-1': [pausedGate, { id: 'capacity', status: 'wait', message: 'attic 2 of 2 slots' }],
    'ENG-2': [{ id: 'repository', status: 'stop', message: 'doors is unknown' }, pausedGate],
    'ENG-3': [{ id: 'blockers', status: 'wait', message: 'ENG-1 is queued' }, pausedGate],
  }
  for (const name of Object.keys(gates)) hostApi.runsById.set(name, fakeRun(name, 'queued', name))
  hostApi.explainRun = (id) => yes({ gates: gates[id] ?? [] })
  const ask = () => print(resume, { columns: 80, isTyped: true, input: 'n\n' })
  expect((await ask()).err).toContain('1 run starts: ENG-1; 2 wait for something else. Go on?')
  hostApi.runsById.delete('ENG-1')
  hostApi.runsById.delete('ENG-3')
  expect((await ask()).err).toContain('no run starts; 1 waits for something else. Go on?')
  expect(hostApi.patches).toEqual([])
})
