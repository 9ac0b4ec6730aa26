/** Tests which artifacts of a run people are shown. */
import { expect, test } from '@jest/globals'
import { artifactNames } from '../../../client/artifact-names.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { aRun, T0 } from '../run/runs.ts'

const artifact = (index: number, name: string): RunEvent => ({
  runId: 'run-1',
  index,
  at: T0,
  type: 'artifact',
  name,
  size: 1,
  contentType: 'text/plain',
})
const events = [artifact(0, 'report.txt'), artifact(1, 'unpublished.bundle')]
const unpublished = { provider: 'bwrap', unpublished: true } as const
const result = { artifacts: ['report.txt'] }

test.each([
  ['waits to be published', aRun({ sandbox: unpublished }), ['report.txt', 'unpublished.bundle']],
  ['waits with a follow-up', aRun({ sandbox: unpublished, result }), ['report.txt', 'unpublished.bundle']],
  ['is executed', aRun({ status: 'running' }), []],
  ['has ended', aRun({ status: 'completed', sandbox: unpublished, result }), ['report.txt']],
])('a run that %s has these artifacts', (_, run, names) => {
  expect(artifactNames(run, events)).toEqual(names)
})
