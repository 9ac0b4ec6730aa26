/** Tests of whose remarks on a pull request a follow-up obeys. */
import { expect, test } from '@jest/globals'
import { selectOrders } from '../../../core/run/follow-up.ts'
import type { RepoMapping } from '../../../protocol/config.ts'
import { UNHEARD_NAMED_MAX } from '../../../protocol/limits.ts'
import type { PullComment, PullReview, PullThread } from '../../../protocol/pulls.ts'

const AT = '2026-11-23T10:00:00.000Z'
const by = (author: string, authorMayWrite?: boolean) => ({
  author,
  ...(authorMayWrite === undefined ? {} : { authorMayWrite }),
})
const comment = (author: string, mayWrite?: boolean): PullComment => ({
  id: `c-${author}`,
  ...by(author, mayWrite),
  body: 'Do it.',
  createdAt: AT,
  url: 'https://code.example/c',
})
const review = (author: string, mayWrite?: boolean): PullReview => ({
  id: `r-${author}`,
  ...by(author, mayWrite),
  state: 'CHANGES_REQUESTED',
  body: 'Do it.',
  submittedAt: AT,
})
const thread = (...comments: PullComment[]): PullThread => ({
  id: 't',
  resolved: false,
  path: 'a.ts',
  diffHunk: '',
  comments,
})

const conversation = {
  comments: [comment('ada', true), comment('mallory', false), comment('local')],
  reviews: [review('bo', true), review('Trudy', false)],
  threads: [thread(comment('mallory', false)), thread(comment('ada', true), comment('bot[bot]', false))],
}

test.each<[string, RepoMapping['orders'], string[], string[]]>([
  ['nothing', undefined, ['ada', 'local', 'bo', 'ada'], ['mallory', 'Trudy', 'bot[bot]']],
  ['writers', 'writers', ['ada', 'local', 'bo', 'ada'], ['mallory', 'Trudy', 'bot[bot]']],
  ['an empty list', [], ['ada', 'local', 'bo', 'ada'], ['mallory', 'Trudy', 'bot[bot]']],
  [
    'a list, in other letters',
    ['trudy', 'BOT[bot]'],
    ['ada', 'local', 'bo', 'Trudy', 'ada', 'bot[bot]'],
    ['mallory'],
  ],
])(
  'with %s configured, the remarks of the rest are left out and their authors named',
  (_, orders, obeyed, unheard) => {
    const { comments, reviews, threads, ...found } = selectOrders(conversation, orders)
    const authors = [...comments, ...reviews, ...threads.flatMap(({ comments: own }) => own)].map(
      ({ author }) => author,
    )
    expect([authors, found.unheard]).toEqual([obeyed, unheard])
    expect(threads.every(({ comments: left }) => left.length > 0)).toBe(true)
  },
)

test('a flood of strangers names a few of them', () => {
  const comments = Array.from({ length: 500 }, (_, at) => comment(`stranger-${at}`, false))
  expect(selectOrders({ comments, reviews: [], threads: [] }, undefined).unheard).toHaveLength(
    UNHEARD_NAMED_MAX,
  )
})
