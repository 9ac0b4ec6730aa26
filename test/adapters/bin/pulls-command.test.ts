/** `switchyard pulls` against a real listener. */
import { expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/cli/command/run-command.ts'
import {
  change,
  type MergeOptions,
  merge,
  type ReplyOptions,
  type ResolveOptions,
  type ReviewOptions,
  reply,
  resolve,
  review,
} from '../../../bin/cli/pulls/pull-actions.ts'
import { checks, diff, list, type PullListOptions, show } from '../../../bin/cli/pulls/pulls.ts'
import { yes } from '../../../core/result.ts'
import { configDefaults } from '../../../protocol/config.ts'
import type { PullDetail, PullSummary, PullThread } from '../../../protocol/pulls.ts'
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
  run: { id: 'run-1', ticket: 'ENG-1' },
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
  for (const name of [
    'closePull',
    'reopenPull',
    'readyPull',
    'reviewPull',
    'commentPull',
    'replyPull',
    'resolveThread',
  ])
    answers.set(name, yes(undefined))
  runsById.set('run-1', { ...fakeRun('run-1', 'completed'), prUrl: summary.url })
  runsById.set('run-2', fakeRun('run-2', 'completed', 'ENG-2'))
  return host
}

test('pulls list does not deny pull requests of repositories that cannot be read', async () => {
  const { print, hostApi } = await openPulls()
  hostApi.answers.set('pulls', yes({ pulls: [], errors }))
  const { err } = await print((context: CommandContext<PullListOptions>) => list(context))
  expect(err).toMatch(/^switchyard: web: not found\n.* elsewhere\.\n$/)
})

test('pulls list shows pull requests, and repositories that cannot be read on standard error', async () => {
  const { print, hostApi } = await openPulls()
  const command = (context: CommandContext<PullListOptions>) => list(context)
  const { out, err } = await print(command, { columns: 60 })
  expect(out).toMatch(/^PULL .*TICKET\napi#87 +登録フォームの検証 +open .*ENG-1$/m)
  expect(err).toBe('switchyard: web: not found\n')
  expect(hostApi.runQueries).toEqual([])
  expect((await print(command, { options: { output: 'id' } })).out).toBe('api#87\n')
  expect((await print(command, { options: { state: 'closed', output: 'id' } })).out).toBe('')
  expect(JSON.parse((await print(command, { options: { json: true } })).out)).toEqual({
    pulls: [summary],
    errors,
  })
})

test('pulls list shows checks, size and comments where the width allows, and - where they are not known', async () => {
  const { print, hostApi } = await openPulls()
  const known: PullSummary = {
    ...summary,
    additions: 9,
    deletions: 0,
    changedFiles: 1,
    commentCount: 3,
    checksState: 'failed',
  }
  hostApi.answers.set('pulls', yes({ pulls: [known, { ...summary, number: 88 }], errors: [] }))
  const command = (context: CommandContext<PullListOptions>) => list(context)
  const { out } = await print(command, { columns: 140 })
  expect(out).toMatch(/^PULL +TITLE +STATE +CHECKS +SIZE +COMMENTS +AUTHOR +UPDATED +TICKET$/m)
  expect(out).toMatch(/^api#87 .* open +failed +\+9 -0, 1 file +3 +switchyard /m)
  expect(out).toMatch(/^api#88 .* open +- +- +- +switchyard /m)
  const narrow = await print(command, { columns: 60 })
  expect(narrow.out).toMatch(/^PULL +TITLE +STATE +CHECKS +TICKET$/m)
})

test.each([[['api', '87']], [['api#87']], [['ENG-1']]])('%j names one pull request', async (words) => {
  const { print, hostApi } = await openPulls()
  const { out } = await print((context) => show(context, words), { columns: 200 })
  expect(out).toMatch(/^api#87 .*open, \+9 -2\n/)
  expect(hostApi.providerCalls.at(-1)).toEqual({ name: 'pull', args: ['api', 87] })
})

test('the name of an issue, which looks like that of a pull request, names the one that its run opened', async () => {
  const { print, hostApi } = await openPulls()
  const opened = (id: string, issue: string, remote: string, number: number) =>
    hostApi.runsById.set(id, {
      ...fakeRun(id, 'completed', issue),
      prUrl: `https://host.example/${remote}/pull/${number}`,
      pull: { remote, number, branch: 'b', confirmed: true },
    })
  opened('run-3', 'api#12', 'acme/api', 13)
  // Another repository of the same name has an issue with the number of a pull request here.
  opened('run-4', 'api#14', 'other/api', 15)
  hostApi.config = () => ({ ...configDefaults, repos: { api: { remote: 'acme/api' } } })
  for (const [name, number] of [
    ['api#12', 13],
    ['api#14', 14],
    ['api#16', 16],
  ] as const) {
    await print((context) => show(context, [name]))
    expect(hostApi.providerCalls.filter(({ name }) => name === 'pull').at(-1)?.args).toEqual(['api', number])
  }
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
    'pull',
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

// ---- one pull request ----------------------------------------------------------------------------------------------

const thread = (id: string, line: number, resolved = false): PullThread => ({
  id,
  resolved,
  path: 'src/form.ts',
  line,
  diffHunk: '',
  comments: [
    { id: `c-${id}`, author: 'bo', body: 'Trim before the length check?', createdAt: at, url: summary.url },
  ],
})
const commit = { sha: 'abc', message: 'Check', author: 'switchyard', committedAt: at }
const check = (name: string, conclusion = 'success') =>
  ({ name, status: 'completed', conclusion, source: 'check-run' }) as const

async function openDetail(given: Partial<PullDetail>) {
  const host = await openPulls()
  host.hostApi.answers.set('pull', yes({ ...detail, ...given }))
  return host
}

const showPull = (context: CommandContext) => show(context, ['api', '87'])

test('pulls show names the run, the checks with the reviews beside them, and open threads', async () => {
  const { print } = await openDetail({
    title: 'Validate the registration form',
    additions: 118,
    deletions: 12,
    changedFiles: 4,
    commits: [commit, commit, commit],
    checks: [check('test'), check('lint'), check('e2e')],
    conversation: { comments: [], reviews: [], threads: [thread('t-1', 41)] },
  })
  const { out, err } = await print(showPull, { columns: 80 })
  expect(out).toBe(
    [
      'api#87  Validate the registration form                            open, +118 -12',
      'branch    switchyard/eng-1 into main, 3 commits, 4 files, run 1',
      'checks    ✓ test  ✓ lint  ✓ e2e        reviews  none yet',
      'thread    src/form.ts:41, open    bo: "Trim before the length check?"\n',
    ].join('\n'),
  )
  expect(err).toBe('Next: switchyard followup ENG-1   or   switchyard pulls merge ENG-1\n')
})

test('one commit and one file are no plural, and a check that did not pass has its word', async () => {
  const { print } = await openDetail({
    commits: [commit],
    checks: [
      check('test'),
      check('e2e', 'timed_out'),
      { name: 'lint', status: 'in_progress', source: 'status' },
    ],
    conversation: {
      comments: [],
      reviews: [{ id: 'r', author: 'ann', state: 'CHANGES_REQUESTED', body: '', submittedAt: at }],
      threads: [],
    },
  })
  const narrow = (await print(showPull, { columns: 60 })).out.split('\n')
  expect(narrow[1]).toBe('branch    switchyard/eng-1 into main, 1 commit, 1 file, run')
  expect(narrow[2]).toBe('          1')
  expect(narrow.slice(3, 5)).toEqual([
    'checks    ✓ test  ✗ e2e timed out  ▸ lint in progress',
    'reviews   ann changes requested',
  ])
  expect((await print(showPull)).out.split('\n').slice(2, 4)).toEqual([
    'checks    test success, e2e timed out, lint in progress',
    'reviews   ann changes requested',
  ])
})

test('the last lines of what a failed check reported stand below the checks', async () => {
  const report = 'one\ntwo\n\nthree\nfour\nfive\nsrc/a.ts:12: Expected 1, \u001b[31mgot 2\n'
  const { print } = await openDetail({ checks: [{ ...check('e2e', 'failure'), report }] })
  const lines = (await print(showPull, { columns: 60 })).out.split('\n')
  expect(lines.slice(4, 9).map((line) => line.trimEnd())).toEqual([
    'report    e2e: two',
    '          three',
    '          four',
    '          five',
    '          src/a.ts:12: Expected 1, got 2',
  ])
})

test('marks of programs in comments are not shown', async () => {
  const mark = '<!-- switchyard:follow-up fu-1 -->'
  const comment = { id: 'c', author: 'bo', body: `Done.\n\n${mark}\n`, createdAt: at, url: summary.url }
  const { print } = await openDetail({
    conversation: {
      comments: [comment],
      reviews: [],
      threads: [{ ...thread('t-1', 41), comments: [comment] }],
    },
  })
  expect((await print(showPull, { columns: 80 })).out.split('\n').slice(-3)).toEqual([
    'comment   bo: "Done."',
    'thread    src/form.ts:41, open    bo: "Done."',
    '',
  ])
})

test('a ticket whose newest run is another is not the name of the pull request', async () => {
  const { print, hostApi } = await openDetail({})
  hostApi.runsById.set('run-9', fakeRun('run-9', 'running'))
  expect((await print(showPull)).err).toBe('Next: switchyard pulls merge api 87\n')
})

const replyTo = (options: ReplyOptions) => (context: CommandContext<ReplyOptions>) =>
  reply({ ...context, options }, ['api', '87'])
const resolveThread = (options: ResolveOptions) => (context: CommandContext<ResolveOptions>) =>
  resolve({ ...context, options }, ['api', '87'])

test('pulls reply and resolve act on the thread at a line, or on the one with an id', async () => {
  const { print, hostApi } = await openDetail({
    conversation: { comments: [], reviews: [], threads: [thread('t-1', 41), thread('t-2', 50, true)] },
  })
  const replied = await print(replyTo({ thread: 'src/form.ts:41', body: 'Yes.' }))
  expect(replied.out).toBe('src/form.ts:41 of api#87 has your reply.\n')
  const resolved = await print(resolveThread({ thread: 't-1' }))
  expect(resolved.out).toBe('src/form.ts:41 of api#87 is resolved.\n')
  const reopened = await print(resolveThread({ thread: 'src/form.ts:50', reopen: true }))
  expect(reopened.out).toBe('src/form.ts:50 of api#87 is open again.\n')
  expect(hostApi.providerCalls.filter(({ name }) => name !== 'pull').map(({ args }) => args)).toEqual([
    ['api', 87, { commentId: 'c-t-1', body: 'Yes.' }],
    ['api', 87, { threadId: 't-1', resolved: true }],
    ['api', 87, { threadId: 't-2', resolved: false }],
  ])
})

test('a file with several threads is ambiguous, and one without any is refused', async () => {
  const { print } = await openDetail({
    conversation: { comments: [], reviews: [], threads: [thread('t-1', 41), thread('t-2', 50)] },
  })
  await expect(print(resolveThread({ thread: 'src/form.ts' }))).rejects.toMatchObject({
    code: 2,
    cure: 'switchyard pulls resolve api 87 --thread t-1',
  })
  await expect(print(resolveThread({ thread: 'src/main.ts:1' }))).rejects.toMatchObject({
    code: 1,
    cure: 'switchyard pulls show api 87',
  })
})

test('the real pulls reply and pulls resolve send what their options say', async () => {
  const { run, hostApi } = await openDetail({
    conversation: { comments: [], reviews: [], threads: [thread('t-1', 41)] },
  })
  const at41 = ['api', '87', '--thread', 'src/form.ts:41']
  const ends = [
    await run('pulls', 'reply', ...at41, '--body', 'Yes.'),
    await run('pulls', 'resolve', ...at41),
    await run('pulls', 'resolve', ...at41, '--reopen'),
  ]
  expect(ends.map(({ code }) => code)).toEqual([0, 0, 0])
  expect(hostApi.providerCalls.filter(({ name }) => name !== 'pull').map(({ args }) => args[2])).toEqual([
    { commentId: 'c-t-1', body: 'Yes.' },
    { threadId: 't-1', resolved: true },
    { threadId: 't-1', resolved: false },
  ])
})

test('pulls merge names what is red, pending or asked, and merges over it only with --anyway', async () => {
  const { print, hostApi } = await openPulls()
  const check = (name: string, status: 'completed' | 'in_progress', conclusion?: string) => ({
    name,
    status,
    source: 'check-run' as const,
    ...(conclusion === undefined ? {} : { conclusion }),
  })
  const asked = { id: 'r', author: 'ada', body: 'no', submittedAt: at }
  const conversation = { ...detail.conversation, reviews: [{ ...asked, state: 'CHANGES_REQUESTED' }] }
  const checks = [check('lint', 'completed', 'timed_out'), check('e2e', 'in_progress')]
  hostApi.answers.set('pull', yes({ ...detail, checks, conversation }))
  const printMerge = (anyway?: true) =>
    print((context: CommandContext<MergeOptions>) => merge(context, ['ENG-1']), {
      options: { method: 'merge', ...(anyway === undefined ? {} : { anyway }) },
    })
  await expect(printMerge()).rejects.toMatchObject({
    code: 1,
    message: 'api#87 is not merged: check lint is red; check e2e is pending; ada requested changes',
    cure: 'switchyard pulls merge api 87 --anyway',
  })
  expect(hostApi.providerCalls.map(({ name }) => name)).not.toContain('mergePull')
  expect((await printMerge(true)).out).toBe('api#87 is merged.\n')
  const approved = { ...asked, state: 'APPROVED', submittedAt: '2026-03-01T08:49:00.000Z' }
  const reviews = [...conversation.reviews, approved]
  hostApi.answers.set('pull', yes({ ...detail, conversation: { ...conversation, reviews } }))
  expect((await printMerge()).out).toBe('api#87 is merged.\n')
})

test('a repository is named by its key, its owner/name or the name alone', async () => {
  const { print, hostApi } = await openPulls()
  hostApi.config = () => ({ ...configDefaults, repos: { back: { remote: 'acme/api' } } })
  for (const words of [['back', '87'], ['acme/api', '87'], ['api#87'], ['back#87']])
    await print((context) => show(context, words))
  const asked = hostApi.providerCalls.filter(({ name }) => name === 'pull').map(({ args }) => args)
  expect(asked).toEqual(Array.from({ length: 4 }, () => ['back', 87]))
})

test('a ticket without a repository names the pull request by where its run opened it', async () => {
  const { print, hostApi } = await openPulls()
  hostApi.config = () => ({ ...configDefaults, repos: { back: { remote: 'acme/api' } } })
  const pull = { remote: 'acme/api', number: 87, branch: 'b', confirmed: true }
  const run = fakeRun('run-1', 'completed', 'ENG-1')
  hostApi.runsById.set('run-1', { ...run, prUrl: summary.url, pull })
  await print((context) => show(context, ['ENG-1']))
  expect(hostApi.providerCalls.find(({ name }) => name === 'pull')?.args).toEqual(['back', 87])
})
