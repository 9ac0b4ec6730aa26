/**
 * Behaviour that all code hosts share.
 *
 * A bench is one repository with real git, a person who acts through the driver, and another person. Each test has its
 * own bench.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type {
  PullDetailFacts,
  PullFacts,
  PullReference,
  PullRequestApi,
} from '../../../../core/ports/code-host.ts'
import type { Result } from '../../../../core/result.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { CodehostRepo, PullDetail, PullSummary } from '../../../../protocol/pulls.ts'
import { writeCommit } from '../../../support/github/commit-writer.ts'
import { branchTip, createBare } from '../../../support/github/plumbing.ts'

export interface PullBench {
  readonly host: PullRequestApi
  /** `owner/name`; the default branch is `main`. */
  readonly remote: string
  /** Folder of the bare repository. */
  readonly bare: string
  /** Adds a commit to the branch; a new branch starts at `from` (default: `main`). Answers its hash. */
  push(branch: string, commit: PushedCommit): Promise<string>
  /** Deletes the branch. */
  drop(branch: string): Promise<void>
  /** Opens a pull request as another person; `own`: as the driver's person. Answers its number. */
  open(order: BenchOrder): Promise<number>
  readonly somebody: {
    comment(number: number, body: string): Promise<void>
    review(number: number, state: 'APPROVED' | 'CHANGES_REQUESTED' | 'COMMENTED', body: string): Promise<void>
    /** Comments on a line of a changed file. */
    thread(number: number, at: { path: string; line: number }, body: string): Promise<void>
  }
  /** Waits until two instants differ on any clock. */
  later(): Promise<void>
  close(): Promise<void>
}

export interface BenchOrder {
  readonly head: string
  readonly base?: string
  readonly title?: string
  readonly body?: string
  readonly draft?: boolean
  readonly own?: boolean
}

export interface PushedCommit {
  /** `null` removes the file. */
  readonly files: Readonly<Record<string, string | Buffer | null>>
  readonly message?: string
  readonly author?: string
  readonly from?: string
  /** Replaces the branch's commits. */
  readonly force?: boolean
}

const BASE = {
  'a.txt': lines(1, 30),
  'b.txt': 'b\n',
  'old/name.txt': lines(1, 20),
  'raw.bin': Buffer.from([0, 1, 2]),
}

export function pullHostSuite(name: string, open: () => Promise<PullBench>): void {
  const on = (sentence: string, story: (bench: PullBench) => Promise<void>) =>
    test(sentence, async () => {
      const bench = await open()
      try {
        await bench.push('main', { files: BASE, message: 'Begin' })
        await story(bench)
      } finally {
        await bench.close()
      }
    })

  describe(`${name}: reading`, () => {
    on('the repository is listed among those of the account', async ({ host, remote }) => {
      const repos = granted(await host.repos())
      for (const repo of repos) expect(createChecker(CodehostRepo)(repo)).toMatchObject({ ok: true })
      expect(repos).toContainEqual(expect.objectContaining({ fullName: remote, defaultBranch: 'main' }))
    })

    on('an empty list is a list', async ({ host, remote }) => {
      expect(await host.list(remote, 'background')).toEqual({ ok: true, value: [] })
    })

    on('a missing repository is unknown, and an invalid name is invalid', async ({ host }) => {
      expect(kindOf(await host.list('nobody/nothing', 'person'))).toBe('unknown')
      expect(kindOf(await host.detail({ remote: 'nobody/nothing', number: 1 }))).toBe('unknown')
      expect(kindOf(await host.list('../nothing', 'person'))).toBe('invalid')
    })

    on('open, draft and finished pull requests are listed, newest activity first', async (bench) => {
      const [first, second, third] = [
        await pullOf(bench, 'one'),
        await pullOf(bench, 'two', { draft: true, title: 'Second' }),
        await pullOf(bench, 'three'),
      ]
      expect(await bench.host.close(placeIn(bench, first))).toMatchObject({ ok: true })
      const listed = await listOf(bench)
      for (const pull of listed)
        expect(createChecker(PullSummary)(summaryOf(bench, pull))).toMatchObject({ ok: true })
      expect(listed.map(({ number, state }) => [number, state])).toEqual([
        [first, 'closed'],
        [third, 'open'],
        [second, 'draft'],
      ])
      expect(listed[2]).toMatchObject({ title: 'Second', baseBranch: 'main', headBranch: 'two' })
    })

    on(
      'a list has the size of each pull request, since the merge base, and the number of its comments',
      async (bench) => {
        const number = await pullOf(bench, 'one')
        await bench.push('one', { files: { 'a.txt': `${lines(1, 29)}x\ny\n`, 'b.txt': null } })
        await bench.push('main', { files: { 'elsewhere.txt': 'elsewhere\n' } })
        await bench.somebody.comment(number, 'Why?')
        await bench.somebody.thread(number, { path: 'one.txt', line: 1 }, 'And here?')
        const detail = await detailOf(bench, number)
        const [listed] = await listOf(bench)
        expect(listed).toMatchObject({ additions: 3, deletions: 2, changedFiles: 3, commentCount: 2 })
        expect(listed).toMatchObject({
          additions: detail.additions,
          deletions: detail.deletions,
          changedFiles: detail.changedFiles,
          checksState: 'none',
        })
      },
    )

    on('a push to its branch brings a pull request to the top', async (bench) => {
      const first = await pullOf(bench, 'one')
      const second = await pullOf(bench, 'two')
      const before = (await listOf(bench)).map(({ number }) => number)
      await bench.push('one', { files: { 'more.txt': 'more\n' } })
      await bench.later()
      expect([before, (await listOf(bench)).map(({ number }) => number)]).toEqual([
        [second, first],
        [first, second],
      ])
    })

    on('its URL resolves to it, and no other URL does', async (bench) => {
      const number = await pullOf(bench, 'one')
      const [listed] = await listOf(bench)
      expect(bench.host.parseUrl(listed?.url ?? '')).toEqual(placeIn(bench, number))
      for (const url of [
        '',
        'nonsense',
        'https://example.com/a/b/pull/1',
        'file:///a/b.pulls/1.json',
        'file:///%zz',
      ]) {
        expect(bench.host.parseUrl(url)).toBeUndefined()
      }
    })

    on('states are answered for existing pull requests', async (bench) => {
      const [first, second] = [await pullOf(bench, 'one'), await pullOf(bench, 'two', { draft: true })]
      await bench.host.close(placeIn(bench, first))
      const states = granted(await bench.host.states(bench.remote, [first, second, 4_711], 'background'))
      expect([...states].sort()).toEqual([
        [first, 'closed'],
        [second, 'draft'],
      ])
      expect(granted(await bench.host.states(bench.remote, [], 'background')).size).toBe(0)
    })

    on('every action on a missing number is unknown', async ({ host, remote }) => {
      const place = { remote, number: 4_711 }
      const answers = await Promise.all([
        host.detail(place),
        host.branches(place),
        host.merge(place, 'merge'),
        host.close(place),
        host.reopen(place),
        host.markReady(place),
        host.comment(place, 'words'),
        host.review(place, { event: 'APPROVE', body: '' }),
        host.reply(place, { commentId: '1', body: 'words' }),
        host.resolveThread(place, { threadId: '1', resolved: true }),
      ])
      expect(answers.map(kindOf)).toEqual(Array(answers.length).fill('unknown'))
    })
  })

  describe(`${name}: in detail`, () => {
    on('lists commits and files since the merge base', async (bench) => {
      await bench.push('work', {
        files: { 'a.txt': lines(1, 30).replace('5\n', 'five\n'), 'new.txt': 'new\n' },
        message: 'First\n\nWith words.',
        author: 'Bo',
      })
      const head = await bench.push('work', {
        files: {
          'b.txt': null,
          'old/name.txt': null,
          'new name.txt': lines(1, 20),
          'raw.bin': Buffer.from([0, 9]),
        },
        message: 'Second',
      })
      await bench.push('main', { files: { 'elsewhere.txt': 'e\n' } })
      const detail = await detailOf(bench, await bench.open({ head: 'work', title: 'Work', body: 'Words' }))
      expect(detail).toMatchObject({
        title: 'Work',
        body: 'Words',
        draft: false,
        headSha: head,
        state: 'open',
      })
      expect(detail).toMatchObject({ additions: 2, deletions: 2, changedFiles: 5, mergeableState: 'clean' })
      expect(detail.commits.map(({ message }) => message)).toEqual(['First\n\nWith words.', 'Second'])
      expect(detail.commits.at(-1)?.sha).toBe(head)
      const file = (path: string) => detail.files.find((changed) => changed.path === path)
      expect(file('a.txt')).toMatchObject({ status: 'modified', additions: 1, deletions: 1 })
      expect(file('a.txt')?.patch).toMatch(/^@@ -2,7 \+2,7 @@.*\n 2\n 3\n 4\n-5\n\+five\n 6\n 7\n 8$/)
      expect(file('new.txt')).toMatchObject({ status: 'added', additions: 1, deletions: 0 })
      expect(file('b.txt')).toMatchObject({ status: 'removed', deletions: 1 })
      expect(file('new name.txt')).toMatchObject({
        status: 'renamed',
        previousPath: 'old/name.txt',
        additions: 0,
      })
      expect(file('raw.bin')).toMatchObject({ status: 'modified', additions: 0, deletions: 0 })
      expect(file('raw.bin')).not.toHaveProperty('patch')
    })

    on('contains the conversation', async (bench) => {
      const number = await pullOf(bench, 'one')
      await bench.somebody.comment(number, 'A comment')
      await bench.somebody.review(number, 'CHANGES_REQUESTED', 'A review')
      await bench.somebody.thread(number, { path: 'one.txt', line: 1 }, 'A remark')
      const { conversation } = await detailOf(bench, number)
      expect(conversation.comments).toMatchObject([{ body: 'A comment' }])
      expect(conversation.reviews).toContainEqual(
        expect.objectContaining({ body: 'A review', state: 'CHANGES_REQUESTED' }),
      )
      expect(conversation.threads).toMatchObject([
        { resolved: false, path: 'one.txt', line: 1, comments: [{ body: 'A remark' }] },
      ])
      expect(conversation.threads[0]?.diffHunk).toContain('@@')
    })

    on('tells whether it can be merged', async (bench) => {
      const [clean, draft] = [await pullOf(bench, 'one'), await pullOf(bench, 'two', { draft: true })]
      const dirty = await conflicting(bench)
      expect((await detailOf(bench, clean)).mergeableState).toBe('clean')
      expect((await detailOf(bench, dirty)).mergeableState).toBe('dirty')
      expect(await detailOf(bench, draft)).toMatchObject({
        draft: true,
        state: 'draft',
        mergeableState: 'draft',
      })
    })
  })

  describe(`${name}: branches`, () => {
    on('are answered for an open pull request, with the head commit', async (bench) => {
      const number = await pullOf(bench, 'one')
      const headSha = await bench.push('one', { files: { 'more.txt': 'more\n' } })
      expect(granted(await bench.host.branches(placeIn(bench, number)))).toEqual({
        headRemote: bench.remote,
        headBranch: 'one',
        headSha,
        baseBranch: 'main',
      })
    })

    on('are answered for a finished pull request, too', async (bench) => {
      const number = await pullOf(bench, 'one')
      await bench.host.close(placeIn(bench, number))
      expect(granted(await bench.host.branches(placeIn(bench, number)))).toMatchObject({
        headRemote: bench.remote,
        headBranch: 'one',
        baseBranch: 'main',
      })
    })
  })

  describe(`${name}: identity`, () => {
    on('tells branch, state and description, also of a merged pull request', async (bench) => {
      const number = await pullOf(bench, 'one')
      const place = placeIn(bench, number)
      const [listed] = await listOf(bench)
      const { body } = granted(await bench.host.detail(place))
      const expected = { headRemote: bench.remote, headBranch: 'one', url: listed?.url, body }
      expect(granted(await bench.host.identity(place))).toMatchObject({ ...expected, state: 'open' })
      granted(await bench.host.merge(place, 'merge'))
      expect(granted(await bench.host.identity(place))).toMatchObject({ ...expected, state: 'merged' })
    })

    on('of a number that nobody has used is unknown', async (bench) => {
      await pullOf(bench, 'one')
      expect(await bench.host.identity(placeIn(bench, 999))).toMatchObject({ refusal: { kind: 'unknown' } })
    })
  })

  describe(`${name}: merging`, () => {
    test.each(['merge', 'squash', 'rebase'] as const)(
      'the method %s adds the changes of the branch, and nothing else',
      async (method) => {
        const bench = await open()
        try {
          await bench.push('main', { files: BASE, message: 'Begin' })
          await bench.push('work', { files: { 'one.txt': '1\n' }, message: 'One', author: 'Bo' })
          const head = await bench.push('work', { files: { 'two.txt': '2\n' }, message: 'Two', author: 'Cy' })
          const before = await bench.push('main', { files: { 'elsewhere.txt': 'e\n' }, message: 'Elsewhere' })
          const number = await bench.open({ head: 'work', title: 'The work' })
          await bench.later()
          expect(await bench.host.merge(placeIn(bench, number), method)).toMatchObject({
            ok: true,
            value: expect.stringMatching(/merged/),
          })
          expect(await filesAt(bench.bare, 'main')).toEqual(
            [...Object.keys(BASE), 'elsewhere.txt', 'one.txt', 'two.txt'].sort(),
          )
          expect(await logOf(bench.bare, `${before}..main`)).toEqual(EXPECTED_LOG[method](number))
          expect(await tipOf(bench.bare, 'work')).toBe(head)
          const [listed] = await listOf(bench)
          expect(listed).toMatchObject({ number, state: 'merged', mergedAt: expect.any(String) })
          const detail = await detailOf(bench, number)
          expect(detail.files.map(({ path }) => path)).toEqual(['one.txt', 'two.txt'])
          expect(detail.commits.map(({ message }) => message)).toEqual(['One', 'Two'])
        } finally {
          await bench.close()
        }
      },
    )

    test.each(['merge', 'squash', 'rebase'] as const)(
      'the method %s is refused for a branch with conflicts, and no branch moves',
      async (method) => {
        const bench = await open()
        try {
          await bench.push('main', { files: BASE, message: 'Begin' })
          const number = await conflicting(bench)
          const before = await tipOf(bench.bare, 'main')
          expect(kindOf(await bench.host.merge(placeIn(bench, number), method))).toBe('conflict')
          expect(await tipOf(bench.bare, 'main')).toBe(before)
          expect((await detailOf(bench, number)).state).toBe('open')
        } finally {
          await bench.close()
        }
      },
    )

    on('drafts, closed and merged pull requests are not merged', async (bench) => {
      const numbers = [
        await pullOf(bench, 'one', { draft: true }),
        await pullOf(bench, 'two'),
        await pullOf(bench, 'three'),
      ].map((number) => placeIn(bench, number))
      const [draft, closed, merged] = numbers
      if (draft === undefined || closed === undefined || merged === undefined)
        throw new Error('three were opened')
      await bench.host.close(closed)
      expect(await bench.host.merge(merged, 'squash')).toMatchObject({ ok: true })
      const before = await tipOf(bench.bare, 'main')
      for (const place of numbers) expect(kindOf(await bench.host.merge(place, 'merge'))).toBe('conflict')
      expect(await tipOf(bench.bare, 'main')).toBe(before)
    })

    on('a pull request without its branch is not merged', async (bench) => {
      const number = await pullOf(bench, 'one')
      await detailOf(bench, number)
      await bench.drop('one')
      expect(kindOf(await bench.host.merge(placeIn(bench, number), 'merge'))).toBe('conflict')
    })

    on('two concurrent merges merge once', async (bench) => {
      const number = await pullOf(bench, 'one')
      const before = await tipOf(bench.bare, 'main')
      const place = placeIn(bench, number)
      const answers = await Promise.all([
        bench.host.merge(place, 'squash'),
        bench.host.merge(place, 'squash'),
      ])
      expect(answers.map(kindOf).sort()).toEqual(['conflict', undefined])
      expect(await logOf(bench.bare, `${before}..main`)).toHaveLength(1)
    })

    on('a merged pull request keeps its changes after its branch is deleted', async (bench) => {
      const number = await pullOf(bench, 'one')
      await bench.host.merge(placeIn(bench, number), 'merge')
      await bench.drop('one')
      await bench.push('main', { files: { 'later.txt': 'l\n' } })
      const detail = await detailOf(bench, number)
      expect(detail).toMatchObject({ state: 'merged', changedFiles: 1 })
      expect(detail.files.map(({ path }) => path)).toEqual(['one.txt'])
    })

    on('a pull request counts as merged once its branch is pushed to its base by hand', async (bench) => {
      const number = await pullOf(bench, 'one')
      await detailOf(bench, number)
      await bench.later()
      const head = (await tipOf(bench.bare, 'one')) ?? ''
      await bench.push('main', { files: {}, from: head, force: true, message: 'On top' })
      const states = granted(await bench.host.states(bench.remote, [number], 'background'))
      expect([...states]).toEqual([[number, 'merged']])
      expect(await detailOf(bench, number)).toMatchObject({ mergedAt: expect.any(String), changedFiles: 1 })
    })
  })

  describe(`${name}: its state`, () => {
    on('closing and reopening each work once', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      const { host } = bench
      expect(kindOf(await host.reopen(place))).toBe('conflict')
      expect(await host.close(place)).toEqual({ ok: true, value: undefined })
      expect((await detailOf(bench, place.number)).state).toBe('closed')
      expect(kindOf(await host.close(place))).toBe('conflict')
      expect(await host.reopen(place)).toEqual({ ok: true, value: undefined })
      expect((await detailOf(bench, place.number)).state).toBe('open')
    })

    on('a reopened draft is a draft, and becomes ready once', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one', { draft: true }))
      await bench.host.close(place)
      await bench.host.reopen(place)
      expect(await detailOf(bench, place.number)).toMatchObject({ state: 'draft', draft: true })
      expect(await bench.host.markReady(place)).toEqual({ ok: true, value: undefined })
      expect(await detailOf(bench, place.number)).toMatchObject({ state: 'open', draft: false })
      expect(kindOf(await bench.host.markReady(place))).toBe('conflict')
    })

    on('a merged pull request is neither closed nor reopened', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      await bench.host.merge(place, 'merge')
      expect(kindOf(await bench.host.close(place))).toBe('conflict')
      expect(kindOf(await bench.host.reopen(place))).toBe('conflict')
      expect((await detailOf(bench, place.number)).state).toBe('merged')
    })

    on('a pull request without its branch is not reopened', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      await bench.host.close(place)
      await bench.drop('one')
      expect(kindOf(await bench.host.reopen(place))).toBe('conflict')
    })

    on('a pull request is not reopened while another of the same branch is open', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      await bench.host.close(place)
      await bench.open({ head: 'one' })
      expect(kindOf(await bench.host.reopen(place))).toBe('conflict')
    })

    on('a pull request stays closed when its branch was created again meanwhile', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      await bench.host.close(place)
      await bench.push('one', { files: { 'other.txt': 'o\n' }, from: 'main', force: true })
      expect(kindOf(await bench.host.reopen(place))).toBe('conflict')
    })
  })

  describe(`${name}: conversation`, () => {
    on('a comment moves the pull request to the top of the list', async (bench) => {
      const [first, second] = [await pullOf(bench, 'one'), await pullOf(bench, 'two')]
      expect(await bench.host.comment(placeIn(bench, first), 'Words é')).toEqual({
        ok: true,
        value: undefined,
      })
      await bench.host.comment(placeIn(bench, first), 'More')
      const { conversation } = await detailOf(bench, first)
      expect(conversation.comments.map(({ body }) => body)).toEqual(['Words é', 'More'])
      expect(new Set(conversation.comments.map(({ id }) => id)).size).toBe(2)
      expect((await listOf(bench)).map(({ number }) => number)).toEqual([first, second])
    })

    on('an empty comment, reply or review is invalid', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      await bench.somebody.thread(place.number, { path: 'one.txt', line: 1 }, 'A remark')
      const [thread] = (await detailOf(bench, place.number)).conversation.threads
      const commentId = thread?.comments[0]?.id ?? ''
      expect(kindOf(await bench.host.comment(place, ' \n'))).toBe('invalid')
      expect(kindOf(await bench.host.reply(place, { commentId, body: ' ' }))).toBe('invalid')
    })

    on('a review brings comments on lines of both sides, each in a thread of its own', async (bench) => {
      const files = { 'a.txt': lines(1, 30).replace('5\n', 'five\n'), 'b.txt': null, 'new.txt': 'new\n' }
      await bench.push('work', { files })
      const place = placeIn(bench, await bench.open({ head: 'work' }))
      const comments = [
        { path: 'a.txt', line: 5, side: 'RIGHT', body: 'In words?' },
        { path: 'a.txt', line: 5, side: 'LEFT', body: 'It was shorter.' },
        { path: 'a.txt', line: 4, side: 'RIGHT', body: 'Not changed.' },
        { path: 'b.txt', line: 1, side: 'LEFT', body: 'Why remove it?' },
        { path: 'new.txt', line: 1, side: 'RIGHT', body: 'Fine.' },
      ] as const
      granted(await bench.host.review(place, { event: 'COMMENT', body: '', comments: [...comments] }))
      const { reviews, threads } = (await detailOf(bench, place.number)).conversation
      expect(reviews.filter(({ state }) => state === 'COMMENTED')).toHaveLength(1)
      expect(threads.map(({ path, line, comments: [first] }) => [path, line, first?.body]).sort()).toEqual(
        comments.map(({ path, line, body }) => [path, line, body]).sort(),
      )
      const changed = threads.find(({ comments: [first] }) => first?.body === 'In words?')
      expect(changed?.diffHunk).toMatch(/^@@[\s\S]*-5\n\+five$/)
      expect(new Set(threads.flatMap(({ id, comments: [first] }) => [id, first?.id])).size).toBe(10)
      const commentId = changed?.comments[0]?.id ?? ''
      granted(await bench.host.reply(place, { commentId, body: 'Yes.' }))
    })

    on('a line outside the diff is invalid, and nothing of the review is recorded', async (bench) => {
      await bench.push('work', { files: { 'a.txt': lines(1, 30).replace('5\n', 'five\n') } })
      const place = placeIn(bench, await bench.open({ head: 'work' }))
      const good = { path: 'a.txt', line: 5, side: 'RIGHT', body: 'Good.' } as const
      for (const bad of [
        { ...good, line: 20 },
        { ...good, line: 31 },
        { ...good, path: 'b.txt', line: 1 },
        { ...good, path: 'nothing.txt' },
        { ...good, body: ' ' },
      ]) {
        const review = { event: 'REQUEST_CHANGES', body: 'No', comments: [good, bad] } as const
        expect(kindOf(await bench.host.review(place, { ...review, comments: [...review.comments] }))).toBe(
          'invalid',
        )
      }
      const { reviews, threads } = (await detailOf(bench, place.number)).conversation
      expect([reviews, threads]).toEqual([[], []])
    })

    on('another person’s pull request accepts all three kinds of review', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      const { host } = bench
      expect(await host.review(place, { event: 'COMMENT', body: 'Hm' })).toEqual({
        ok: true,
        value: undefined,
      })
      expect(await host.review(place, { event: 'REQUEST_CHANGES', body: 'No' })).toMatchObject({ ok: true })
      expect(await host.review(place, { event: 'APPROVE', body: '' })).toMatchObject({ ok: true })
      const { conversation } = await detailOf(bench, place.number)
      expect(conversation.reviews.map(({ state, body }) => [state, body])).toEqual([
        ['COMMENTED', 'Hm'],
        ['CHANGES_REQUESTED', 'No'],
        ['APPROVED', ''],
      ])
    })

    on('a review that needs a text is refused without one', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      expect(kindOf(await bench.host.review(place, { event: 'COMMENT', body: '' }))).toBe('invalid')
      expect(kindOf(await bench.host.review(place, { event: 'REQUEST_CHANGES', body: '' }))).toBe('invalid')
    })

    on('authors cannot approve their own pull request', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one', { own: true }))
      expect(kindOf(await bench.host.review(place, { event: 'APPROVE', body: 'Mine' }))).toBe('conflict')
      expect(kindOf(await bench.host.review(place, { event: 'REQUEST_CHANGES', body: 'Mine' }))).toBe(
        'conflict',
      )
      expect(await bench.host.review(place, { event: 'COMMENT', body: 'Mine' })).toMatchObject({ ok: true })
    })

    on('a reply goes to the end of its thread', async (bench) => {
      const place = placeIn(bench, await pullOf(bench, 'one'))
      await bench.somebody.thread(place.number, { path: 'one.txt', line: 1 }, 'A remark')
      const commentsOf = async () =>
        (await detailOf(bench, place.number)).conversation.threads[0]?.comments ?? []
      for (const body of ['A reply', 'Another']) {
        const commentId = (await commentsOf()).at(-1)?.id ?? ''
        expect(await bench.host.reply(place, { commentId, body })).toEqual({ ok: true, value: undefined })
      }
      expect((await commentsOf()).map(({ body }) => body)).toEqual(['A remark', 'A reply', 'Another'])
    })

    on('replies need a comment of the pull request’s own threads', async (bench) => {
      const [place, unrelated] = [await pullOf(bench, 'one'), await pullOf(bench, 'two')].map((number) =>
        placeIn(bench, number),
      )
      if (place === undefined || unrelated === undefined) throw new Error('two were opened')
      await bench.somebody.thread(unrelated.number, { path: 'two.txt', line: 1 }, 'A remark')
      const [thread] = (await detailOf(bench, unrelated.number)).conversation.threads
      const commentId = thread?.comments[0]?.id ?? ''
      for (const id of ['4711', 'nonsense', `${commentId}0`]) {
        expect(kindOf(await bench.host.reply(place, { commentId: id, body: 'x' }))).toBe('unknown')
      }
      await bench.host.reply(place, { commentId, body: 'Astray' })
      expect((await detailOf(bench, unrelated.number)).conversation.threads[0]?.comments).toHaveLength(1)
    })

    on(
      'a thread can be resolved and unresolved repeatedly, and a missing thread is unknown',
      async (bench) => {
        const place = placeIn(bench, await pullOf(bench, 'one'))
        await bench.somebody.thread(place.number, { path: 'one.txt', line: 1 }, 'A remark')
        const threadOf = async () => (await detailOf(bench, place.number)).conversation.threads[0]
        const threadId = (await threadOf())?.id ?? ''
        for (const resolved of [true, true, false]) {
          expect(await bench.host.resolveThread(place, { threadId, resolved })).toEqual({
            ok: true,
            value: undefined,
          })
          expect((await threadOf())?.resolved).toBe(resolved)
        }
        const missing = await bench.host.resolveThread(place, { threadId: 'nonsense', resolved: true })
        expect(kindOf(missing)).toBe('unknown')
      },
    )
  })
}

/** Subject and authors, newest first; a merge is recognized by two parents. */
const EXPECTED_LOG: Readonly<Record<'merge' | 'squash' | 'rebase', (number: number) => unknown[]>> = {
  merge: (number) =>
    [
      { parents: 2, subject: expect.stringContaining(`Merge pull request #${number} from `) },
      { parents: 1, subject: 'Two', author: 'Cy' },
      { parents: 1, subject: 'One', author: 'Bo' },
    ].map(expect.objectContaining),
  squash: (number) => [expect.objectContaining({ parents: 1, subject: `The work (#${number})` })],
  rebase: () => [
    expect.objectContaining({ parents: 1, subject: 'Two', author: 'Cy' }),
    expect.objectContaining({ parents: 1, subject: 'One', author: 'Bo' }),
  ],
}

// ---- bench helpers --------------------------------------------------------------------------------------------------

/** Opens a pull request with one new file; some time has passed afterwards. */
async function pullOf(bench: PullBench, head: string, more: Partial<BenchOrder> = {}): Promise<number> {
  await bench.push(head, { files: { [`${head}.txt`]: `${head}\n` } })
  await bench.later()
  const number = await bench.open({ head, ...more })
  await bench.later()
  return number
}

async function conflicting(bench: PullBench): Promise<number> {
  const number = await pullOf(bench, 'clash')
  await bench.push('clash', { files: { 'b.txt': 'theirs\n' } })
  await bench.push('main', { files: { 'b.txt': 'ours\n' } })
  return number
}

const placeIn = ({ remote }: PullBench, number: number): PullReference => ({ remote, number })
const summaryOf = ({ remote }: PullBench, pull: PullFacts) => ({ ...pull, repo: 'key', remote })

async function listOf({ host, remote }: PullBench): Promise<readonly PullFacts[]> {
  return granted(await host.list(remote, 'person'))
}

async function detailOf(bench: PullBench, number: number): Promise<PullDetailFacts> {
  const detail = granted(await bench.host.detail(placeIn(bench, number)))
  expect(createChecker(PullDetail)({ ...detail, repo: 'key', remote: bench.remote })).toMatchObject({
    ok: true,
  })
  return detail
}

export function granted<T>(answer: Result<T>): T {
  if (!answer.ok) throw new Error(`${answer.refusal.kind}: ${answer.refusal.message}`)
  return answer.value
}

/** Undefined when the action was not refused. */
export function kindOf(answer: Result<unknown>): string | undefined {
  if (!answer.ok) expect(answer.refusal.message).not.toBe('')
  return answer.ok ? undefined : answer.refusal.kind
}

// ---- real git -------------------------------------------------------------------------------------------------------

const GIT_ENVIRONMENT = {
  PATH: process.env.PATH,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TEMPLATE_DIR: '',
}

export function git(bare: string, args: readonly string[], input: string | Buffer = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const all = [`--git-dir=${bare}`, ...args]
    const child = execFile(
      'git',
      all,
      { env: GIT_ENVIRONMENT, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) =>
        error === null ? resolve(stdout) : reject(new Error(`git ${args[0]}: ${stderr || error.message}`)),
    )
    child.stdin?.on('error', () => {}).end(input)
  })
}

export async function makeBare(bare: string): Promise<void> {
  createBare(bare, 'main')
}

/** Updates the branch as a push would; `at` is in seconds. */
export async function pushTo(
  bare: string,
  branch: string,
  commit: PushedCommit,
  at: number,
): Promise<string> {
  const { files, message = `Change ${branch}`, author = 'Ada', from, force = false } = commit
  const tip = await tipOf(bare, branch)
  const start = tip === undefined || force ? ((await tipOf(bare, from ?? 'main')) ?? from) : tip
  const parent = start === 'main' ? undefined : start
  const by = (name: string) => `${name} <${name.toLowerCase()}@example.org> ${at} +0000`
  const written = { branch, parent, message, author: by(author), committer: by('Pusher'), files }
  const hash = writeCommit(bare, written)
  if (hash !== undefined) return hash
  const begin = parent === undefined ? '' : `from ${parent}\n`
  const parts = Object.entries(files).flatMap(([path, content]) =>
    content === null ? [`D ${quoted(path)}\n`] : [`M 100644 inline ${quoted(path)}\n`, ...dataOf(content)],
  )
  const head = `commit refs/heads/${branch}\nauthor ${by(author)}\ncommitter ${by('Pusher')}\n`
  const stream = [head, ...dataOf(message), begin, ...parts].map((part) => Buffer.from(part))
  await git(bare, ['fast-import', '--quiet', '--force'], Buffer.concat(stream))
  return (await tipOf(bare, branch)) ?? ''
}

/** Starts git only where it has packed the branches away, because tests ask for a thousand tips. */
export async function tipOf(bare: string, branch: string): Promise<string | undefined> {
  if (/^[0-9a-f]{40}$/.test(branch)) return branch
  const tip = branchTip(bare, branch)
  if (tip !== undefined || !existsSync(join(bare, 'packed-refs'))) return tip
  return git(bare, ['rev-parse', '--verify', '--quiet', `refs/heads/${branch}`]).then(
    (sha) => sha.trim(),
    () => undefined,
  )
}

export async function filesAt(bare: string, branch: string): Promise<string[]> {
  return (await git(bare, ['ls-tree', '-r', '-z', '--name-only', branch])).split('\0').slice(0, -1).sort()
}

export async function logOf(bare: string, range: string) {
  const text = await git(bare, ['log', '-z', '--topo-order', '--format=%P%n%an%n%s', range])
  return text
    .split('\0')
    .filter((record) => record !== '')
    .map((record) => record.split('\n'))
    .map(([parents = '', author, subject]) => ({ parents: parents.split(' ').length, author, subject }))
}

const quoted = (path: string): string => `"${path.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n')}"`
const dataOf = (content: string | Buffer) => [`data ${Buffer.byteLength(content)}\n`, content, '\n']

function lines(from: number, to: number): string {
  return Array.from({ length: to - from + 1 }, (_, index) => `${from + index}\n`).join('')
}
