/** Tests of what becomes of finished work that could not be published. */
import { expect, test } from '@jest/globals'
import { interruptionError } from '../../../core/run/interruption.ts'
import {
  afterDiscard,
  isUnpublished,
  keptWorkError,
  mayPublishAgain,
  mergeResults,
  publishAgainMs,
  unpublishedError,
  waitToPublish,
  withBundles,
} from '../../../core/run/publishing.ts'
import { bundleName, UNPUBLISHED_BUNDLE } from '../../../protocol/kept-bundle.ts'
import { RUN_ARTIFACTS_MAX } from '../../../protocol/limits.ts'
import type { Run, RunOptions } from '../../../protocol/run.ts'
import { aRun, T0, T1 } from './runs.ts'

const sandbox = { id: 'box-1', workerId: 'wk-1', workerName: 'attic', retainedUntil: T1, unpublished: true }
const failed = aRun({ status: 'failed', sandbox })
const holder = { publishes: true }

test.each([
  [[UNPUBLISHED_BUNDLE], 'its commits are kept as the artifact unpublished.bundle'],
  [[], 'its work with it; a retry asks the agent again'],
])('a discarded run with the artifacts %j says what is left of its work', (artifacts, words) => {
  const kept = { ...failed, error: keptWorkError(failed, 'a rule refused it'), result: { artifacts } }
  const { error, sandbox: left } = afterDiscard(kept, T1)
  expect(error).toBe(`a rule refused it; its sandbox was discarded, and ${words}`)
  expect(left).not.toHaveProperty('unpublished')
  expect(afterDiscard(aRun({ status: 'failed', error: 'the tests fail' }), T1).error).toBe('the tests fail')
})

test('the pause before the next try doubles up to an hour', () => {
  const minutes = [1, 2, 3, 4, 5, 6, 7, 8, 1_000].map((tries) => publishAgainMs(tries) / 60_000)
  expect(minutes).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
})

test.each([
  ['failed', 'publish', true],
  ['failed', 'credentials', false],
  ['failed', undefined, false],
  ['cancelled', 'publish', false],
  ['completed', 'publish', false],
] as const)('an outcome %s with failure %s is unpublished work: %s', (status, failure, is) => {
  expect(isUnpublished({ status, costs: [], ...(failure === undefined ? {} : { failure }) })).toBe(is)
})

test.each<[string, Run, RunOptions, { readonly publishes?: boolean } | undefined, boolean]>([
  ['failed with work in its sandbox', failed, {}, holder, true],
  ['was cancelled with work in its sandbox', { ...failed, status: 'cancelled' }, {}, holder, true],
  ['gets another agent and no words for it', failed, { provider: 'agentB' }, holder, true],
  ['gets words for an agent', failed, { instructions: 'Keep the rule.' }, holder, false],
  ['gets blank words', failed, { instructions: ' ' }, holder, true],
  [
    'has left no finished work',
    { ...failed, sandbox: { ...sandbox, unpublished: false } },
    {},
    holder,
    false,
  ],
  ['lost its sandbox', { ...failed, sandbox: { ...sandbox, retainedUntil: T0 } }, {}, holder, false],
  ['has completed before its follow-up failed', { ...failed, status: 'completed' }, {}, holder, false],
  ['has an older worker', failed, {}, {}, false],
  ['has a worker that was revoked', failed, {}, undefined, false],
])('a retry of a run that %s publishes first: %#', (_, run, options, worker, publishes) => {
  const now = Date.parse(T0)
  expect(mayPublishAgain(run, options, { now, holder: worker })).toBe(publishes)
})

test('a try that the code host refused is counted and repeated later, and one that the worker’s end cut off at once', () => {
  const ended = aRun({ status: 'failed', sandbox })
  const wait = (why: string) => waitToPublish(ended, undefined, { before: null, why, now: T0 }).publishing
  const later = new Date(Date.parse(T0) + publishAgainMs(1)).toISOString()
  expect(wait('a rule refused the push')).toMatchObject({ tries: 1, nextAt: later })
  expect(wait(interruptionError('the worker ended'))).toMatchObject({ tries: 0, nextAt: T0 })
  const before = { ...wait('a rule refused the push'), tries: 2 }
  const interrupted = { before, why: interruptionError('the worker ended'), now: T0 }
  expect(waitToPublish(ended, undefined, interrupted).publishing).toMatchObject({ tries: 2, why: before.why })
})

test('a later result adds to an earlier one', () => {
  const earlier = { summary: 'Fixed.', branch: 'a', artifacts: ['a.txt', 'b.txt'] }
  expect(mergeResults(null, undefined)).toBeUndefined()
  expect(mergeResults(earlier, undefined)).toBe(earlier)
  expect(mergeResults(null, earlier)).toBe(earlier)
  expect(mergeResults(earlier, { prUrl: 'https://x.example/1', artifacts: ['b.txt', 'c.txt'] })).toEqual({
    summary: 'Fixed.',
    prUrl: 'https://x.example/1',
    artifacts: ['a.txt', 'b.txt', 'c.txt'],
  })
})

test('the sentences say where the work is', () => {
  expect(unpublishedError('no push in time', { artifacts: [UNPUBLISHED_BUNDLE] }, UNPUBLISHED_BUNDLE)).toBe(
    'no push in time; its commits are kept as the artifact unpublished.bundle until you publish or discard them',
  )
  expect(unpublishedError('no push in time', null, UNPUBLISHED_BUNDLE)).toBe(
    'no push in time; its commits are not among its artifacts',
  )
  expect(keptWorkError(failed, 'the branch was overtaken')).toBe(
    `the branch was overtaken; its work is kept in the sandbox on worker attic until ${T1}: a retry publishes it, and a retry with instructions asks the agent again`,
  )
})

test('follow-ups of one run have bundles of their own, which its record and its errors name', () => {
  const [first, second] = ['fu-019b76daabe875b0', 'fu-019b76daabf175b0'].map((id) => bundleName({ id }))
  if (first === undefined || second === undefined) throw new Error('there is no name')
  const result = { artifacts: [UNPUBLISHED_BUNDLE, first, second] }
  expect(new Set(result.artifacts).size).toBe(3)
  expect(unpublishedError('lost', result, second)).toContain(second)
  // A worker of an earlier version knows one name only.
  expect(unpublishedError('lost', { artifacts: [UNPUBLISHED_BUNDLE] }, second)).toContain(UNPUBLISHED_BUNDLE)
  expect(withBundles({ artifacts: ['a.txt', first] }, { artifacts: ['log.txt', first, second] })).toEqual({
    artifacts: ['a.txt', first, second],
  })
  const many = Array.from({ length: RUN_ARTIFACTS_MAX }, (_, i) => `${i}.txt`)
  expect(withBundles({ artifacts: many }, result).artifacts).toHaveLength(RUN_ARTIFACTS_MAX)
})
