/** Tests of a follow-up's input: the branches of its pull request and the new remarks. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createdAtOf, createIds } from '../../../core/ids.ts'
import type { PullBranches, PullDetailFacts } from '../../../core/ports/code-host.ts'
import {
  chooseRepoOfPull,
  followUpMarker,
  nextFollowUpNumber,
  readDiscussion,
  remarkKeys,
  sandboxHolder,
  withRepoOfRun,
} from '../../../core/run/follow-up.ts'
import { trimDiscussion } from '../../../core/run/trim-discussion.ts'
import { JobPull } from '../../../protocol/frames.ts'
import { FOLLOW_UP_ITEMS_MAX, JOB_DISCUSSION_BYTES_MAX, PROSE_CHARS_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import type { PullComment, PullReview, PullThread } from '../../../protocol/pulls.ts'
import type { Run } from '../../../protocol/run.ts'
import { aCost, aRun, aTicket, T0 } from './runs.ts'

const URL = 'https://codehost.example/ada/lamps/pull/7'
const at = (minute: number): string => new Date(Date.parse(T0) + minute * 60_000).toISOString()

const comment = (body: string, minute = 0, author = 'bo'): PullComment => ({
  id: `c-${minute}-${body.length}`,
  author,
  body,
  createdAt: at(minute),
  url: URL,
})
const review = (body: string, minute = 0, state = 'COMMENTED'): PullReview => ({
  id: `r-${minute}`,
  author: 'bo',
  state,
  body,
  submittedAt: at(minute),
})
const thread = (comments: PullComment[], resolved = false): PullThread => ({
  id: 't-1',
  resolved,
  path: 'a.ts',
  line: 3,
  diffHunk: '@@ -1 +1 @@\n+a',
  comments,
})

const detail = (conversation: Partial<PullDetailFacts['conversation']> = {}): PullDetailFacts => ({
  number: 7,
  url: URL,
  title: 'Work',
  state: 'open',
  author: 'ada',
  baseBranch: 'main',
  headBranch: 'work',
  createdAt: T0,
  updatedAt: T0,
  body: '',
  draft: false,
  headSha: 'abc',
  additions: 0,
  deletions: 0,
  changedFiles: 0,
  conversation: { comments: [], reviews: [], threads: [], ...conversation },
  files: [],
  commits: [],
  checks: [],
})
const origin: PullBranches = { headRemote: 'bo/lamps', headBranch: 'fix', headSha: 'abc', baseBranch: 'next' }

function talk(conversation: Partial<PullDetailFacts['conversation']>, answered?: ReadonlySet<string>) {
  const found = readDiscussion(URL, detail(conversation), origin, answered)
  if (!found.ok) throw new Error(found.refusal.message)
  expect(createChecker(JobPull)(found.value.pull)).toMatchObject({ ok: true })
  return found.value
}
const bodies = (items: readonly { body: string }[]): string[] => items.map(({ body }) => body)
const madeIn = (minute: number): string =>
  createIds({ now: () => Date.parse(at(minute)) }, { bytes: (count) => new Uint8Array(count) }).followUp()
const summary = (began: number, ended: number, author = 'ada') =>
  comment(`Rebased.\n\n${followUpMarker(madeIn(began))}`, ended, author)

test('failed checks are remarks until they pass, whatever was answered', () => {
  const check = { name: 'lint', status: 'completed', source: 'check-run' } as const
  const readWith = (conclusion: string, answered = new Set<string>()) => {
    const facts = { ...detail(), checks: [{ ...check, conclusion, report: 'line 3: no semicolon' }] }
    const found = readDiscussion(URL, facts, origin, answered)
    if (!found.ok) throw new Error(found.refusal.message)
    expect(createChecker(JobPull)(found.value.pull)).toMatchObject({ ok: true })
    return found.value.pull
  }
  const [remark, ...others] = readWith('timed_out').comments
  expect([remark?.author, remark?.url, others]).toEqual(['check lint', URL, []])
  expect(remark?.body).toBe('The check failed for commit abc: timed_out.\n\nline 3: no semicolon')
  expect(readWith('timed_out', new Set(remarkKeys(readWith('timed_out')))).comments).toHaveLength(1)
  expect(readWith('success').comments).toEqual([])
})

describe('the branches and the sandbox', () => {
  test('the branches and the repository are those of the pull request, also for a fork', () => {
    expect(talk({}).pull).toEqual({
      number: 7,
      url: URL,
      headBranch: 'fix',
      headRemote: 'bo/lamps',
      baseBranch: 'next',
      threads: [],
      reviews: [],
      comments: [],
    })
  })

  test('without its repository the follow-up is refused', () => {
    expect(readDiscussion(URL, detail(), { ...origin, headRemote: undefined })).toMatchObject({
      refusal: { kind: 'gone' },
    })
  })

  const repos = {
    web: { remote: 'ada/lamps' },
    docs: { remote: 'Ada/Lamps', label: 'bug' },
    api: { remote: 'ada/api' },
  }

  test('the repository key is the ticket’s when several match, else the first', () => {
    expect(chooseRepoOfPull('ada/lamps', aTicket, repos)).toMatchObject({ value: { key: 'docs' } })
    expect(chooseRepoOfPull('ada/lamps', { ...aTicket, repo: 'api' }, repos)).toMatchObject({
      value: { key: 'web' },
    })
  })

  test('a missing mapping is refused with what to add', () => {
    expect(chooseRepoOfPull('ada/lamps', aTicket, { api: repos.api })).toMatchObject({
      refusal: { kind: 'invalid', message: expect.stringContaining('{"remote": "ada/lamps"}') },
    })
  })

  test('a run is shown with the repository of its job, and a queued one with what its ticket chooses', () => {
    const repoOf = (more: Partial<Run>): string | undefined =>
      withRepoOfRun(aRun({ ticket: { ...aTicket, labels: ['bug'] }, ...more }), repos).ticket.repo
    expect(repoOf({ status: 'completed', remote: 'ada/api' })).toBe('api')
    expect(repoOf({ status: 'running', remote: 'Ada/API' })).toBe('api')
    expect(repoOf({ status: 'queued', remote: 'ada/api' })).toBe('docs')
    expect(repoOf({ status: 'failed' })).toBe('docs')
    expect(repoOf({ status: 'failed', remote: 'ada/gone' })).toBe('docs')
    const pull = { remote: 'ada/api', number: 3, branch: 'sy/eng-1', confirmed: true }
    expect([repoOf({ status: 'completed', pull }), repoOf({ status: 'queued', pull })]).toEqual([
      'api',
      'api',
    ])
    const own = aRun({ ticket: { ...aTicket, repo: 'web' } })
    expect(withRepoOfRun(own, repos)).toBe(own)
  })

  test('the follow-up waits for its sandbox while it is retained', () => {
    const sandbox = { id: 'sb-1', workerId: 'wk-1', retainedUntil: at(5) }
    const now = Date.parse(at(4))
    expect(sandboxHolder({ sandbox }, now)).toBe('wk-1')
    expect(sandboxHolder({ sandbox }, Date.parse(at(5)))).toBeUndefined()
    expect(sandboxHolder({ sandbox: { workerId: 'wk-1', retainedUntil: at(5) } }, now)).toBeUndefined()
    expect(sandboxHolder({ sandbox: { id: 'sb-1', workerId: 'wk-1' } }, now)).toBeUndefined()
  })
})

test('follow-ups are numbered from 1, independently of the run’s own executions', () => {
  expect(nextFollowUpNumber([])).toBe(1)
  const costs = ['run', 'follow-up 1', 'attempt 2', 'follow-up 4', 'follow-up x'].map((label) =>
    aCost({ label }),
  )
  expect(nextFollowUpNumber(costs)).toBe(5)
})

test('an id reveals its creation time, another text does not', () => {
  expect(createdAtOf(madeIn(9))).toBe(at(9))
  for (const id of ['', 'fu-1', `fu-${'f'.repeat(32)}`, `fu-${'0'.repeat(32)}`])
    expect(createdAtOf(id)).toBeUndefined()
})

describe('new remarks', () => {
  test('unresolved threads, reviews with text, comments', () => {
    const { pull, omitted } = talk({
      threads: [thread([comment('here')]), thread([comment('done')], true)],
      reviews: [
        review('tidy it', 1, 'CHANGES_REQUESTED'),
        review(' ', 2, 'APPROVED'),
        review('not yet', 3, 'PENDING'),
        review('never mind', 4, 'DISMISSED'),
      ],
      comments: [comment('one', 1), comment('two', 2)],
    })
    expect(pull.threads.map(({ comments }) => bodies(comments))).toEqual([['here']])
    expect(bodies(pull.reviews)).toEqual(['tidy it'])
    expect(bodies(pull.comments)).toEqual(['one', 'two'])
    expect(omitted).toBe(0)
  })

  test('own comments are left out everywhere, quotations of them are not', () => {
    const ours = '<!-- switchyard:evidence run-1 -->'
    const { pull } = talk({
      threads: [thread([comment(`x\n${ours}`)]), thread([comment('theirs'), comment(ours)])],
      reviews: [review(ours, 1)],
      comments: [comment(`Left by the run:\n\n${ours}`, 1), comment(`> ${ours}\n\nwhat is this?`, 2)],
    })
    expect(pull.threads.map(({ comments }) => bodies(comments))).toEqual([['theirs']])
    expect(pull.reviews).toEqual([])
    expect(pull.comments).toMatchObject([{ createdAt: at(2) }])
  })

  test('remarks from before the last follow-up are left out; those from while it worked are included', () => {
    const { pull } = talk({
      reviews: [review('before', 1), review('meanwhile', 6)],
      comments: [comment('before', 2), comment('meanwhile', 7), summary(5, 9), comment('after', 10)],
    })
    expect(bodies(pull.reviews)).toEqual(['meanwhile'])
    expect(bodies(pull.comments)).toEqual(['meanwhile', 'after'])
  })

  test('with times in whole seconds, remarks of the first second are included', () => {
    const began = Date.parse(at(5)) + 400
    const id = createIds({ now: () => began }, { bytes: (count) => new Uint8Array(count) }).followUp()
    const { pull } = talk({
      reviews: [review('meanwhile', 5)],
      comments: [comment('meanwhile', 5), comment(`Rebased.\n\n${followUpMarker(id)}`, 9, 'ada')],
    })
    expect(bodies(pull.reviews)).toEqual(['meanwhile'])
    expect(bodies(pull.comments)).toEqual(['meanwhile'])
  })

  test('an unresolved thread is included until it is resolved', () => {
    const { pull } = talk({ threads: [thread([comment('old', 1)])], comments: [summary(5, 9)] })
    expect(pull.threads).toHaveLength(1)
  })

  test('a copied marker hides only the copier’s own remarks', () => {
    const { pull } = talk({ comments: [comment('please', 1), summary(5, 9, 'mallory')] })
    expect(bodies(pull.comments)).toEqual(['please'])
  })

  test('a marker with a future time counts from its comment’s time', () => {
    const { pull } = talk({ comments: [summary(500, 5), comment('after', 6)] })
    expect(bodies(pull.comments)).toEqual(['after'])
  })
})

describe('a remark that earlier follow-ups received, when this is known,', () => {
  const conversation = {
    comments: [comment('first', 1), comment('second', 2)],
    reviews: [review('tidy it', 1), review('and this', 3)],
  }

  test('is not included again, whatever its author writes', () => {
    const { pull } = talk(conversation)
    const received = new Set(remarkKeys(pull))
    expect(received.size).toBe(4)
    const again = talk(conversation, received)
    expect([again.pull.comments, again.pull.reviews]).toEqual([[], []])
    expect(new Set(again.answered)).toEqual(received)
    const marked = { comments: [...conversation.comments, summary(500, 6)] }
    expect(bodies(talk(marked, new Set()).pull.comments)).toEqual(['first', 'second'])
  })

  test('hides no other remark, however old, also not one with the id of a deleted remark', () => {
    const received = new Set(remarkKeys({ comments: [comment('first', 1)], reviews: [] }))
    const [first] = conversation.comments
    const reused = { ...comment('other', 5), id: first?.id ?? '' }
    const { pull, answered } = talk(
      { ...conversation, comments: [comment('older', 0), first ?? reused, reused] },
      received,
    )
    expect(bodies(pull.comments)).toEqual(['older', 'other'])
    expect(bodies(pull.reviews)).toEqual(['tidy it', 'and this'])
    expect(answered).toEqual([...received])
  })

  test('follows from the markers when it is not known', () => {
    const { pull, answered } = talk({ comments: [comment('old', 1), summary(2, 3), comment('new', 4)] })
    expect(bodies(pull.comments)).toEqual(['new'])
    expect(answered).toEqual(remarkKeys({ comments: [comment('old', 1)], reviews: [] }))
  })

  test('does not include remarks that did not fit', () => {
    const long = 'x'.repeat(1_000)
    const whole = talk({ comments: [comment(long, 1), comment(long, 2)] })
    const { pull } = trimDiscussion(whole, 1_500)
    const { comments } = talk(
      { comments: [comment(long, 1), comment(long, 2)] },
      new Set(remarkKeys(pull)),
    ).pull
    expect(comments.map(({ createdAt }) => createdAt)).toEqual([at(1)])
  })
})

describe('within a budget', () => {
  test('people’s remarks come before failed checks, which are always the newest', () => {
    const long = 'x'.repeat(1_000)
    const check = { name: 'lint', status: 'completed', source: 'check-run', conclusion: 'failure' } as const
    const facts = {
      ...detail({ comments: [comment('old', 1), comment(long, 2)], reviews: [review(long, 3)] }),
      updatedAt: at(9),
      checks: [
        { ...check, report: long },
        { ...check, name: 'types' },
      ],
    }
    const whole = readDiscussion(URL, facts, origin)
    if (!whole.ok) throw new Error(whole.refusal.message)
    const { pull, omitted } = trimDiscussion(whole.value, 3_400)
    expect([...bodies(pull.reviews), ...pull.comments.map(({ id }) => id)]).toEqual([
      long,
      'c-1-3',
      'c-2-1000',
      'check types',
    ])
    expect(omitted).toBe(1)
  })

  test('the newest remarks stay in their order, and the others are counted', () => {
    const long = 'x'.repeat(1_000)
    const comments = Array.from({ length: 10 }, (_, minute) => comment(`${minute}${long}`, minute))
    const { pull, omitted } = trimDiscussion(talk({ comments }), 4_000)
    expect(pull.comments.map(({ createdAt }) => createdAt)).toEqual([at(7), at(8), at(9)])
    expect(omitted).toBe(7)
    expect(trimDiscussion({ pull, omitted, answered: [] }, 2_000)).toMatchObject({ omitted: 9 })
  })

  test('a long remark is truncated and marked', () => {
    const [body = ''] = bodies(talk({ comments: [comment('ü'.repeat(PROSE_CHARS_MAX))] }).pull.comments)
    expect(body.length).toBe(16 * 1024)
    expect(body.endsWith('the rest is in the pull request.)')).toBe(true)
  })

  test('a long thread keeps its beginning and its end, a long hunk its end', () => {
    const comments = Array.from({ length: 300 }, (_, minute) =>
      comment(`${minute} ${'y'.repeat(1_000)}`, minute),
    )
    const { pull, omitted } = talk({
      threads: [{ ...thread(comments), diffHunk: `${'-'.repeat(9_000)}+end` }],
    })
    const kept = pull.threads[0]?.comments.map(({ createdAt }) => createdAt) ?? []
    expect([kept[0], kept.at(-1)]).toEqual([at(0), at(299)])
    expect(kept.length + omitted).toBe(300)
    expect(pull.threads[0]?.diffHunk).toMatch(/^-{4092}\+end$/)
  })

  const text = fc.string({ maxLength: 300, unit: 'binary' })
  const anything = fc.record({
    comments: fc.array(fc.tuple(text, fc.nat(99)), { maxLength: 60 }),
    reviews: fc.array(fc.tuple(text, fc.nat(99)), { maxLength: 20 }),
    threads: fc.array(fc.array(fc.tuple(text, fc.nat(99)), { maxLength: 9 }), { maxLength: 9 }),
    bytes: fc.nat(40_000),
  })

  test('any discussion fits, every lost remark is counted, and trimming again changes nothing', () => {
    fc.assert(
      fc.property(anything, ({ bytes, ...remarks }) => {
        const whole = readDiscussion(
          URL,
          detail({
            comments: remarks.comments.map(([body, minute]) => comment(body, minute)),
            reviews: remarks.reviews.map(([body, minute]) => review(body, minute)),
            threads: remarks.threads.map((all) => thread(all.map(([body, minute]) => comment(body, minute)))),
          }),
          origin,
        )
        if (!whole.ok) throw new Error(whole.refusal.message)
        const once = trimDiscussion(whole.value, bytes)
        const { threads, reviews, comments } = once.pull
        expect(Buffer.byteLength(JSON.stringify([...threads, ...reviews, ...comments]))).toBeLessThanOrEqual(
          bytes + 2,
        )
        const before = whole.value.pull
        const dropped = [
          before.threads.length - threads.length,
          before.reviews.length - reviews.length,
          before.comments.length - comments.length,
        ]
        expect(once.omitted).toBe(whole.value.omitted + dropped.reduce((a, b) => a + b))
        expect(trimDiscussion(once, bytes)).toEqual(once)
        expect(createChecker(JobPull)(once.pull)).toMatchObject({ ok: true })
      }),
      { numRuns: 100 },
    )
  })

  test('the number of remarks never exceeds the limit of a job', () => {
    const comments = Array.from({ length: FOLLOW_UP_ITEMS_MAX + 5 }, (_, n) => comment('', n))
    const { pull, omitted } = talk({ comments })
    expect([pull.comments.length, omitted]).toEqual([FOLLOW_UP_ITEMS_MAX, 5])
    expect(Buffer.byteLength(JSON.stringify(pull))).toBeLessThan(JOB_DISCUSSION_BYTES_MAX + 1_000)
  })
})
