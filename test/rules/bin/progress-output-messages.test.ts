/** The words with which the quickstart shows the state of a run to a person. */
import { describe, expect, test } from '@jest/globals'
import { createColors } from '../../../bin/output/colors.ts'
import { describeFailure, ProgressOutput } from '../../../bin/programs/quickstart/progress-output.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { aRun, aTicket, T0 } from '../run/runs.ts'

const plain = createColors({}, {})
const { identifier } = aTicket

test.each<[Partial<Run>, string]>([
  [{}, 'queued'],
  [{ queueReason: 'no workers connected' }, 'queued: no workers connected'],
  [{ status: 'preparing' }, 'preparing'],
  [{ status: 'failed', error: 'no\u001b[2J luck' }, 'failed: no?[2J luck'],
  [{ status: 'failed' }, 'failed: no reason was given'],
  [{ status: 'completed', prUrl: 'file:///1.json' }, 'completed, file:///1.json'],
  [{ status: 'completed' }, 'completed'],
])('the line of a run with %j', (more, text) => {
  const progress = new ProgressOutput()
  progress.setTickets([identifier])
  expect(progress.onRunUpdate(aRun(more), 7_500)?.text).toBe(` 7.5s ENG-12   ${text}`)
  expect(progress.describeState()).toBe(`  ENG-12: ${text}`)
})

test('a ticket without a run is named, too', () => {
  const progress = new ProgressOutput()
  progress.setTickets([identifier])
  expect(progress.describeState()).toBe('  ENG-12: no run yet')
})

describe('the reason why a run has no pull request', () => {
  test.each<[Partial<Run>, string]>([
    [{ status: 'failed', error: 'it broke' }, 'ENG-12 failed: it broke'],
    [{ status: 'completed' }, 'ENG-12 completed: no pull request was opened'],
    [{ status: 'cancelled' }, 'ENG-12 cancelled: cancelled'],
  ])('of a run with %j', (more, text) => {
    expect(describeFailure(aRun(more), [], plain)).toBe(text)
  })

  test('fits a narrow terminal: the sentence wraps at words, and the log is cut', () => {
    const run = aRun({ status: 'failed', error: 'the agent ended before it had changed anything' })
    const text = 'a line of the log that is longer than the terminal is wide'
    const event: RunEvent = { runId: run.id, index: 0, at: T0, type: 'log', stream: 'stdout', text }
    expect(describeFailure(run, [event], plain, 30).split('\n')).toEqual([
      'ENG-12 failed: the agent ended',
      'before it had changed anything',
      '  the end of its log:',
      '    a line of the log that is…',
    ])
  })
})
