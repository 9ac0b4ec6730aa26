/** Checks the fake GitHub with GitHub's own client, git and the published description. */
import { execFile } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { Octokit } from '@octokit/rest'
import { validateRequest, validateResponse } from '../../../support/github/description.ts'
import { type FakeGithub, startGithub } from '../../../support/github/github.ts'
import { GITHUB_LIMITS, Quotas } from '../../../support/github/quotas.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const SHOP = 'mona/shop'
const place = { owner: 'mona', repo: 'shop' }
const PRIMES = ['2', '3', '5', '7', '11', '13', '17', '19', '23', '29', ''].join('\n')
const HOUR_MS = 3_600_000

let nowMs = 0
let github: FakeGithub
let octokit: Octokit
/** A person who is not an author. */
let hubot: Octokit

const clientOf = (auth: string): Octokit => {
  const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  return new Octokit({ auth, baseUrl: github.apiUrl, log: quiet })
}

beforeEach(async () => {
  nowMs = Date.UTC(2026, 5, 1, 12)
  github = await startGithub({
    clock: { now: () => nowMs },
    checkAnswers: true,
    people: [
      { login: 'mona', name: 'Mona Lisa', tokens: ['ghp_mona', 'ghp_mona_too', 'github_pat_mona'] },
      { login: 'hubot', tokens: ['gho_hubot', { value: 'github_pat_reads', readOnly: true }] },
      { login: 'eve', tokens: ['ghp_eve'] },
    ],
    repos: [{ fullName: SHOP, members: { hubot: 'push' } }],
  })
  octokit = clientOf('ghp_mona')
  hubot = clientOf('gho_hubot')
})

afterEach(async () => {
  await github.close()
  expect(github.counters.bugs).toEqual([])
  expect(github.misanswers).toEqual([])
})

/** Opens a pull request that changes a file of primes. */
async function proposal(more: { draft?: boolean; branch?: string } = {}): Promise<number> {
  const head = more.branch ?? 'change'
  if (github.repo(SHOP).issues.size === 0)
    await github.commit(SHOP, { branch: 'main', files: { 'primes.txt': PRIMES, 'old.txt': PRIMES } })
  const files = { 'primes.txt': PRIMES.replace('11\n', '11\n12\n'), 'new.txt': 'new\n' }
  await github.commit(SHOP, { branch: head, message: `Add 12\n\nIt is ${head}.`, files })
  const { draft = false } = more
  return (await github.openPull(SHOP, { head, draft })).number
}

/** Status and message of a refusal. */
async function refusal(asked: Promise<unknown>): Promise<string> {
  const answer = await asked.then(
    () => 'no refusal',
    (error: { status: number; message: string }) => `${error.status} ${error.message}`,
  )
  return answer.replace(/ - https:.*$/, '')
}

describe('octokit reads', () => {
  test('the account, its repositories and one of them', async () => {
    const me = await octokit.users.getAuthenticated()
    expect(me.data.login).toBe('mona')
    expect(me.headers['x-oauth-scopes']).toBe('repo, workflow')
    const repos = await octokit.repos.listForAuthenticatedUser({ sort: 'pushed', per_page: 100 })
    expect(repos.data.map((repo) => repo.full_name)).toEqual([SHOP])
    expect((await octokit.repos.get(place)).data).toMatchObject({
      default_branch: 'main',
      allow_squash_merge: true,
    })
    expect(github.violations).toEqual([])
  })

  test('pages of pull requests, whose links name the repository by its id', async () => {
    await github.openPulls(SHOP, 7)
    const all = await octokit.paginate(octokit.pulls.list, { ...place, per_page: 3 })
    expect(all.map(({ number }) => number)).toEqual([7, 6, 5, 4, 3, 2, 1])
    const first = await octokit.pulls.list({ ...place, per_page: 3 })
    const id = github.repo(SHOP).id
    expect(first.headers.link).toBe(
      `<${github.apiUrl}/repositories/${id}/pulls?per_page=3&page=2>; rel="next", ` +
        `<${github.apiUrl}/repositories/${id}/pulls?per_page=3&page=3>; rel="last"`,
    )
    expect(github.counters.route('GET /repos/{owner}/{repo}/pulls').requests).toBe(4)
    expect(github.violations).toEqual([])
  })

  test('no more than a hundred at a time', async () => {
    await github.openPulls(SHOP, 101)
    expect((await octokit.pulls.list({ ...place, per_page: 500 })).data).toHaveLength(100)
    expect(github.violations).toEqual([])
  })

  test('one pull request, whose mergeability is unknown at first and after each push', async () => {
    const pull_number = await proposal()
    const read = async () => (await octokit.pulls.get({ ...place, pull_number })).data
    expect(await read()).toMatchObject({ mergeable: null, mergeable_state: 'unknown', commits: 1 })
    expect(await read()).toMatchObject({
      mergeable: true,
      mergeable_state: 'clean',
      additions: 2,
      deletions: 0,
      changed_files: 2,
      html_url: `${github.origin}/mona/shop/pull/1`,
    })
    nowMs += 5000
    const sha = await github.commit(SHOP, { branch: 'change', files: { 'primes.txt': 'none\n' } })
    expect(await read()).toMatchObject({ mergeable: null, commits: 2, updated_at: '2026-06-01T12:00:05Z' })
    expect((await read()).head.sha).toBe(sha)
    await github.commit(SHOP, { branch: 'main', files: { 'primes.txt': 'some\n' } })
    expect(await read()).toMatchObject({ mergeable: null, mergeable_state: 'unknown' })
    expect(await read()).toMatchObject({ mergeable: false, mergeable_state: 'dirty' })
  })

  test('files with patches, and commits, as git reports them', async () => {
    const pull_number = await proposal()
    await github.commit(SHOP, {
      branch: 'change',
      files: { 'old.txt': null, 'näme with space.txt': PRIMES, 'image.bin': Buffer.from([0, 1, 2, 0]) },
    })
    const files = (await octokit.pulls.listFiles({ ...place, pull_number })).data
    expect(files.map(({ filename, status, patch }) => [filename, status, patch !== undefined])).toEqual([
      ['image.bin', 'added', false],
      ['new.txt', 'added', true],
      ['näme with space.txt', 'renamed', false],
      ['primes.txt', 'modified', true],
    ])
    expect(files[3]?.patch).toBe('@@ -3,6 +3,7 @@\n 5\n 7\n 11\n+12\n 13\n 17\n 19')
    expect(files[2]?.previous_filename).toBe('old.txt')
    const commits = (await octokit.pulls.listCommits({ ...place, pull_number })).data
    expect(commits.map(({ commit, author }) => [commit.message, author?.login])).toEqual([
      ['Add 12\n\nIt is change.', 'mona'],
      ['Change old.txt, näme with space.txt, image.bin', 'mona'],
    ])
  })
})

describe('addresses and versions', () => {
  test('the API is also available at the root, as on github.com', async () => {
    const root = new Octokit({ auth: 'ghp_mona', baseUrl: github.origin })
    expect((await root.repos.get(place)).data.url).toBe(`${github.origin}/repos/mona/shop`)
    expect(await root.graphql('{ viewer { login } }')).toEqual({ viewer: { login: 'mona' } })
  })

  test('the newer API version omits some fields of a pull request', async () => {
    await proposal()
    const headers = { 'x-github-api-version': '2026-03-10' }
    const { data } = await octokit.pulls.list({ ...place, headers })
    expect(Object.keys(data[0] ?? {})).not.toContain('merge_commit_sha')
    expect(Object.keys((await octokit.pulls.list(place)).data[0] ?? {})).toContain('merge_commit_sha')
  })
})

describe('caching and rate limits', () => {
  test('a conditional request answers 304 and costs nothing', async () => {
    const first = await octokit.pulls.list(place)
    expect(first.headers['x-ratelimit-used']).toBe('1')
    const headers = { 'if-none-match': first.headers.etag }
    await expect(octokit.pulls.list({ ...place, headers })).rejects.toMatchObject({ status: 304 })
    expect(github.counters).toMatchObject({ requests: 2, charged: 1, notModified: 1 })
    await github.openPulls(SHOP, 1)
    expect((await octokit.pulls.list({ ...place, headers })).data).toHaveLength(1)
    const afterChange = clientOf('ghp_mona_too').pulls.list({ ...place, headers })
    expect((await afterChange).headers['x-ratelimit-used']).toBe('3')
  })

  test('the hourly budget belongs to a person, whatever the token', async () => {
    await octokit.users.getAuthenticated()
    const { headers } = await clientOf('ghp_mona_too').users.getAuthenticated()
    expect(headers).toMatchObject({
      'x-ratelimit-limit': '5000',
      'x-ratelimit-remaining': '4998',
      'x-ratelimit-used': '2',
      'x-ratelimit-reset': String((nowMs + HOUR_MS) / 1000),
      'x-ratelimit-resource': 'core',
    })
    github.faults.primary = 403
    expect(await refusal(octokit.users.getAuthenticated())).toMatch(
      /^403 API rate limit exceeded for user ID/,
    )
    github.faults.primary = undefined
    await expect(octokit.users.getAuthenticated()).rejects.toMatchObject({
      response: { headers: { 'x-ratelimit-remaining': '0' } },
    })
    expect((await hubot.users.getAuthenticated()).data.login).toBe('hubot')
    nowMs += HOUR_MS
    expect((await octokit.users.getAuthenticated()).headers['x-ratelimit-used']).toBe('1')
  })

  test('900 points a minute are the limit, and a write takes five', () => {
    const quotas = new Quotas(GITHUB_LIMITS, () => nowMs)
    const read = { resource: 'core', points: 1, creates: false } as const
    const write = { resource: 'core', points: 5, creates: true } as const
    for (let n = 0; n < 40; n++) expect(quotas.secondary('mona', write)).toBeUndefined()
    for (let n = 0; n < 700; n++) expect(quotas.secondary('mona', read)).toBeUndefined()
    expect(quotas.secondary('mona', read)).toBe(60)
    expect(quotas.secondary('hubot', read)).toBeUndefined()
    nowMs += 60_000
    for (let n = 0; n < 460; n++) {
      if (n % 40 === 0) nowMs += 60_000
      expect(quotas.secondary('mona', write)).toBeUndefined()
    }
    expect(quotas.secondary('mona', write)).toBe(60)
  })

  test('a secondary limit demands a pause of one minute', async () => {
    const pointsPerMinute = { core: 3, graphql: 3 }
    const small = await startGithub({ clock: { now: () => nowMs }, limits: { pointsPerMinute } })
    const read = () => fetch(`${small.apiUrl}/user`, { headers: { authorization: 'token ghp_mona' } })
    for (let n = 0; n < 3; n++) expect((await read()).status).toBe(200)
    const refused = await read()
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([403, '60'])
    expect(await refused.json()).toMatchObject({ message: expect.stringContaining('secondary rate limit') })
    nowMs += 59_000
    expect((await read()).headers.get('retry-after')).toBe('1')
    nowMs += 1000
    expect((await read()).status).toBe(200)
    expect(small.counters.refusedSecondary).toBe(2)
    await small.close()
  })

  test('80 creations a minute are the limit', async () => {
    await proposal()
    const comment = () => octokit.issues.createComment({ ...place, issue_number: 1, body: 'again' })
    for (let n = 0; n < 80; n++) await comment()
    expect(await refusal(comment())).toMatch(/^403 You have exceeded a secondary rate limit/)
  })

  test('100 concurrent requests are the limit, and GraphQL reports its own budget with status 200', async () => {
    const small = await startGithub({ limits: { concurrent: 2, hourly: 3 }, repos: [{ fullName: SHOP }] })
    // Longer than three requests need to arrive, even on a busy machine.
    small.faults.latencyMs = 3_000
    const headers = { authorization: 'token ghp_mona' }
    const asked = [1, 2, 3].map(() => fetch(`${small.apiUrl}/user`, { headers }))
    expect((await Promise.all(asked)).map(({ status }) => status)).toContain(403)
    await small.close()
    github.faults.primary = 429
    const limited = octokit.graphql('{ viewer { login } }')
    await expect(limited).rejects.toMatchObject({ errors: [{ type: 'RATE_LIMITED' }] })
  })

  test('faults are switched on and off', async () => {
    const { faults } = github
    faults.badGateway = true
    await expect(octokit.users.getAuthenticated()).rejects.toMatchObject({ status: 502 })
    faults.matching = /^GET \/repos\//
    expect((await octokit.users.getAuthenticated()).status).toBe(200)
    Object.assign(faults, { badGateway: false, reset: true, matching: undefined })
    await expect(fetch(`${github.apiUrl}/user`)).rejects.toThrow('fetch failed')
    Object.assign(faults, { reset: false, secondary: { status: 429, retryAfterSeconds: 7 } })
    await expect(octokit.users.getAuthenticated()).rejects.toMatchObject({
      status: 429,
      response: { headers: { 'retry-after': '7' } },
    })
    faults.secondary = undefined
    faults.loseReplies = true
    const title = 'Said before it was lost'
    await expect(octokit.issues.create({ ...place, title })).rejects.toMatchObject({ status: 500 })
    faults.loseReplies = false
    expect(github.issue(SHOP, 1).title).toBe(title)
    faults.down.add(SHOP)
    await expect(octokit.repos.get(place)).rejects.toMatchObject({ status: 503 })
    expect((await octokit.users.getAuthenticated()).status).toBe(200)
  })
})

describe('permissions', () => {
  test('public content is readable by anyone, and writes need authentication', async () => {
    await github.addRepo({ fullName: 'mona/open', private: false })
    const open = await fetch(`${github.apiUrl}/repos/mona/open`)
    expect([open.status, open.headers.get('x-ratelimit-limit')]).toEqual([200, '60'])
    const anonymous = await fetch(`${github.apiUrl}/repos/mona/open/issues`, {
      method: 'POST',
      body: '{"title":"x"}',
    })
    expect(anonymous.status).toBe(401)
    expect(
      (await clientOf('ghp_eve').issues.create({ owner: 'mona', repo: 'open', title: 'x' })).status,
    ).toBe(201)
    const pushed = clientOf('ghp_eve').issues.addLabels({
      owner: 'mona',
      repo: 'open',
      issue_number: 1,
      labels: ['x'],
    })
    expect(await refusal(pushed)).toMatch(/^403/)
  })

  test('invisible repositories answer 404', async () => {
    expect(await refusal(clientOf('ghp_eve').repos.get(place))).toBe('404 Not Found')
    expect(await refusal(octokit.repos.get({ owner: 'mona', repo: 'none' }))).toBe('404 Not Found')
    expect(await refusal(clientOf('ghp_wrong').repos.get(place))).toBe('401 Bad credentials')
    github.addToken('mona', { value: 'ghp_narrow', scopes: ['read:user'] })
    expect(await refusal(clientOf('ghp_narrow').repos.get(place))).toBe('404 Not Found')
  })

  test('a fine-grained token has no scopes, cannot read checks, and learns what it lacks', async () => {
    const fine = clientOf('github_pat_mona')
    expect((await fine.users.getAuthenticated()).headers['x-oauth-scopes']).toBeUndefined()
    const sentence = '403 Resource not accessible by personal access token'
    expect(await refusal(fine.checks.listForRef({ ...place, ref: 'main' }))).toBe(sentence)
    expect((await fine.repos.getCombinedStatusForRef({ ...place, ref: 'main' })).data.total_count).toBe(0)
    const pull_number = await proposal()
    github.repo(SHOP).members.set('hubot', 'push')
    expect(await refusal(clientOf('github_pat_reads').pulls.merge({ ...place, pull_number }))).toBe(sentence)
  })

  test('requests without a user agent or with an unknown API version are refused', async () => {
    const bare = { authorization: 'Bearer ghp_mona', 'user-agent': '' }
    expect((await fetch(`${github.apiUrl}/user`, { headers: bare })).status).toBe(403)
    const early = { authorization: 'Bearer ghp_mona', 'x-github-api-version': '2001-01-01' }
    expect((await fetch(`${github.apiUrl}/user`, { headers: early })).status).toBe(400)
  })

  test('a renamed repository redirects', async () => {
    github.renameRepo(SHOP, 'mona/store')
    expect((await octokit.repos.get(place)).data.full_name).toBe('mona/store')
    const headers = { authorization: 'token ghp_mona' }
    const moved = await fetch(`${github.apiUrl}/repos/mona/shop/pulls`, { headers, redirect: 'manual' })
    expect([moved.status, moved.headers.get('location')]).toEqual([
      301,
      `${github.apiUrl}/repositories/${github.repo('mona/store').id}/pulls`,
    ])
  })
})

describe('merging', () => {
  const merge = (pull_number: number, more = {}) => octokit.pulls.merge({ ...place, pull_number, ...more })

  test.each([
    ['merge', ['Merge pull request #1 from mona/change', 'Add 12', 'Change primes.txt, old.txt', 'Begin']],
    ['squash', ['Change change (#1)', 'Change primes.txt, old.txt', 'Begin']],
    ['rebase', ['Add 12', 'Change primes.txt, old.txt', 'Begin']],
  ] as const)('%s creates the expected commits', async (merge_method, subjects) => {
    const pull_number = await proposal()
    const { data } = await merge(pull_number, { merge_method })
    expect(data).toEqual({
      sha: github.branchSha(SHOP, 'main'),
      merged: true,
      message: expect.stringMatching(/successfully merged$/),
    })
    const log = await run('git', ['-C', github.repo(SHOP).path, 'log', '--topo-order', '--format=%s', 'main'])
    expect(log.out.trim().split('\n')).toEqual(subjects)
    const { data: after } = await octokit.pulls.get({ ...place, pull_number })
    expect(after).toMatchObject({ merged: true, state: 'closed', changed_files: 2, commits: 1 })
    expect(await refusal(merge(pull_number))).toBe('405 Pull Request is not mergeable')
    expect(github.violations).toEqual([])
  })

  test('is refused with the reason', async () => {
    const pull_number = await proposal()
    expect(await refusal(merge(pull_number, { sha: '0'.repeat(40) }))).toBe(
      '409 Head branch was modified. Review and try the merge again.',
    )
    expect(await refusal(merge(await proposal({ draft: true, branch: 'draft' })))).toBe(
      '405 Pull Request is still a draft',
    )
    github.repo(SHOP).allow.squash = false
    expect(await refusal(merge(pull_number, { merge_method: 'squash' }))).toBe(
      '405 Squash merges are not allowed on this repository.',
    )
    github.faults.baseModified = 1
    expect(await refusal(merge(pull_number))).toBe(
      '405 Base branch was modified. Review and try the merge again.',
    )
    await github.commit(SHOP, { branch: 'main', files: { 'primes.txt': 'some\n' } })
    expect(await refusal(merge(pull_number))).toBe('405 Pull Request has merge conflicts')
    expect(await refusal(merge(99))).toBe('404 Not Found')
  })

  test('happens by pushing to the base, too', async () => {
    const pull_number = await proposal()
    await github.setBranch(SHOP, 'main', github.branchSha(SHOP, 'change'))
    expect((await octokit.pulls.get({ ...place, pull_number })).data).toMatchObject({
      merged: true,
      commits: 1,
    })
  })

  test('waits for required approvals', async () => {
    const pull_number = await proposal()
    github.repo(SHOP).approvals = 1
    expect(await refusal(merge(pull_number))).toMatch(/^405 At least 1 approving review is required/)
    await hubot.pulls.createReview({ ...place, pull_number, event: 'APPROVE' })
    expect((await merge(pull_number)).data.merged).toBe(true)
  })
})

describe('closing and reopening', () => {
  const set = (state: 'open' | 'closed') => octokit.pulls.update({ ...place, pull_number: 1, state })

  test('closes and reopens while the branch exists', async () => {
    await proposal()
    expect((await set('closed')).data).toMatchObject({ state: 'closed', merged: false })
    expect((await set('open')).data).toMatchObject({ state: 'open', closed_at: null })
  })

  test('a pull request with a rewritten or deleted branch, or a merged one, stays closed', async () => {
    await proposal()
    const sha = github.branchSha(SHOP, 'change')
    await set('closed')
    await github.setBranch(SHOP, 'change', github.branchSha(SHOP, 'main'))
    expect(await refusal(set('open'))).toContain('The change branch was force-pushed or recreated.')
    await github.setBranch(SHOP, 'change', undefined)
    expect(await refusal(set('open'))).toContain('The change branch has been deleted.')
    await github.setBranch(SHOP, 'change', sha)
    await set('open')
    await octokit.pulls.merge({ ...place, pull_number: 1 })
    expect(await refusal(set('open'))).toMatch(/^422 Validation Failed.*has been merged/)
  })

  test('deleting the branch closes the pull request, and a second one for the same branch is refused', async () => {
    await proposal()
    const again = octokit.pulls.create({ ...place, title: 'Again', head: 'change', base: 'main' })
    expect(await refusal(again)).toContain('A pull request already exists for mona:change.')
    await octokit.git.deleteRef({ ...place, ref: 'heads/change' })
    expect((await octokit.pulls.get({ ...place, pull_number: 1 })).data.state).toBe('closed')
    const empty = octokit.pulls.create({ ...place, title: 'Empty', head: 'main', base: 'main' })
    expect(await refusal(empty)).toContain('No commits between main and main')
  })
})

describe('forks', () => {
  test('a pull request from a fork follows it, and survives its deletion', async () => {
    await github.fork(SHOP, { fullName: 'hubot/shop' })
    await github.commit('hubot/shop', { branch: 'idea', files: { 'idea.txt': 'idea\n' } })
    const { data } = await hubot.pulls.create({ ...place, title: 'Idea', head: 'hubot:idea', base: 'main' })
    expect(data).toMatchObject({
      head: { label: 'hubot:idea', repo: { full_name: 'hubot/shop' } },
      changed_files: 1,
    })
    await github.commit('hubot/shop', { branch: 'idea', files: { 'more.txt': 'more\n' } })
    const read = async () => (await octokit.pulls.get({ ...place, pull_number: 1 })).data
    expect(await read()).toMatchObject({ commits: 2, mergeable: null })
    github.removeRepo('hubot/shop')
    expect(await read()).toMatchObject({ commits: 2, head: { ref: 'idea', repo: null } })
    const set = (state: 'open' | 'closed') => octokit.pulls.update({ ...place, pull_number: 1, state })
    await set('closed')
    expect(await refusal(set('open'))).toContain(
      'The repository that submitted this pull request has been deleted.',
    )
  })
})

describe('conversation', () => {
  test('authors cannot approve their own pull request, and a review needs a text', async () => {
    const pull_number = await proposal()
    expect(await refusal(octokit.pulls.createReview({ ...place, pull_number, event: 'APPROVE' }))).toBe(
      '422 Unprocessable Entity: "Can not approve your own pull request"',
    )
    expect(
      await refusal(hubot.pulls.createReview({ ...place, pull_number, event: 'REQUEST_CHANGES' })),
    ).toMatch(/^422 Unprocessable Entity/)
    await hubot.pulls.createReview({ ...place, pull_number, event: 'REQUEST_CHANGES', body: 'No.' })
    const { data } = await octokit.pulls.listReviews({ ...place, pull_number })
    expect(data.map(({ state, body, user }) => [state, body, user?.login])).toEqual([
      ['CHANGES_REQUESTED', 'No.', 'hubot'],
    ])
  })

  test('replies go to the first comment of a thread only', async () => {
    const pull_number = await proposal()
    const comments = [{ path: 'primes.txt', line: 6, body: 'Not a prime.' }]
    await hubot.pulls.createReview({ ...place, pull_number, event: 'COMMENT', comments })
    const [first] = (await octokit.pulls.listReviewComments({ ...place, pull_number })).data
    expect(first).toMatchObject({ line: 6, side: 'RIGHT', diff_hunk: '@@ -3,6 +3,7 @@\n 5\n 7\n 11\n+12' })
    const reply = (comment_id: number) =>
      octokit.pulls.createReplyForReviewComment({ ...place, pull_number, comment_id, body: 'True.' })
    const { data } = await reply(first?.id ?? 0)
    expect(data.in_reply_to_id).toBe(first?.id)
    expect(await refusal(reply(data.id))).toBe('404 Not Found')
    const elsewhere = [{ path: 'primes.txt', line: 1, body: 'Here?' }]
    const unplaced = hubot.pulls.createReview({
      ...place,
      pull_number,
      event: 'COMMENT',
      comments: elsewhere,
    })
    expect(await refusal(unplaced)).toContain('line must be part of the diff')
  })

  test('a thread follows its line, until the line is changed', async () => {
    const pull_number = await proposal()
    await github.addThread(SHOP, 1, { path: 'primes.txt', line: 6, author: 'hubot', body: 'Hm.' })
    const line = async () => (await octokit.pulls.listReviewComments({ ...place, pull_number })).data[0]?.line
    const longer = `1\n${PRIMES.replace('11\n', '11\n12\n')}`
    await github.commit(SHOP, { branch: 'change', files: { 'primes.txt': longer } })
    expect(await line()).toBe(7)
    await github.commit(SHOP, { branch: 'change', files: { 'primes.txt': PRIMES } })
    expect(await line()).toBeNull()
  })

  test('only the newest check and status of each name counts', async () => {
    const sha = github.branchSha(SHOP, 'main') ?? ''
    github.addCheck(SHOP, sha, { name: 'build', status: 'completed', conclusion: 'failure' })
    github.addCheck(SHOP, sha, { name: 'build', status: 'in_progress', conclusion: null })
    const { data } = await octokit.checks.listForRef({ ...place, ref: sha, filter: 'latest', per_page: 100 })
    expect(data.check_runs.map(({ name, status }) => [name, status])).toEqual([['build', 'in_progress']])
    const status = async () => (await octokit.repos.getCombinedStatusForRef({ ...place, ref: 'main' })).data
    expect(await status()).toMatchObject({ state: 'pending', total_count: 0 })
    await octokit.repos.createCommitStatus({ ...place, sha, state: 'success', context: 'ci' })
    expect(await status()).toMatchObject({ state: 'success', total_count: 1 })
    expect(await refusal(octokit.checks.listForRef({ ...place, ref: 'nowhere' }))).toBe(
      '422 No commit found for SHA: nowhere',
    )
  })
})

describe('issues', () => {
  test('are listed with pull requests, and filtered by label, state, since and assignee', async () => {
    await proposal()
    nowMs += 60_000
    github.addIssue(SHOP, { title: 'Broken', author: 'eve', labels: ['Todo', 'bug'], assignees: ['hubot'] })
    const list = async (filter: object) =>
      (await octokit.issues.listForRepo({ ...place, ...filter })).data.map(({ number }) => number)
    expect(await list({})).toEqual([2, 1])
    expect(await list({ labels: 'todo,BUG' })).toEqual([2])
    expect(await list({ assignee: 'hubot' })).toEqual([2])
    expect(await list({ assignee: 'none' })).toEqual([1])
    expect(await list({ since: '2026-06-01T12:00:30Z', state: 'all', sort: 'updated' })).toEqual([2])
    const { data } = await octokit.issues.get({ ...place, issue_number: 1 })
    expect(data.pull_request?.url).toBe(`${github.apiUrl}/repos/mona/shop/pulls/1`)
    expect(github.violations).toEqual([])
  })

  test('are labelled, commented, closed and blocked', async () => {
    const issue_number = github.addIssue(SHOP, { title: 'Broken', author: 'eve' }).number
    github.issue(SHOP, 1).blockedBy.push(github.addIssue(SHOP, { title: 'First', author: 'eve' }))
    const at = { ...place, issue_number }
    await octokit.issues.addLabels({ ...at, labels: ['In Progress'] })
    expect((await octokit.issues.removeLabel({ ...at, name: 'in progress' })).data).toEqual([])
    expect(await refusal(octokit.issues.removeLabel({ ...at, name: 'none' }))).toBe(
      '404 Label does not exist',
    )
    await octokit.issues.createComment({ ...at, body: 'On it.' })
    const twice = await octokit.issues.createComment({ ...at, body: 'On it, again.' })
    const gone = await octokit.issues.deleteComment({ ...place, comment_id: twice.data.id })
    expect(gone.status).toBe(204)
    expect((await octokit.issues.listComments(at)).data.map(({ body }) => body)).toEqual(['On it.'])
    const { data } = await octokit.issues.update({ ...at, state: 'closed', state_reason: 'not_planned' })
    expect(data).toMatchObject({ state: 'closed', state_reason: 'not_planned', closed_by: { login: 'mona' } })
    const blockers = await octokit.request(
      'GET /repos/{owner}/{repo}/issues/{issue_number}/dependencies/blocked_by',
      at,
    )
    expect(blockers.data.map(({ title }) => title)).toEqual(['First'])
    expect(github.violations).toEqual([])
  })
})

describe('GraphQL', () => {
  const THREADS = `query Threads($owner: String!, $name: String!, $n: Int!, $after: String) {
    repository(owner: $owner, name: $name) { pullRequest(number: $n) {
      id isDraft state merged headRefOid headRefName baseRefName mergeStateStatus reviewDecision
      headRepository { nameWithOwner }
      reviewThreads(first: 1, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          id isResolved isOutdated isCollapsed path line originalLine startLine diffSide subjectType
          resolvedBy { login } viewerCanReply viewerCanResolve
          comments(first: 50) { nodes { id fullDatabaseId body diffHunk path line createdAt url author { login } replyTo { fullDatabaseId } } }
        } } } } }`
  // biome-ignore lint/suspicious/noExplicitAny: what comes back has the shape that each query asks for
  const ask = (query: string, variables = {}, by = octokit): Promise<any> => by.graphql(query, variables)

  test('reads threads page by page, resolves and answers them', async () => {
    await proposal()
    const thread = await github.addThread(SHOP, 1, { path: 'primes.txt', line: 6, author: null, body: 'Hm.' })
    await github.addThread(SHOP, 1, { path: 'new.txt', line: null, author: 'hubot', body: 'All of it?' })
    const variables = { owner: 'mona', name: 'shop', n: 1 }
    const first = await ask(THREADS, variables)
    expect(first).toMatchObject({
      repository: {
        pullRequest: {
          reviewThreads: {
            pageInfo: { hasNextPage: true },
            nodes: [{ line: 6, isResolved: false, comments: { nodes: [{ body: 'Hm.', author: null }] } }],
          },
        },
      },
    })
    const { pageInfo, nodes } = first.repository.pullRequest.reviewThreads
    expect(nodes[0].comments.nodes[0].fullDatabaseId).toBe(String(thread.comments[0].id))
    expect(await ask(THREADS, { ...variables, after: pageInfo.endCursor })).toMatchObject({
      repository: { pullRequest: { reviewThreads: { nodes: [{ subjectType: 'FILE', line: null }] } } },
    })
    const { id } = nodes[0]
    await ask('mutation R($id: ID!) { resolveReviewThread(input: { threadId: $id }) { thread { id } } }', {
      id,
    })
    expect(thread.resolvedBy).toBe('mona')
    await ask('mutation U($id: ID!) { unresolveReviewThread(input: { threadId: $id }) { thread { id } } }', {
      id,
    })
    expect(thread.resolvedBy).toBeNull()
    const REPLY = `mutation Reply($t: ID!, $b: String!) {
      addPullRequestReviewThreadReply(input: { pullRequestReviewThreadId: $t, body: $b }) { comment { fullDatabaseId } } }`
    await ask(REPLY, { t: id, b: 'Well.' })
    expect(thread.comments.map(({ body }) => body)).toEqual(['Hm.', 'Well.'])
    const WHOSE = `query W($id: ID!) { node(id: $id) { ... on PullRequestReviewThread {
      pullRequest { number repository { nameWithOwner } } } } }`
    expect(await ask(WHOSE, { id })).toEqual({
      node: { pullRequest: { number: 1, repository: { nameWithOwner: SHOP } } },
    })
  })

  test('marks a draft as ready by the node id from REST', async () => {
    const pull_number = await proposal({ draft: true })
    const { data } = await octokit.pulls.get({ ...place, pull_number })
    const READY = `mutation Ready($id: ID!) {
      markPullRequestReadyForReview(input: { pullRequestId: $id }) { pullRequest { id isDraft } } }`
    expect(await ask(READY, { id: data.node_id })).toEqual({
      markPullRequestReadyForReview: { pullRequest: { id: data.node_id, isDraft: false } },
    })
    await expect(ask(READY, { id: data.node_id }, clientOf('ghp_eve'))).rejects.toMatchObject({
      errors: [{ type: 'NOT_FOUND' }],
    })
  })

  test('fails with status 200, a type and a message', async () => {
    const raw = async (query: string) => {
      const headers = { authorization: 'bearer ghp_mona', 'content-type': 'application/json' }
      const answer = await fetch(github.graphqlUrl, {
        method: 'POST',
        headers,
        body: JSON.stringify({ query }),
      })
      // biome-ignore lint/suspicious/noExplicitAny: what comes back has the shape that each query asks for
      const body: any = await answer.json()
      return { status: answer.status, body }
    }
    expect(await raw('{ node(id: "PRRT_none") { id } }')).toEqual({
      status: 200,
      body: {
        data: { node: null },
        errors: [
          {
            type: 'NOT_FOUND',
            path: ['node'],
            locations: [{ line: 1, column: 3 }],
            message: "Could not resolve to a node with the global id of 'PRRT_none'",
          },
        ],
      },
    })
    const unknown = await raw('{ viewer { shoeSize } }')
    expect(unknown).toMatchObject({
      status: 200,
      body: { errors: [{ extensions: { code: 'undefinedField' } }] },
    })
    expect(unknown.body).not.toHaveProperty('data')
    const unbounded = '{ repository(owner: "mona", name: "shop") { pullRequests { totalCount } } }'
    expect((await raw(unbounded)).body.errors[0].type).toBe('MISSING_PAGINATION_BOUNDARIES')
    expect((await raw('{ rateLimit { cost limit used remaining } viewer { login } }')).body.data).toEqual({
      rateLimit: { cost: 1, limit: 5000, used: 4, remaining: 4996 },
      viewer: { login: 'mona' },
    })
    expect((await octokit.users.getAuthenticated()).headers['x-ratelimit-used']).toBe('1')
  })
})

describe('the device flow', () => {
  const post = async (path: string, form: Record<string, string>) => {
    const answer = await fetch(`${github.origin}/login/${path}`, {
      method: 'POST',
      headers: { accept: 'application/json' },
      body: new URLSearchParams(form),
    })
    // biome-ignore lint/suspicious/noExplicitAny: a form with other fields each time
    const body: any = await answer.json()
    return { status: answer.status, ...body }
  }
  const client_id = 'Iv1.switchyard'
  const grant_type = 'urn:ietf:params:oauth:grant-type:device_code'
  const start = () => post('device/code', { client_id, scope: 'repo workflow' })
  const poll = (device_code: string) => post('oauth/access_token', { client_id, device_code, grant_type })

  test('issues a token after approval, and slows down early polls', async () => {
    const { device_code, user_code, interval } = await start()
    expect(interval).toBe(5)
    expect(await poll(device_code)).toMatchObject({ status: 200, error: 'slow_down', interval: 10 })
    nowMs += 9000
    expect(await poll(device_code)).toMatchObject({ error: 'slow_down', interval: 15 })
    nowMs += 15_000
    expect(await poll(device_code)).toMatchObject({ status: 200, error: 'authorization_pending' })
    github.device.approve(user_code, 'mona')
    nowMs += 15_000
    const { access_token, scope } = await poll(device_code)
    expect([access_token.slice(0, 4), scope]).toEqual(['gho_', 'repo,workflow'])
    expect((await clientOf(access_token).users.getAuthenticated()).data.login).toBe('mona')
    expect(await poll(device_code)).toMatchObject({ error: 'incorrect_device_code' })
  })

  test('reports why there is no token', async () => {
    const denied = await start()
    github.device.deny(denied.user_code)
    nowMs += 5000
    expect(await poll(denied.device_code)).toMatchObject({ status: 200, error: 'access_denied' })
    const late = await start()
    nowMs += 900_000
    expect(await poll(late.device_code)).toMatchObject({ status: 200, error: 'expired_token' })
    expect(await post('device/code', { client_id: 'wrong' })).toMatchObject({ status: 404 })
    github.device.settings.enabled = false
    expect(await start()).toMatchObject({ error: 'device_flow_disabled' })
  })
})

interface GitRun {
  readonly code: number
  readonly out: string
  readonly error: string
}

function run(command: string, args: readonly string[], more: Record<string, string> = {}): Promise<GitRun> {
  const env = {
    PATH: process.env.PATH ?? '',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    ...more,
  }
  return new Promise((resolve) => {
    execFile(command, args, { env }, (failure, out, error) =>
      resolve({ code: failure === null ? 0 : Number(failure.code), out, error }),
    )
  })
}

describe('git', () => {
  let folder = ''
  let copy = ''
  const git = (token: string, ...args: string[]): Promise<GitRun> => {
    const who = {
      GIT_AUTHOR_NAME: 'A',
      GIT_AUTHOR_EMAIL: 'a@x',
      GIT_COMMITTER_NAME: 'A',
      GIT_COMMITTER_EMAIL: 'a@x',
    }
    const env = { GIT_ASKPASS: join(folder, 'askpass'), GIT_TERMINAL_PROMPT: '0', TOKEN: token, ...who }
    return run('git', ['-c', 'credential.helper=', ...args], env)
  }
  const push = (token: string, expected: string): Promise<GitRun> => {
    const lease = `--force-with-lease=refs/heads/change:${expected}`
    return git(token, '-C', copy, 'push', '--porcelain', lease, 'origin', 'HEAD:refs/heads/change')
  }

  beforeEach(async () => {
    await proposal()
    folder = tempFolder()
    copy = join(folder, 'copy')
    const script = '#!/bin/sh\ncase "$1" in Username*) echo x-access-token;; *) echo "$TOKEN";; esac\n'
    writeFileSync(join(folder, 'askpass'), script)
    chmodSync(join(folder, 'askpass'), 0o755)
  })

  test('clones with a token from askpass, and pushes with a lease, which moves the pull request', async () => {
    expect(await git('gho_hubot', 'clone', '-q', '-b', 'change', github.cloneUrl(SHOP), copy)).toMatchObject({
      code: 0,
    })
    await git('gho_hubot', '-C', copy, 'commit', '-q', '--amend', '-m', 'Better')
    const before = github.branchSha(SHOP, 'change') ?? ''
    nowMs += 3000
    expect((await push('gho_hubot', before)).out).toMatch(
      /^\+\tHEAD:refs\/heads\/change\t.*\(forced update\)$/m,
    )
    const { data } = await octokit.pulls.get({ ...place, pull_number: 1 })
    expect(data.head.sha).toBe(github.branchSha(SHOP, 'change'))
    expect(data).toMatchObject({ mergeable: null, updated_at: '2026-06-01T12:00:03Z' })
    await git('gho_hubot', '-C', copy, 'commit', '-q', '--amend', '-m', 'Still better')
    const late = await push('gho_hubot', before)
    expect([late.code, late.out]).toEqual([1, expect.stringContaining('[rejected] (stale info)')])
    const fetched = await git('gho_hubot', '-C', copy, 'fetch', '-q', 'origin', 'refs/pull/1/head')
    expect(fetched.code).toBe(0)
  })

  test('refuses wrong tokens, people without access, readers, and pushes to protected branches', async () => {
    const url = github.cloneUrl(SHOP)
    const wrong = await git('ghp_wrong', 'clone', '-q', url, copy)
    expect([wrong.code, wrong.error]).toEqual([128, expect.stringContaining('Authentication failed')])
    expect((await git('ghp_eve', 'clone', '-q', url, copy)).error).toContain('not found')
    github.repo(SHOP).members.set('eve', 'pull')
    await git('ghp_eve', 'clone', '-q', '-b', 'change', url, copy)
    await git('ghp_eve', '-C', copy, 'commit', '-q', '--allow-empty', '-m', 'Mine')
    const before = github.branchSha(SHOP, 'change') ?? ''
    expect((await push('ghp_eve', before)).error).toContain('403')
    github.repo(SHOP).rejectPushes = 'error: GH006: Protected branch update failed for refs/heads/change.'
    const refused = await push('gho_hubot', before)
    expect(refused.out).toContain('[remote rejected]')
    expect(refused.error).toContain('GH006')
    expect(github.branchSha(SHOP, 'change')).toBe(before)
  })

  test('follows a renamed repository', async () => {
    github.renameRepo(SHOP, 'mona/store')
    const old = `${github.origin}/mona/shop.git`
    expect(await git('gho_hubot', 'clone', '-q', old, copy)).toMatchObject({ code: 0 })
  })
})

describe('the API description', () => {
  const of = (method: string, path: string, query: string, body?: unknown): string[] =>
    validateRequest(method, path, new URLSearchParams(query), body)

  test('names the problems of a request', () => {
    expect(of('GET', '/repos/a/b/pulls', 'state=open&per_page=100&sort=updated')).toEqual([])
    expect(of('GET', '/repos/a/b/pulls', 'state=merged&per-page=3')).toEqual([
      'GET /repos/{owner}/{repo}/pulls: query state is "merged", not one of open, closed, all',
      'GET /repos/{owner}/{repo}/pulls: query per-page is unknown',
    ])
    expect(of('PUT', '/repos/a/b/pulls/1/merge', '', { method: 'squash' })).toEqual([
      'PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge: body.method is unknown',
    ])
    expect(of('PUT', '/repos/a/b/pulls/x/merge', '')).toEqual([
      'PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge: path pull_number is of type string, not integer',
    ])
    expect(of('POST', '/repos/a/b/issues/1/comments', '')).toEqual([
      'POST /repos/{owner}/{repo}/issues/{issue_number}/comments: the body is missing',
    ])
    expect(of('GET', '/repos/a/b/git/ref/heads/some/branch', '')).toEqual([])
    expect(of('GET', '/orgs/a', '')).toEqual(['GET /orgs/a: no such operation'])
  })

  test('names the problems of a reply', () => {
    expect(
      validateResponse('GET', '/repos/a/b/git/ref/heads/x', 200, { ref: 1, node_id: 'x', url: 'x' }),
    ).toEqual([
      'GET /repos/{owner}/{repo}/git/ref/{ref} 200.object is missing',
      'GET /repos/{owner}/{repo}/git/ref/{ref} 200.ref is of type integer, not string',
    ])
  })
})
