/** `switchyard pulls` against a real listener. */
import { expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/client/run-command.ts'
import {
  change,
  type MergeOptions,
  merge,
  type ReviewOptions,
  review,
} from '../../../bin/commands/pull-actions.ts'
import { checks, diff, list, type PullListOptions, show } from '../../../bin/commands/pulls.ts'
import { yes } from '../../../core/result.ts'
import type { PullDetail, PullSummary } from '../../../protocol/pulls.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { fakeRun } from '../../support/fake-host-api.ts'

const at = '2026-03-01T08:48:00.000Z'
const summary: PullSummary = {
  repo: 'api',
  remote: 'acme/api',
  number: 87,
  url: 'https://host.example/acme/api/pull/87',
  title: '登録フォームの検証',
  state: 'open',
  author: 'switchyard',
  baseBranch: 'main',
  headBranch: 'switchyard/eng-1',
  createdAt: at,
  updatedAt: at,
}
const detail: PullDetail = {
  ...summary,
  body: '',
  draft: false,
  headSha: 'abc',
  additions: 9,
  deletions: 2,
  changedFiles: 1,
  conversation: { comments: [], reviews: [], threads: [] },
  files: [
    { path: 'src/form.ts', status: 'modified', additions: 1, deletions: 1, patch: '@@ -1 +1 @@\n-a\n+b' },
  ],
  commits: [],
  checks: [{ name: 'test', status: 'completed', conclusion: 'success', source: 'check-run' }],
}
const errors = [{ repo: 'web', remote: 'acme/web', message: 'not found' }]

async function openPulls() {
  const host = await openCommandHost()
  const { answers, runsById } = host.hostApi
  answers.set('pulls', yes({ pulls: [summary], errors }))
  answers.set('pull', yes(detail))
  answers.set('mergePull', yes({ merged: true, message: 'merged' }))
  for (const name of ['closePull', 'reopenPull', 'readyPull', 'reviewPull', 'commentPull'])
    answers.set(name, yes(undefined))
  runsById.set('run-1', { ...fakeRun('run-1', 'completed'), prUrl: summary.url })
  runsById.set('run-2', fakeRun('run-2', 'completed', 'ENG-2'))
  return host
}

test('pulls list shows pull requests, and repositories that cannot be read on standard error', async () => {
  const { print } = await openPulls()
  const command = (context: CommandContext<PullListOptions>) => list(context)
  const { out, err } = await print(command, { columns: 60 })
  expect(out).toMatch(/^PULL .*\napi#87 +登録フォームの検証 +open /)
  expect(err).toBe('switchyard: web: not found\n')
  expect((await print(command, { options: { output: 'id' } })).out).toBe('api#87\n')
  expect((await print(command, { options: { state: 'closed', output: 'id' } })).out).toBe('')
  expect(JSON.parse((await print(command, { options: { json: true } })).out)).toEqual({
    pulls: [summary],
    errors,
  })
})

test.each([[['api', '87']], [['api#87']], [['ENG-1']]])('%j names one pull request', async (words) => {
  const { print, hostApi } = await openPulls()
  const { out } = await print((context) => show(context, words), { columns: 200 })
  expect(out).toMatch(/^api#87 .*open, \+9 -2\n/)
  expect(hostApi.providerCalls.at(-1)).toEqual({ name: 'pull', args: ['api', 87] })
})

test('pulls diff and checks print what the pull request changes and what its checks say', async () => {
  const { print } = await openPulls()
  expect((await print((context) => diff(context, ['api', '87']))).out).toBe(
    'src/form.ts  +1 -1\n@@ -1 +1 @@\n-a\n+b\n',
  )
  expect((await print((context) => checks(context, ['api', '87']))).out).toBe(
    'CHECK\tOUTCOME\tADDRESS\ntest\tsuccess\t-\n',
  )
})

test('pulls merge, close and review act on it', async () => {
  const { print, hostApi } = await openPulls()
  const merged = await print((context: CommandContext<MergeOptions>) => merge(context, ['ENG-1']), {
    options: { method: 'squash' },
  })
  expect(merged.out).toBe('api#87 is merged.\n')
  expect((await print((context) => change(context, 'close', ['api', '87']))).out).toBe('api#87 is closed.\n')
  const reviewed = (options: ReviewOptions) =>
    print((context: CommandContext<ReviewOptions>) => review(context, ['api', '87']), { options })
  await reviewed({ approve: true, body: 'fine' })
  await expect(reviewed({ approve: true, comment: true })).rejects.toMatchObject({ code: 2 })
  expect(hostApi.providerCalls.map(({ name }) => name)).toEqual([
    'pulls',
    'mergePull',
    'closePull',
    'reviewPull',
  ])
})

test('the real command exits with 1 without a pull request, and with 2 for other words', async () => {
  const { run } = await openPulls()
  const [none, wrong, merged] = await Promise.all([
    run('pulls', 'show', 'ENG-2'),
    run('pulls', 'show', 'api', 'last'),
    run('pulls', 'merge', 'api', '87', '-o', 'id'),
  ])
  expect([none.code, wrong.code, merged.code, merged.out]).toEqual([1, 2, 0, 'api#87\n'])
})
