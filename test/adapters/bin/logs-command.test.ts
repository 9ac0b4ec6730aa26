/** `switchyard logs` against a fake host: the last lines of one phase. */
import { expect, test } from '@jest/globals'
import { type LogsOptions, logs } from '../../../bin/cli/runs/logs.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { fakeRun } from '../../support/fake-host-api.ts'

const RUN_ID = `run-${'a'.repeat(32)}`
const at = '2026-03-01T08:30:00.000Z'
const log = (index: number, text: string): RunEvent => ({
  runId: RUN_ID,
  index,
  at,
  type: 'log',
  stream: 'stdout',
  text,
})
const EVENTS: RunEvent[] = [
  { runId: RUN_ID, index: 0, at, type: 'status', to: 'preparing' },
  log(1, 'from the setup'),
  { runId: RUN_ID, index: 2, at, type: 'status', from: 'preparing', to: 'running' },
  log(3, 'first'),
  log(4, 'second'),
]

test.each([
  ['the state began before the last lines', '2', 'running', ['first', 'second']],
  ['a state ends within the last lines', '4', 'preparing', ['from the setup']],
  ['all last lines are of another state', '2', 'preparing', []],
] as const)('--tail with --phase: %s', async (_, tail, phase, texts) => {
  const { hostApi, print } = await openCommandHost()
  hostApi.runsById.set(RUN_ID, fakeRun(RUN_ID, 'running'))
  hostApi.eventsById.set(RUN_ID, EVENTS)
  const { out } = await print<LogsOptions>((context) => logs(context, RUN_ID), { options: { tail, phase } })
  expect(
    out
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.slice('09:30:00   '.length).trim()),
  ).toEqual(texts)
})
