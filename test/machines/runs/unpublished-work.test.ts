/** The record of a run whose finished work could not be published. */
import { expect, test } from '@jest/globals'
import { addEarlierResult } from '../../../actors/runs/unpublished-work.ts'
import { publishAgain, publishedBundles } from '../../../core/run/publishing.ts'
import { bundleName } from '../../../protocol/kept-bundle.ts'
import { aRun } from '../../rules/run/runs.ts'

const T0 = '2026-01-01T00:00:00.000Z'
const followUp = { id: 'fu-2', number: 2 }
const [first, second] = [bundleName({ id: 'fu-1' }), bundleName(followUp)]
const before = { artifacts: ['a.txt', first, second] }
const ended = aRun({ status: 'completed', result: { artifacts: ['b.txt'] } })

test('a bundle stays after another follow-up has completed, and goes when its own commits are published', () => {
  const earlier = { result: before, startedAt: null, finishedAt: null }
  expect(addEarlierResult(ended, { earlier, publishing: null, followUp }).result?.artifacts).toEqual([
    ...before.artifacts,
    'b.txt',
  ])
  const { publishing } = publishAgain(aRun(), aRun({ result: before }), T0)
  const published = addEarlierResult(ended, { earlier: null, publishing, followUp })
  expect(published.result?.artifacts).toEqual(['a.txt', first, 'b.txt'])
  expect(publishedBundles(publishing, published)).toEqual([second])
  expect(publishedBundles(publishing, { ...published, status: 'failed' })).toEqual([])
})
