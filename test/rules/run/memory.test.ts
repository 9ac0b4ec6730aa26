/** Tests of the facts that runs record about a repository. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  forgetFact,
  keepFact,
  keepFactsOf,
  keptFacts,
  MEMORIES_PER_REPO_MAX,
  type MemoryAuthor,
  NEW_FACTS_PER_RUN_MAX,
  recordFacts,
  type StoredFact,
  shownFact,
} from '../../../core/run/memory.ts'
import { MEMORY_CHARS_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { RepoMemory } from '../../../protocol/run.ts'
import { T0, T1 } from './runs.ts'

let made = 0
const by = (now: string, ident = 'ENG-1', runId = `run of ${ident} at ${now}`): MemoryAuthor => ({
  runId,
  ident,
  now,
  newId: () => `mem-${++made}`,
})
const texts = (memories: readonly RepoMemory[]): string[] => memories.map(({ text }) => text)
const minute = (n: number): string => new Date(Date.parse(T0) + n * 60_000).toISOString()

test('a fact is one visible line of at most 500 characters', () => {
  const facts = ['  two\n\twords ', '', ' \u200b ', 'a\u0007\u202eb\u{e0041}', `${'x'.repeat(499)}😀`]
  expect(texts(recordFacts([], facts, by(T0)))).toEqual(['two words', 'ab', 'x'.repeat(499)])
})

test('a repeated fact raises hits once per run, updatedAt and ident; its wording stays', () => {
  const first = recordFacts([], ['Tests need a DATABASE.', 'Other'], by(T0))
  const again = recordFacts(first, ['tests  need a database. ', 'TESTS NEED A DATABASE.'], by(T1, 'ENG-2'))
  const [known, unrepeated] = first.map(shownFact)
  expect(again.map(shownFact)).toEqual([{ ...known, hits: 2, updatedAt: T1, ident: 'ENG-2' }, unrepeated])
  expect(first[0]?.hits).toBe(1)
})

test('a run that repeats a fact later counts once, also when it is resumed', () => {
  const first = recordFacts([], ['a'], by(T0, 'ENG-1', 'run-1'))
  const again = recordFacts(first, ['A'], by(T1, 'ENG-1', 'run-1'))
  expect(again.map(shownFact)).toEqual([{ ...first.map(shownFact)[0], updatedAt: T1 }])
})

test('a fact names the ticket that recorded it last, also when its run counts already', () => {
  const first = recordFacts([], ['a'], by(T0, 'ENG-1', 'run-1'))
  const second = recordFacts(first, ['a'], by(T0, 'ENG-2', 'run-2'))
  const again = recordFacts(second, ['a'], by(T1, 'ENG-1', 'run-1'))
  expect(again).toMatchObject([{ hits: 2, ident: 'ENG-1' }])
})

test('other runs are told of a fact once a run that recorded it is merged, or a person keeps it', () => {
  const old: StoredFact = { id: 'mem-old', text: 'old', createdAt: T0, updatedAt: T0, hits: 1 }
  const first = recordFacts([old], ['a', 'b', 'c'], by(T0, 'ENG-1', 'run-1'))
  const both = recordFacts(first, ['a'], by(T1, 'ENG-2', 'run-2'))
  expect(texts(keptFacts(both))).toEqual(['old'])
  expect(keepFactsOf(both, 'run-3')).toBeUndefined()
  const merged = keepFactsOf(both, 'run-2') ?? []
  expect(texts(keptFacts(merged))).toEqual(['a', 'old'])
  expect(keepFactsOf(merged, 'run-2')).toBeUndefined()
  const b = merged.find(({ text }) => text === 'b')?.id ?? ''
  const kept = keepFact(merged, b)
  expect(kept.ok && texts(keptFacts(kept.value))).toEqual(['a', 'b', 'old'])
  expect(keepFact(merged, 'mem-none')).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
})

test('of the facts that one run adds the first ten count', () => {
  const invented = Array.from({ length: 52 }, (_, n) => `fact ${n}`)
  const run = by(T0, 'ENG-1', 'run-1')
  const first = recordFacts([], ['known'], by(T0, 'ENG-0'))
  const once = recordFacts(first, [...invented.slice(0, 4), 'known'], run)
  const twice = recordFacts(once, invented, run)
  expect(new Set(texts(twice))).toEqual(new Set(['known', ...invented.slice(0, NEW_FACTS_PER_RUN_MAX)]))
})

test('a full memory keeps what people kept', () => {
  const kept = Array.from({ length: MEMORIES_PER_REPO_MAX }, (_, n): StoredFact => {
    const at = minute(n)
    return { id: `kept-${n}`, text: `fact ${n}`, createdAt: at, updatedAt: at, hits: 1, state: 'kept' }
  })
  const added = recordFacts(kept, ['x', 'y'], by(minute(1000), 'ENG-1', 'run-1'))
  const seen = ['ENG-2', 'ENG-3'].reduce(
    (all, ident) => recordFacts(all, ['x'], by(minute(1001), ident)),
    added,
  )
  const next = recordFacts(seen, ['z'], by(minute(1002), 'ENG-4'))
  expect(next).toHaveLength(MEMORIES_PER_REPO_MAX)
  expect(next.filter(({ state }) => state === 'kept')).toHaveLength(MEMORIES_PER_REPO_MAX - 2)
  expect(texts(next)).toEqual(expect.arrayContaining(['z', 'x']))
  expect(texts(next)).not.toContain('y')
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
        expect(check(shownFact(memory)).ok).toBe(true)
        expect(memory.text.length).toBeLessThanOrEqual(MEMORY_CHARS_MAX)
        expect(memory.text).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}]/u)
        expect(memory.hits).toBeLessThanOrEqual(runs.length)
      }
      expect(new Set(texts(memories).map((text) => text.toLowerCase())).size).toBe(memories.length)
      const instants = memories.map(({ updatedAt }) => updatedAt)
      expect(instants).toEqual(instants.toSorted().reverse())
      const again = recordFacts(memories, texts(memories), by(minute(99), 'ENG-9'))
      expect(again.map(shownFact)).toEqual(
        memories.map((memory) => ({
          ...shownFact(memory),
          hits: memory.hits + 1,
          updatedAt: minute(99),
          ident: 'ENG-9',
        })),
      )
    }),
  )
})
