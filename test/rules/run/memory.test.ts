/** Tests of the facts that runs record about a repository. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { forgetFact, type MemoryAuthor, recordFacts } from '../../../core/run/memory.ts'
import { MEMORIES_PER_REPO_MAX, MEMORY_CHARS_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { RepoMemory } from '../../../protocol/run.ts'
import { T0, T1 } from './runs.ts'

let made = 0
const by = (now: string, ident = 'ENG-1'): MemoryAuthor => ({ ident, now, newId: () => `mem-${++made}` })
const texts = (memories: readonly RepoMemory[]): string[] => memories.map(({ text }) => text)
const minute = (n: number): string => new Date(Date.parse(T0) + n * 60_000).toISOString()

test('a fact is one visible line of at most 500 characters', () => {
  const facts = ['  two\n\twords ', '', ' \u200b ', 'a\u0007\u202eb\u{e0041}', `${'x'.repeat(499)}😀`]
  expect(texts(recordFacts([], facts, by(T0)))).toEqual(['two words', 'ab', 'x'.repeat(499)])
})

test('a repeated fact raises hits once per run, updatedAt and ident; its wording stays', () => {
  const first = recordFacts([], ['Tests need a DATABASE.', 'Other'], by(T0))
  const again = recordFacts(first, ['tests  need a database. ', 'TESTS NEED A DATABASE.'], by(T1, 'ENG-2'))
  expect(again).toEqual([{ ...first[0], hits: 2, updatedAt: T1, ident: 'ENG-2' }, first[1]])
  expect(first[0]?.hits).toBe(1)
})

test('newest first', () => {
  const memories = ['a', 'b', 'c'].reduce<RepoMemory[]>(
    (known, fact, n) => recordFacts(known, [fact], by(minute(n))),
    [],
  )
  expect(texts(memories)).toEqual(['c', 'b', 'a'])
  expect(texts(recordFacts(memories, ['a'], by(minute(9))))).toEqual(['a', 'c', 'b'])
})

test('a full memory drops facts with the fewest hits, the oldest first, and still accepts new ones', () => {
  const facts = Array.from({ length: MEMORIES_PER_REPO_MAX }, (_, n) => `fact ${n}`)
  const once = facts.reduce<RepoMemory[]>((known, fact, n) => recordFacts(known, [fact], by(minute(n))), [])
  const twice = recordFacts(once, facts.slice(0, -2), by(minute(1000)))
  const learnt = recordFacts(twice, ['new'], by(minute(1001)))
  expect(learnt).toHaveLength(MEMORIES_PER_REPO_MAX)
  expect(texts(learnt)).toContain('new')
  expect(texts(learnt)).toContain('fact 499')
  expect(texts(learnt)).not.toContain('fact 498')
})

test('forgetting', () => {
  const memories = recordFacts([], ['a', 'b'], by(T0))
  expect(forgetFact(memories, memories[0]?.id ?? '')).toEqual({ ok: true, value: memories.slice(1) })
  expect(forgetFact(memories, 'mem-none')).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
})

const check = createChecker(RepoMemory)
const anyFact = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 30 }),
  fc.constantFrom('A b', 'a  B', 'a b ', 'c'),
)

test('any facts: well-formed, distinct, sorted, limited; repeating them only raises hits', () => {
  fc.assert(
    fc.property(fc.array(fc.array(anyFact, { maxLength: 6 }), { maxLength: 6 }), (runs) => {
      const memories = runs.reduce<RepoMemory[]>(
        (known, facts, n) => recordFacts(known, facts, by(minute(n))),
        [],
      )
      for (const memory of memories) {
        expect(check(memory).ok).toBe(true)
        expect(memory.text.length).toBeLessThanOrEqual(MEMORY_CHARS_MAX)
        expect(memory.text).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}]/u)
        expect(memory.hits).toBeLessThanOrEqual(runs.length)
      }
      expect(new Set(texts(memories).map((text) => text.toLowerCase())).size).toBe(memories.length)
      const instants = memories.map(({ updatedAt }) => updatedAt)
      expect(instants).toEqual(instants.toSorted().reverse())
      const again = recordFacts(memories, texts(memories), by(minute(99), 'ENG-9'))
      expect(again).toEqual(
        memories.map((memory) => ({
          ...memory,
          hits: memory.hits + 1,
          updatedAt: minute(99),
          ident: 'ENG-9',
        })),
      )
    }),
  )
})
