/** The record of a run whose finished work could not be published. */
import { expect, test } from '@jest/globals'
import { addEarlierResult } from '../../../actors/runs/unpublished-work.ts'
import { publishAgain, UNPUBLISHED_BUNDLE } from '../../../core/run/publishing.ts'
import { aRun } from '../../rules/run/runs.ts'

const before = { artifacts: ['a.txt', UNPUBLISHED_BUNDLE] }
const ended = aRun({ status: 'completed', result: { artifacts: ['b.txt'] } })

test('the bundle stays after another follow-up has completed, and goes when its own commits are published', () => {
  const earlier = { result: before, startedAt: null, finishedAt: null }
  expect(addEarlierResult(ended, { earlier, publishing: null }).result?.artifacts).toEqual([
    'a.txt',
    UNPUBLISHED_BUNDLE,
    'b.txt',
  ])
  const { publishing } = publishAgain(aRun(), aRun({ result: before }), '2026-01-01T00:00:00.000Z')
  expect(addEarlierResult(ended, { earlier: null, publishing }).result?.artifacts).toEqual(['a.txt', 'b.txt'])
})
