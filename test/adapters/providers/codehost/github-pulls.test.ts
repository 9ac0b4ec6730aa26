/** Pull request host for GitHub, with scripted replies: reads, actions and the order of requests. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { no } from '../../../../core/result.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { PullDetail, PullSummary } from '../../../../protocol/pulls.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import {
  createManualGithub,
  hostOf,
  type ManualGithub,
  type ManualReply,
  pullJson,
  SHA,
  threadsJson,
  usualReplies,
} from './manual-github.ts'

const REMOTE = 'ada/lamps'
const PLACE = { remote: REMOTE, number: 12 }
const REPO = { repo: 'web', remote: REMOTE }
const PULL = '/repos/ada/lamps/pulls/12'
const clock = new ManualClock()

const isSummary = createChecker(PullSummary)
const isDetail = createChecker(PullDetail)

const host = (manual: ManualGithub) => hostOf(manual, clock)
const rounds = (manual: ManualGithub): number => Math.max(...manual.requests.map(({ batch }) => batch))
const writes = (manual: ManualGithub): string[] =>
  manual.targets().filter((target) => !target.startsWith('GET'))

function page(state: string, number: number, last: number): ManualReply {
  const at = (number: number) =>
    `https://api.github.com/repositories/7/pulls?state=${state}&sort=updated&direction=desc&per_page=50&page=${number}`
  const items = [1, 2].map((item) => pullJson({ number: number * 1000 + item, state }))
  const link = number < last ? `<${at(number + 1)}>; rel="next", <${at(last)}>; rel="last"` : ''
  return { json: items, headers: link === '' ? {} : { link } }
}

describe('listing', () => {
  test('one page of open pull requests takes one round trip, and every reply is cached', async () => {
    const manual = createManualGithub(({ target }) => ({
      json: target.includes('state=open')
        ? [pullJson(), pullJson({ number: 3, draft: true, updated_at: '2026-11-03T00:00:00Z' })]
        : [
            pullJson({ number: 2, state: 'closed', merged_at: '2026-11-02T09:00:00Z' }),
            pullJson({ number: 12, state: 'closed', updated_at: '2026-11-04T00:00:00Z' }),
          ],
    }))
    const listed = await host(manual).list(REMOTE, 'background')
    expect(listed.ok && listed.value.map(({ number, state }) => [number, state])).toEqual([
      [12, 'closed'],
      [3, 'draft'],
      [2, 'merged'],
    ])
    expect([rounds(manual), manual.requests.length]).toEqual([1, 3])
    const counts = manual.requests.filter(({ target }) => target === 'POST /graphql')
    const lists = manual.requests.filter((request) => !counts.includes(request))
    expect([counts.length, lists.every(({ cached }) => cached === true)]).toEqual([1, true])
    expect(manual.requests.every(({ urgency }) => urgency === 'background')).toBe(true)
    for (const pull of listed.ok ? listed.value : [])
      expect(isSummary({ ...pull, ...REPO })).toMatchObject({ ok: true })
  })

  test('further pages are read in parallel, up to the limit', async () => {
    const manual = createManualGithub(({ url, target }) => {
      if (target.includes('state=closed')) return { json: [] }
      return page('open', Number(new URL(url).searchParams.get('page') ?? 1), 19)
    })
    const listed = await host(manual).list(REMOTE, 'person')
    expect([rounds(manual), manual.requests.length]).toEqual([2, 2 + 10])
    expect(listed.ok && listed.value.length).toBe(20)
  })

  test.each([
    ['https://evil.example/repos/ada/lamps/pulls?page=2'],
    ['https://api.github.com.evil.example/x?page=2'],
    ['https://api.github.com@evil.example/x?page=2'],
    ['nonsense'],
  ])('a next page at %s gets no token', async (target) => {
    const link = `<${target}>; rel="next", <${target}>; rel="last"`
    const manual = createManualGithub(() => ({ json: [pullJson()], headers: { link } }))
    expect((await host(manual).list(REMOTE, 'person')).ok).toBe(true)
    expect(manual.requests.length).toBe(3)
  })

  test('page links may contain commas', async () => {
    const repo = (name: string) => ({ full_name: name, pushed_at: null, created_at: '2026-11-01T10:00:00Z' })
    const at = 'https://api.github.com/user/repos?affiliation=owner,collaborator&page'
    const manual = createManualGithub(({ target }) =>
      target.endsWith('page=2')
        ? { json: [repo('ada/wires'), repo('ada/lamps')] }
        : {
            json: [repo('ada/lamps'), null],
            headers: { link: `<${at}=2>; rel="next", <${at}=2>; rel="last"` },
          },
    )
    expect(await host(manual).repos()).toEqual({
      ok: true,
      value: ['ada/lamps', 'ada/wires'].map((fullName) => ({
        fullName,
        defaultBranch: '',
        private: false,
        description: '',
        pushedAt: '2026-11-01T10:00:00.000Z',
      })),
    })
  })

  test('cursor links are followed one by one, and end', async () => {
    const next = '<https://api.github.com/repos/ada/lamps/pulls?after=x>; rel="next"'
    const manual = createManualGithub(() => ({ json: [pullJson()], headers: { link: next } }))
    expect((await host(manual).list(REMOTE, 'person')).ok).toBe(true)
    expect(manual.requests.length).toBe(2 + 10)
  })

  test('deleted accounts and forks are accepted, and invalid items are left out', async () => {
    const ghost = pullJson({
      user: null,
      head: { ref: 'mend', sha: SHA, repo: null },
      title: 'x'.repeat(99_999),
    })
    const manual = createManualGithub(({ target }) => ({
      json: target.includes('state=open') ? [null, 5, {}, pullJson({ number: -1 }), ghost] : [],
    }))
    const listed = await host(manual).list(REMOTE, 'person')
    expect(listed).toMatchObject({ ok: true, value: [{ number: 12, author: 'ghost', headBranch: 'mend' }] })
    expect(listed.ok && isSummary({ ...listed.value[0], ...REPO })).toMatchObject({ ok: true })
  })

  test.each([
    [{ status: 404, json: { message: 'Not Found' } }, 'unknown'],
    [{ status: 401, json: { message: 'Bad credentials' } }, 'unauthorized'],
    [{ status: 502, text: '<html>' }, 'unavailable'],
    [{ status: 200, text: '<html>' }, 'failed'],
    [{ status: 200, json: { message: 'hm' } }, 'failed'],
  ])('%j → %s', async (replied, kind) => {
    expect(await host(createManualGithub(() => replied)).list(REMOTE, 'person')).toMatchObject({
      refusal: { kind },
    })
  })

  test('an invalid repository name is never requested', async () => {
    const manual = createManualGithub(() => ({ json: [] }))
    expect(await host(manual).list('../../user', 'person')).toMatchObject({ refusal: { kind: 'invalid' } })
    expect(manual.requests).toEqual([])
  })
})

describe('states', () => {
  test('one list covers the open pull requests, only others are read by number, and missing ones are left out', async () => {
    const manual = createManualGithub(({ target }) => {
      if (target.includes('state=open'))
        return { json: [pullJson({ number: 1 }), pullJson({ number: 2, draft: true })] }
      if (target.endsWith('/pulls/3'))
        return { json: pullJson({ number: 3, merged_at: '2026-11-02T09:00:00Z' }) }
      return undefined
    })
    const states = await host(manual).states(REMOTE, [1, 2, 3, 4, 3], 'background')
    expect(states.ok && [...states.value]).toEqual([
      [1, 'open'],
      [2, 'draft'],
      [3, 'merged'],
    ])
    expect(manual.requests.length).toBe(3)
  })

  test('a single number is read directly', async () => {
    const manual = createManualGithub(usualReplies())
    const states = await host(manual).states(REMOTE, [12], 'person')
    expect(states.ok && [...states.value]).toEqual([[12, 'open']])
    expect(manual.targets()).toEqual([`GET ${PULL}`])
  })

  test('a failed read of one number refuses all', async () => {
    const manual = createManualGithub(({ target }) =>
      target.includes('state=open') ? { json: [] } : { status: 502, text: '' },
    )
    expect(await host(manual).states(REMOTE, [1, 2], 'background')).toMatchObject({
      refusal: { kind: 'unavailable' },
    })
  })
})

describe('one pull request', () => {
  const check = (more: object) => ({ name: 'build', status: 'completed', conclusion: 'success', ...more })

  test('takes two round trips for all parts', async () => {
    const replied = usualReplies({
      [`GET ${PULL}/files`]: {
        json: [
          {
            filename: 'a.ts',
            status: 'renamed',
            previous_filename: 'b.ts',
            additions: 3,
            deletions: 1,
            patch: '@@',
          },
        ],
      },
      [`GET ${PULL}/commits`]: {
        json: [
          {
            sha: SHA,
            author: null,
            commit: { message: 'Mend', author: { name: 'Ada', date: '2026-11-01T10:00:00Z' } },
          },
        ],
      },
      'GET /repos/ada/lamps/issues/12/comments': {
        json: [
          {
            id: 1,
            node_id: 'IC_1',
            user: null,
            body: 'Hm',
            created_at: '2026-11-01T10:00:00Z',
            html_url: 'x',
          },
        ],
      },
      [`GET ${PULL}/reviews`]: {
        json: [
          {
            id: 2,
            user: { login: 'eve' },
            state: 'APPROVED',
            body: '',
            submitted_at: '2026-11-01T10:00:00Z',
          },
          { id: 3, user: { login: 'ada' }, state: 'PENDING', body: 'not yet' },
        ],
      },
      [`GET /repos/ada/lamps/commits/${SHA}/check-runs`]: {
        json: { check_runs: [check({}), check({ name: 'gate', status: 'waiting', conclusion: null })] },
      },
      [`GET /repos/ada/lamps/commits/${SHA}/status`]: {
        json: {
          state: 'pending',
          statuses: [{ context: 'ci', state: 'pending', target_url: 'javascript:x' }],
        },
      },
      'POST /graphql': {
        json: threadsJson([
          {
            id: 'PRRT_1',
            isResolved: true,
            path: 'a.ts',
            line: null,
            originalLine: 7,
            comments: {
              nodes: [
                {
                  id: 'PRRC_1',
                  body: 'Why?',
                  diffHunk: '@@',
                  createdAt: '2026-11-01T10:00:00Z',
                  url: 'https://github.com/x',
                  author: null,
                },
              ],
            },
          },
        ]),
      },
    })
    const manual = createManualGithub(replied)
    const detail = await host(manual).detail(PLACE)
    expect(rounds(manual)).toBe(2)
    expect(detail).toMatchObject({
      ok: true,
      value: {
        headSha: SHA,
        mergeableState: 'clean',
        files: [{ path: 'a.ts', previousPath: 'b.ts', status: 'renamed', patch: '@@' }],
        commits: [{ sha: SHA, author: 'Ada' }],
        conversation: {
          comments: [
            {
              author: 'ghost',
              authorMayWrite: false,
              body: 'Hm',
              url: 'https://github.com/ada/lamps/pull/12',
            },
          ],
          reviews: [{ author: 'eve', state: 'APPROVED' }],
          threads: [
            { id: 'PRRT_1', resolved: true, line: 7, diffHunk: '@@', comments: [{ author: 'ghost' }] },
          ],
        },
        checks: [
          { name: 'build', status: 'completed', conclusion: 'success', source: 'check-run' },
          { name: 'gate', status: 'queued', source: 'check-run' },
          { name: 'ci', status: 'in_progress', source: 'status' },
        ],
      },
    })
    expect(detail.ok && isDetail({ ...detail.value, ...REPO })).toMatchObject({ ok: true })
    expect(detail.ok && 'checksLookupFailed' in detail.value).toBe(false)
    expect(manual.requests.find(({ method }) => method === 'POST')?.writes).toBe(false)
  })

  test('statuses are read even without access to check runs', async () => {
    const manual = createManualGithub(
      usualReplies({
        [`GET /repos/ada/lamps/commits/${SHA}/check-runs`]: {
          status: 403,
          json: { message: 'Resource not accessible' },
        },
        [`GET /repos/ada/lamps/commits/${SHA}/status`]: {
          json: { state: 'success', statuses: [{ context: 'ci', state: 'success' }] },
        },
      }),
    )
    expect(await host(manual).detail(PLACE)).toMatchObject({
      value: { checksLookupFailed: true, checks: [{ name: 'ci', conclusion: 'success' }] },
    })
  })

  test('the merge methods of the repository are told where GitHub tells them', async () => {
    const allowing = async (repo: object) => {
      const base = { ref: 'main', repo: { full_name: 'ada/lamps', ...repo } }
      const manual = createManualGithub((asked) =>
        asked.target.endsWith('/pulls/12') ? { json: pullJson({ base }) } : usualReplies()(asked),
      )
      const detail = await host(manual).detail(PLACE)
      return detail.ok && [detail.value.mergeMethods, isDetail({ ...detail.value, ...REPO }).ok]
    }
    const all = { allow_merge_commit: false, allow_squash_merge: true, allow_rebase_merge: true }
    expect(await allowing(all)).toEqual([['squash', 'rebase'], true])
    expect(await allowing({ allow_squash_merge: true })).toEqual([undefined, true])
  })

  test('a failed check has the end of its own report, else its annotations', async () => {
    const failed = { status: 'completed', conclusion: 'failure' }
    const notes = '/repos/ada/lamps/check-runs/41/annotations'
    const long = `${'x'.repeat(5_000)}\nlast line`
    const manual = createManualGithub(
      usualReplies({
        [`GET /repos/ada/lamps/commits/${SHA}/check-runs`]: {
          json: {
            check_runs: [
              check({ output: { title: 'All is well', annotations_count: 3 } }),
              check({ ...failed, name: 'unit', output: { title: '1 failed', summary: '', text: long } }),
              check({ ...failed, name: 'job', id: 41, output: { title: null, annotations_count: 2 } }),
              check({ ...failed, name: 'silent', output: { annotations_count: 0 } }),
            ],
          },
        },
        [`GET /repos/ada/lamps/commits/${SHA}/status`]: {
          json: { statuses: [{ context: 'ci', state: 'error', description: 'Build 7 broke' }] },
        },
        [`GET ${notes}`]: {
          json: [
            { path: 'src/a.ts', start_line: 12, message: 'Expected 1, got 2' },
            { path: '.github', start_line: 9, message: 'Process completed with exit code 1.' },
          ],
        },
      }),
    )
    const detail = await host(manual).detail(PLACE)
    expect(detail.ok && detail.value.checks.map(({ name, report }) => [name, report])).toEqual([
      ['build', undefined],
      ['unit', 'last line'],
      ['job', 'src/a.ts:12: Expected 1, got 2\nProcess completed with exit code 1.'],
      ['silent', undefined],
      ['ci', 'Build 7 broke'],
    ])
    expect(detail.ok && isDetail({ ...detail.value, ...REPO })).toMatchObject({ ok: true })
    expect(manual.requests.filter(({ target }) => target.includes('annotations'))).toHaveLength(1)
  })

  test('checks are read page by page, and a truncated list is reported', async () => {
    const below = `https://api.github.com/repos/ada/lamps/commits/${SHA}`
    const page = (target: string, item: (at: number) => object, last: number) => {
      const at = Number(/[?&]page=(\d+)/.exec(target)?.[1] ?? 1)
      const [, path = ''] = /commits\/[0-9a-f]+(\/[^?]+)/.exec(target) ?? []
      const to = (number: number, rel: string) =>
        `<${below}${path}?per_page=100&page=${number}>; rel="${rel}"`
      const link = at < last ? { link: `${to(at + 1, 'next')}, ${to(last, 'last')}` } : {}
      return { items: Array.from({ length: 100 }, (_, index) => item(at * 100 + index)), headers: link }
    }
    const shownWith = async (runPages: number, statusPages: number) => {
      const manual = createManualGithub((asked) => {
        const { target } = asked
        if (/\/status\?/.test(target)) {
          const { items, headers } = page(
            target,
            (at) => ({ context: `s${at}`, state: 'success' }),
            statusPages,
          )
          return { json: { statuses: items }, headers }
        }
        if (!/\/check-runs\?/.test(target)) return usualReplies()(asked)
        const run = (at: number) => ({ name: `c${at}`, status: 'completed', conclusion: 'success' })
        const { items, headers } = page(target, run, runPages)
        return { json: { check_runs: items }, headers }
      })
      const detail = await host(manual).detail(PLACE)
      return detail.ok ? [detail.value.checks.length, detail.value.checksLookupFailed] : detail
    }
    expect(await shownWith(1, 3)).toEqual([400, undefined])
    expect(await shownWith(1, 6)).toEqual([600, true])
    expect(await shownWith(6, 1)).toEqual([600, true])
  })

  test('the mergeability is read again until GitHub knows it, for as long as a person waits', async () => {
    const slow = new ManualClock()
    let lists = 0
    const settled = createManualGithub((asked) => {
      if (!asked.target.endsWith('/pulls/12')) return usualReplies()(asked)
      return { json: pullJson(++lists > 2 ? {} : { mergeable: null, mergeable_state: 'unknown' }) }
    })
    const detailOf = async (manual: ManualGithub) => {
      const detail = hostOf(manual, slow).detail(PLACE)
      for (let second = 0; second < 4; second++) await slow.advance(1_000)
      return detail
    }
    expect(await detailOf(settled)).toMatchObject({ value: { mergeableState: 'clean' } })
    expect(settled.targets().filter((target) => target.endsWith('/pulls/12')).length).toBe(3)
    const files = usualReplies({ [`GET ${PULL}/`]: { json: [] } })
    const never = createManualGithub((asked) =>
      asked.target.endsWith('/pulls/12')
        ? { json: pullJson({ mergeable: null, mergeable_state: 'UNKNOWN' }) }
        : files(asked),
    )
    expect(await detailOf(never)).toMatchObject({ value: { mergeableState: 'unknown' } })
    expect(never.targets().filter((target) => target.endsWith('/pulls/12')).length).toBe(4)
    expect(slow.timers).toBe(0)
  })

  test('the mergeability of a closed pull request is not awaited', async () => {
    const closed = pullJson({ state: 'closed', mergeable: null })
    const manual = createManualGithub((asked) =>
      asked.target.endsWith('/pulls/12') ? { json: closed } : usualReplies()(asked),
    )
    expect(await host(manual).detail(PLACE)).toMatchObject({ value: { state: 'closed' } })
  })

  test('a missing number is unknown, whatever else failed', async () => {
    const manual = createManualGithub(({ target }) =>
      target.endsWith('/pulls/12') ? undefined : { status: 502, text: '' },
    )
    expect(await host(manual).detail(PLACE)).toMatchObject({ refusal: { kind: 'unknown' } })
  })

  test('a diff that GitHub cannot compute does not hide the rest', async () => {
    const sorry = { status: 422, json: { message: 'Sorry, this diff is taking too long to generate.' } }
    const manual = createManualGithub(usualReplies({ [`GET ${PULL}/files`]: sorry }))
    expect(await host(manual).detail(PLACE)).toMatchObject({
      ok: true,
      value: { files: [], changedFiles: 1 },
    })
  })

  test('all patches together stay within their limit', async () => {
    const file = (filename: string) => ({ filename, status: 'modified', patch: 'x'.repeat(3 * 1024 * 1024) })
    const manual = createManualGithub(
      usualReplies({ [`GET ${PULL}/files`]: { json: ['a', 'b', 'c', 'd'].map(file) } }),
    )
    const detail = await host(manual).detail(PLACE)
    expect(detail.ok && detail.value.files.map(({ patch }) => patch?.length)).toEqual([
      3145728,
      3145728,
      undefined,
      undefined,
    ])
  })

  test('threads are read page by page, the newest first', async () => {
    const thread = (id: string) => ({ id, isResolved: false, path: 'a', comments: { nodes: [] } })
    const manual = createManualGithub((asked) => {
      if (!asked.target.startsWith('POST')) return usualReplies()(asked)
      const isFirst = !JSON.stringify(asked.json).includes('MARK')
      return {
        json: isFirst
          ? threadsJson([thread('B')], { hasPreviousPage: true, startCursor: 'MARK' })
          : threadsJson([thread('A')]),
      }
    })
    const detail = await host(manual).detail(PLACE)
    expect(detail.ok && detail.value.conversation.threads.map(({ id }) => id)).toEqual(['A', 'B'])
  })

  test('any reply of GitHub becomes a valid record or a refusal', async () => {
    const strange = (template: object) =>
      fc
        .dictionary(fc.constantFrom(...Object.keys(template)), fc.anything(), { maxKeys: 3 })
        .map((more) => ({ json: { ...template, ...more } }))
    const lists = fc.array(fc.anything(), { maxLength: 3 }).map((json) => ({ json }))
    const replied = fc.record({
      [`GET ${PULL}/files`]: lists,
      [`GET ${PULL}/commits`]: lists,
      [`GET ${PULL}/reviews`]: lists,
      'GET /repos/ada/lamps/issues': lists,
      'GET /repos/ada/lamps/commits': strange({ statuses: [], check_runs: [] }),
      [`GET ${PULL}`]: strange(pullJson({ state: 'closed' })),
      'POST /graphql': fc
        .array(fc.anything(), { maxLength: 2 })
        .map((nodes) => ({ json: threadsJson(nodes) })),
    })
    await fc.assert(
      fc.asyncProperty(replied, async (answers) => {
        const detail = await host(createManualGithub(usualReplies(answers))).detail(PLACE)
        if (detail.ok) expect(isDetail({ ...detail.value, ...REPO })).toMatchObject({ ok: true })
      }),
      { numRuns: 200 },
    )
  })
})

describe('an unexpected reply', () => {
  const OTHERS = [
    { json: {} },
    { json: [] },
    { json: null },
    { json: 'open' },
    { json: { number: 12 } },
    { text: '' },
  ]

  test.each(OTHERS)(
    'that is not a pull request (%j) has no state and triggers no action',
    async (replied) => {
      const manual = () =>
        createManualGithub(
          usualReplies({
            [`GET ${PULL}`]: replied,
            'PUT ': { json: { merged: true } },
            'PATCH ': { json: {} },
          }),
        )
      expect((await host(manual()).states(REMOTE, [12], 'person')).ok).toBe(false)
      const asked = manual()
      expect(await host(asked).merge(PLACE, 'merge')).toMatchObject({ refusal: { kind: 'failed' } })
      expect(await host(asked).close(PLACE)).toMatchObject({ refusal: { kind: 'failed' } })
      expect(writes(asked)).toEqual([])
    },
  )

  test('without a head commit is not merged', async () => {
    const manual = createManualGithub(
      usualReplies({ [`GET ${PULL}`]: { json: pullJson({ head: { ref: 'mend' } }) } }),
    )
    expect(await host(manual).merge(PLACE, 'merge')).toMatchObject({ refusal: { kind: 'failed' } })
    expect(writes(manual)).toEqual([])
  })

  test.each([{}, { data: null }, []])('of GraphQL (%j) is not a success', async (json) => {
    const draft = { [`GET ${PULL}`]: { json: pullJson({ draft: true }) } }
    const manual = () => createManualGithub(usualReplies({ 'POST /graphql': { json }, ...draft }))
    expect((await host(manual()).detail(PLACE)).ok).toBe(false)
    expect(await host(manual()).markReady(PLACE)).toMatchObject({ refusal: { kind: 'failed' } })
  })
})

describe('merging', () => {
  const merged = { json: { sha: 'b', merged: true, message: 'GitHub has merged it' } }
  const moved = {
    status: 405,
    json: { message: 'Base branch was modified. Review and try the merge again.' },
  }

  test('names the head commit that was just read', async () => {
    const manual = createManualGithub(usualReplies({ [`PUT ${PULL}/merge`]: merged }))
    expect(await host(manual).merge(PLACE, 'squash')).toEqual({
      ok: true,
      value: 'GitHub has merged it',
    })
    expect(manual.requests.at(-1)).toMatchObject({
      json: { merge_method: 'squash', sha: SHA },
      urgency: 'person',
    })
  })

  test('is refused when the head is not the commit that the person saw', async () => {
    const manual = createManualGithub(usualReplies({ [`PUT ${PULL}/merge`]: merged }))
    expect(await host(manual).merge(PLACE, 'squash', '0'.repeat(40))).toMatchObject({
      refusal: { kind: 'conflict', message: expect.stringContaining('look at the pull request again') },
    })
    expect(manual.requests.some(({ method }) => method === 'PUT')).toBe(false)
    expect(await host(manual).merge(PLACE, 'squash', SHA)).toMatchObject({ ok: true })
  })

  test('is tried once more when another merge moved the base', async () => {
    let tries = 0
    const once = createManualGithub((asked) =>
      asked.method === 'PUT' ? (++tries > 1 ? merged : moved) : usualReplies()(asked),
    )
    expect(await host(once).merge(PLACE, 'merge')).toMatchObject({ ok: true })
    const always = createManualGithub(usualReplies({ 'PUT ': moved }))
    expect(await host(always).merge(PLACE, 'merge')).toMatchObject({
      refusal: { kind: 'conflict', message: expect.stringMatching(/Base branch was modified/) },
    })
    expect(writes(always).length).toBe(2)
  })

  test.each([[no('failed', 'no answer')], [{ status: 502, text: '' }]])(
    'of which the answer was lost (%j) is known to have happened',
    async (replied) => {
      let isMerged = false
      const manual = createManualGithub((asked) => {
        if (asked.method === 'PUT') {
          isMerged = true
          return replied
        }
        return { json: pullJson(isMerged ? { state: 'closed', merged_at: '2026-11-02T09:00:00Z' } : {}) }
      })
      expect(await host(manual).merge(PLACE, 'merge')).toMatchObject({ ok: true })
    },
  )

  test.each([
    [{ status: 405, json: { message: 'Pull Request has merge conflicts' } }, 'conflict'],
    [
      { status: 409, json: { message: 'Head branch was modified. Review and try the merge again.' } },
      'conflict',
    ],
    [{ status: 403, json: { message: 'Resource not accessible' } }, 'forbidden'],
    [{ status: 422, json: { message: 'Validation Failed', errors: ['nope'] } }, 'invalid'],
    [no('unavailable', 'later'), 'unavailable'],
    [no('failed', 'no answer'), 'failed'],
  ])('%j → %s', async (replied, kind) => {
    const manual = createManualGithub((asked) => (asked.method === 'PUT' ? replied : usualReplies()(asked)))
    expect(await host(manual).merge(PLACE, 'merge')).toMatchObject({ refusal: { kind } })
    expect(writes(manual).length).toBe(1)
  })
})

describe('an action that the state forbids is not sent', () => {
  const inState = {
    open: {},
    draft: { draft: true },
    closed: { state: 'closed' },
    merged: { state: 'closed', merged_at: '2026-11-02T09:00:00Z' },
  }
  test.each([
    ['merge', 'draft', /is a draft/],
    ['merge', 'closed', /is closed/],
    ['merge', 'merged', /is merged already/],
    ['close', 'closed', /is closed already/],
    ['close', 'merged', /is merged already/],
    ['reopen', 'open', /is open already/],
    ['reopen', 'draft', /is open already/],
    ['reopen', 'merged', /cannot be reopened/],
    ['markReady', 'open', /is not a draft/],
    ['markReady', 'closed', /is closed/],
  ] as const)('%s of one that is %s', async (action, state, message) => {
    const manual = createManualGithub(usualReplies({ [`GET ${PULL}`]: { json: pullJson(inState[state]) } }))
    const answer = action === 'merge' ? host(manual).merge(PLACE, 'merge') : host(manual)[action](PLACE)
    expect(await answer).toMatchObject({
      refusal: { kind: 'conflict', message: expect.stringMatching(message) },
    })
    expect(writes(manual)).toEqual([])
  })
})

describe('commenting', () => {
  const owner = (pull: string, first: unknown = '9007199254740993') => ({
    json: {
      data: {
        repository: { pullRequest: { id: 'PR_12' } },
        node: { id: 'PRRT_1', pullRequest: { id: pull }, comments: { nodes: [{ fullDatabaseId: first }] } },
      },
    },
  })

  test('an issue with that number gets no comment', async () => {
    const manual = createManualGithub(({ target }) =>
      target.includes('/issues/') ? { status: 201, json: {} } : undefined,
    )
    expect(await host(manual).comment(PLACE, 'Hm')).toMatchObject({ refusal: { kind: 'unknown' } })
    expect(writes(manual)).toEqual([])
  })

  test('a reply is sent to the first comment of the thread', async () => {
    const manual = createManualGithub(
      usualReplies({ 'POST /graphql': owner('PR_12'), 'POST /repos': { status: 201, json: {} } }),
    )
    expect(await host(manual).reply(PLACE, { commentId: 'PRRT_1:PRRC_5', body: 'So' })).toMatchObject({
      ok: true,
    })
    expect(manual.requests.at(0)?.json).toMatchObject({
      variables: { thread: 'PRRT_1', n: 12, owner: 'ada', name: 'lamps' },
    })
    expect(manual.requests.at(-1)).toMatchObject({
      target: `POST ${PULL}/comments/9007199254740993/replies`,
      json: { body: 'So' },
    })
  })

  test.each([
    ['another pull request’s', owner('PR_13')],
    [
      'nobody’s',
      { json: { data: { node: null }, errors: [{ type: 'NOT_FOUND', message: 'Could not resolve' }] } },
    ],
    ['not a thread', { json: { data: { repository: { pullRequest: { id: 'PR_12' } }, node: {} } } }],
    ['of a pull request that is not there', { json: { data: { repository: null, node: null } } }],
  ])('a thread that is %s is unknown and stays unchanged', async (_, replied) => {
    const manual = createManualGithub(usualReplies({ 'POST /graphql': replied }))
    const request = { threadId: 'PRRT_1', resolved: true }
    expect(await host(manual).resolveThread(PLACE, request)).toMatchObject({ refusal: { kind: 'unknown' } })
    expect(await host(manual).reply(PLACE, { commentId: 'PRRT_1', body: 'x' })).toMatchObject({
      refusal: { kind: 'unknown' },
    })
    expect(manual.requests.every(({ writes }) => writes === false)).toBe(true)
  })

  test('a number beyond GraphQL’s Int is not requested', async () => {
    const manual = createManualGithub(usualReplies())
    const place = { remote: REMOTE, number: 2 ** 31 }
    expect(await host(manual).resolveThread(place, { threadId: 'x', resolved: true })).toMatchObject({
      refusal: { kind: 'unknown' },
    })
    expect(manual.requests).toEqual([])
  })

  test('a review other than an approval needs a text, and GitHub refuses to approve one’s own', async () => {
    const own = {
      status: 422,
      json: { message: 'Unprocessable Entity', errors: ['Can not approve your own pull request'] },
    }
    const manual = createManualGithub(usualReplies({ [`POST ${PULL}/reviews`]: own }))
    const review = (event: 'APPROVE' | 'COMMENT', body: string) => host(manual).review(PLACE, { event, body })
    expect(await review('COMMENT', ' ')).toMatchObject({
      refusal: { kind: 'invalid', message: expect.stringMatching(/^body/) },
    })
    expect(await review('APPROVE', '')).toMatchObject({ refusal: { kind: 'conflict' } })
    expect(manual.requests.map(({ json }) => json)).toEqual([{ event: 'APPROVE' }])
  })
})

describe('addresses', () => {
  const { placeOf } = { placeOf: (url: string) => host(createManualGithub(() => undefined)).parseUrl(url) }
  test.each([
    ['https://github.com/ada/lamps/pull/12', { remote: REMOTE, number: 12 }],
    ['https://GitHub.com/ada/lamps/pull/12/files?x#y', { remote: REMOTE, number: 12 }],
    ['https://github.com/ada/lamps/issues/12', undefined],
    ['https://github.com/ada/lamps/pull/0', undefined],
    ['https://github.com/ada/lamps/pull/1e9', undefined],
    ['https://github.com/ada/../pull/1', undefined],
    ['https://github.com.evil.example/ada/lamps/pull/12', undefined],
    ['http://github.com/ada/lamps/pull/12', undefined],
    ['file:///ada/lamps/pull/12', undefined],
    ['nonsense', undefined],
  ])('%s → %j', (url, place) => {
    expect(placeOf(url)).toEqual(place)
  })
})

describe('branches', () => {
  const originOf = (more: object) =>
    host(createManualGithub(usualReplies({ [`GET ${PULL}`]: { json: pullJson(more) } }))).branches(PLACE)

  test('of a fork are read in one request', async () => {
    const manual = createManualGithub(
      usualReplies({
        [`GET ${PULL}`]: {
          json: pullJson({ head: { ref: 'fix', sha: SHA, repo: { full_name: 'eve/lamps' } } }),
        },
      }),
    )
    expect(await host(manual).branches(PLACE)).toEqual({
      ok: true,
      value: { headRemote: 'eve/lamps', headBranch: 'fix', headSha: SHA, baseBranch: 'main' },
    })
    expect(manual.targets()).toEqual([`GET ${PULL}`])
  })

  test.each([
    ['a fork that was deleted', null],
    ['a name that is none', { full_name: '../lamps' }],
    ['a name that is an option', { full_name: '--upload-pack=x/y' }],
    ['a name of another kind', { full_name: 7 }],
  ])('have no repository to push to with %s', async (_, repo) => {
    expect(await originOf({ head: { ref: 'fix', sha: SHA, repo } })).toEqual({
      ok: true,
      value: { headRemote: undefined, headBranch: 'fix', headSha: SHA, baseBranch: 'main' },
    })
  })

  test('of an invalid or missing pull request are refused', async () => {
    expect(
      await host(createManualGithub(() => ({ json: { message: 'hello' } }))).branches(PLACE),
    ).toMatchObject({
      ok: false,
    })
    expect(await host(createManualGithub(() => undefined)).branches(PLACE)).toMatchObject({
      refusal: { kind: 'unknown' },
    })
  })
})
