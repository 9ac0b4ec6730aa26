/** Runs the suite of all code hosts, and GitHub's own cases, against the fake GitHub. */
import { afterAll, describe, expect, test } from '@jest/globals'
import { configDefaults } from '../../../../protocol/config.ts'
import { createPullHost } from '../../../../providers/codehost/registry.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { type GithubBench, githubBench, ME, REMOTE, SOMEBODY, TOKEN } from './github-fixture.ts'
import { granted, type PullBench, pullHostSuite, pushTo } from './pull-suite.ts'

/** Requests that violate GitHub's description, and failures of the fake. */
const wrong: string[] = []

function hostOn({ github, clients, clock }: GithubBench, token = TOKEN) {
  const codehost = { driver: 'github' as const, apiUrl: github.apiUrl, token }
  return granted(
    createPullHost({ ...configDefaults, codehost }, { clients, clock, log: createRecordingLog() }),
  )
}

async function closed({ github, close }: GithubBench): Promise<void> {
  wrong.push(...github.violations, ...github.counters.bugs)
  await close()
}

async function bench(): Promise<PullBench> {
  const made = await githubBench({ repos: [] })
  const { github, clock } = made
  const members = { [ME]: 'push', [SOMEBODY]: 'push' } as const
  const repo = github.world.addRepo({ fullName: REMOTE, members })
  const pushed = async () => {
    repo.pushedMs = clock.now()
    await github.history.settleAll(repo)
  }
  return {
    host: hostOn(made),
    remote: REMOTE,
    bare: repo.path,
    push: async (branch, commit) => {
      const sha = await pushTo(repo.path, branch, commit, Math.floor(clock.now() / 1000))
      await pushed()
      return sha
    },
    drop: (branch) => github.setBranch(REMOTE, branch, undefined),
    open: async ({ own, ...order }) =>
      (await github.openPull(REMOTE, { ...order, author: own === true ? ME : SOMEBODY })).number,
    somebody: {
      comment: async (number, body) => void github.addComment(REMOTE, number, { author: SOMEBODY, body }),
      review: async (number, state, body) =>
        void github.addReview(REMOTE, number, { author: SOMEBODY, state, body }),
      thread: async (number, at, body) =>
        void (await github.addThread(REMOTE, number, { ...at, author: SOMEBODY, body })),
    },
    later: async () => clock.jump(2_000),
    close: () => closed(made),
  }
}

pullHostSuite('GitHub', bench)

describe('GitHub', () => {
  async function on(story: (made: GithubBench) => Promise<void>): Promise<void> {
    const made = await githubBench()
    try {
      await story(made)
    } finally {
      await closed(made)
    }
  }

  test('an unchanged list costs the one query for its checks, and a write is visible at once', () =>
    on(async (made) => {
      const { github } = made
      await github.openPulls(REMOTE, 3, SOMEBODY)
      const host = hostOn(made)
      await host.list(REMOTE, 'background')
      const before = github.counters.charged
      expect(granted(await host.list(REMOTE, 'background')).length).toBe(3)
      expect(github.counters.charged).toBe(before + 1)
      await host.close({ remote: REMOTE, number: 2 })
      const states = granted(await host.list(REMOTE, 'person')).map(({ number, state }) => [number, state])
      expect(states).toContainEqual([2, 'closed'])
    }))

  test('all open pull requests are listed, even on several pages', () =>
    on(async (made) => {
      await made.github.openPulls(REMOTE, 130, SOMEBODY)
      const listed = granted(await hostOn(made).list(REMOTE, 'person'))
      expect(new Set(listed.map(({ number }) => number)).size).toBe(130)
      const all = listed.map(({ number }) => number)
      const states = granted(await hostOn(made).states(REMOTE, all, 'background'))
      expect([
        states.size,
        made.github.counters.route('GET /repos/{owner}/{repo}/pulls/{pull_number}').requests,
      ]).toEqual([130, 0])
    }))

  test('reads and actions follow a renamed repository', () =>
    on(async (made) => {
      const { github } = made
      await github.openPulls(REMOTE, 1, SOMEBODY)
      await github.addThread(REMOTE, 1, { path: 'file-1.txt', line: 1, author: SOMEBODY, body: 'Hm' })
      github.renameRepo(REMOTE, 'ada/lanterns')
      const host = hostOn(made)
      const place = { remote: REMOTE, number: 1 }
      expect(granted(await host.list(REMOTE, 'person')).length).toBe(1)
      const { conversation } = granted(await host.detail(place))
      const threadId = conversation.threads[0]?.id ?? ''
      expect(await host.resolveThread(place, { threadId, resolved: true })).toMatchObject({ ok: true })
      expect(await host.comment(place, 'Words')).toMatchObject({ ok: true })
      expect(await host.merge(place, 'squash')).toMatchObject({ ok: true })
    }))

  test('only the newest part of a very long conversation is read', () =>
    on(async (made) => {
      const { github } = made
      await github.openPulls(REMOTE, 1, SOMEBODY)
      for (let at = 1; at <= 1_060; at++) {
        github.addComment(REMOTE, 1, { author: SOMEBODY, body: `comment ${at}` })
        github.addReview(REMOTE, 1, { author: SOMEBODY, state: 'COMMENTED', body: `review ${at}` })
      }
      const at = { path: 'file-1.txt', line: 1, author: SOMEBODY }
      const thread = await github.addThread(REMOTE, 1, { ...at, body: 'reply 0' })
      for (let n = 1; n <= 120; n++)
        github.addReply(REMOTE, 1, thread, { author: SOMEBODY, body: `reply ${n}` })
      const { conversation } = granted(await hostOn(made).detail({ remote: REMOTE, number: 1 }))
      const ends = (remarks: readonly { body: string }[] = []) => [remarks[0]?.body, remarks.at(-1)?.body]
      // Only whole pages are read.
      expect(ends(conversation.comments)).toEqual(['comment 101', 'comment 1060'])
      // Comments on lines belong to reviews without a text.
      const reviews = conversation.reviews.filter(({ body }) => body !== '')
      expect(ends(reviews)[1]).toBe('review 1060')
      expect(ends(conversation.threads[0]?.comments)).toEqual(['reply 0', 'reply 120'])
      expect(conversation.threads[0]?.diffHunk).toContain('@@')
    }))

  test('only the newest of very many threads are read, in their order', () =>
    on(async (made) => {
      const { github } = made
      await github.openPulls(REMOTE, 1, SOMEBODY)
      const at = { path: 'file-1.txt', line: 1, author: SOMEBODY }
      for (let n = 1; n <= 1_020; n++) await github.addThread(REMOTE, 1, { ...at, body: `thread ${n}` })
      const { threads } = granted(await hostOn(made).detail({ remote: REMOTE, number: 1 })).conversation
      const bodies = threads.map(({ comments }) => comments[0]?.body)
      expect(bodies).toEqual(Array.from({ length: 1_000 }, (_, place) => `thread ${place + 21}`))
    }))

  test('checks and statuses are read, and missing access to checks is reported', () =>
    on(async (made) => {
      const { github } = made
      github.addToken(ME, 'github_pat_fine')
      await github.openPulls(REMOTE, 1, SOMEBODY)
      const sha = github.branchSha(REMOTE, 'change-1') ?? ''
      github.addStatus(REMOTE, sha, { context: 'ci', state: 'failure' })
      github.addCheck(REMOTE, sha, { name: 'build', status: 'completed', conclusion: 'success' })
      const place = { remote: REMOTE, number: 1 }
      expect(await hostOn(made).detail(place)).toMatchObject({
        value: {
          checks: [
            { name: 'build', conclusion: 'success' },
            { name: 'ci', conclusion: 'failure' },
          ],
        },
      })
      expect(await hostOn(made, 'github_pat_fine').detail(place)).toMatchObject({
        value: { checksLookupFailed: true, checks: [{ name: 'ci', conclusion: 'failure' }] },
      })
    }))

  test('a list has the state of all checks together, and only what a token may read', () =>
    on(async (made) => {
      const { github } = made
      github.addToken(ME, 'github_pat_fine')
      await github.openPulls(REMOTE, 3, SOMEBODY)
      const check = (number: number, conclusion: string | null) =>
        github.addCheck(REMOTE, github.branchSha(REMOTE, `change-${number}`) ?? '', {
          name: `build ${conclusion}`,
          status: conclusion === null ? 'in_progress' : 'completed',
          conclusion,
        })
      check(1, 'success')
      check(2, 'success')
      check(2, null)
      check(3, 'failure')
      check(3, null)
      const statesOf = async (token?: string) =>
        [...granted(await hostOn(made, token).list(REMOTE, 'person'))]
          .sort((a, b) => a.number - b.number)
          .map(({ additions = 0, checksState }) => [additions > 0, checksState])
      expect(await statesOf()).toEqual([
        [true, 'passed'],
        [true, 'running'],
        [true, 'failed'],
      ])
      expect(await statesOf('github_pat_fine')).toEqual(Array(3).fill([true, undefined]))
    }))

  test('the pull request of a deleted fork stays visible', () =>
    on(async (made) => {
      const { github } = made
      await github.fork(REMOTE, { fullName: 'eve/lamps' })
      await github.commit('eve/lamps', { branch: 'mend', files: { 'a.txt': 'a\n' } })
      await github.openPull(REMOTE, { head: 'mend', headRepo: 'eve/lamps', author: 'eve' })
      github.removeRepo('eve/lamps')
      const host = hostOn(made)
      expect(granted(await host.list(REMOTE, 'person'))).toMatchObject([{ headBranch: 'mend' }])
      expect(await host.detail({ remote: REMOTE, number: 1 })).toMatchObject({ value: { changedFiles: 1 } })
    }))

  test('GitHub’s own refusals of a merge are passed on', () =>
    on(async (made) => {
      const { github } = made
      github.repo(REMOTE).allow.squash = false
      await github.openPulls(REMOTE, 2, SOMEBODY)
      const host = hostOn(made)
      const [first, second] = [1, 2].map((number) => ({ remote: REMOTE, number }))
      if (first === undefined || second === undefined) throw new Error('two were opened')
      expect(await host.merge(first, 'squash')).toMatchObject({
        refusal: { kind: 'conflict', message: expect.stringMatching(/Squash merges are not allowed/) },
      })
      github.faults.baseModified = 1
      expect(await host.merge(first, 'merge')).toMatchObject({ ok: true })
      github.faults.baseModified = 2
      expect(await host.merge(second, 'merge')).toMatchObject({
        refusal: { kind: 'conflict', message: expect.stringMatching(/Base branch was modified/) },
      })
    }))

  test('a refused token is reported without being revealed', () =>
    on(async (made) => {
      const host = hostOn(made, 'ghp_dead_planted')
      for (const answer of [await host.repos(), await host.list(REMOTE, 'person')]) {
        expect(answer).toMatchObject({ refusal: { kind: 'unauthorized' } })
        expect(JSON.stringify(answer)).not.toContain('planted')
      }
    }))

  test('a rate limit stops requests, and an outage is temporary', () =>
    on(async (made) => {
      const { github } = made
      const host = hostOn(made)
      github.faults.down.add(REMOTE)
      expect(await host.list(REMOTE, 'background')).toMatchObject({ refusal: { kind: 'unavailable' } })
      github.faults.down.clear()
      github.faults.primary = 403
      expect(await host.list(REMOTE, 'background')).toMatchObject({ refusal: { kind: 'unavailable' } })
      const asked = github.counters.refusedPrimary
      expect(await host.list(REMOTE, 'background')).toMatchObject({ refusal: { kind: 'unavailable' } })
      expect(await host.detail({ remote: REMOTE, number: 1 })).toMatchObject({
        refusal: { kind: 'unavailable' },
      })
      expect(github.counters.refusedPrimary).toBeLessThanOrEqual(asked + 1)
    }))
})

describe('connecting', () => {
  test.each([
    [{ driver: 'github' as const }, /^the code host is not connected; connect GitHub/],
    [{ driver: 'github' as const, token: '' }, /^the code host is not connected; connect GitHub/],
    [{ driver: 'local' as const }, /^the code host is not connected; set codehost\.path/],
    [
      { driver: 'github' as const, token: TOKEN, apiUrl: 'http://code.example' },
      /^codehost\.apiUrl must begin/,
    ],
  ])('the configuration %j is refused', async (codehost, message) => {
    const { clients, clock, close } = await githubBench({ repos: [] })
    expect(
      createPullHost({ ...configDefaults, codehost }, { clients, clock, log: createRecordingLog() }),
    ).toMatchObject({
      refusal: { kind: 'invalid', message: expect.stringMatching(message) },
    })
    await close()
  })
})

afterAll(() => expect(wrong).toEqual([]))
