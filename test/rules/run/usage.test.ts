/** Tests of the archived form of a usage snapshot, and of its name. */
import { createHash } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { usageHash, usageToArchive } from '../../../core/run/usage.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import type { UsageEntry } from '../../../protocol/usage.ts'
import { T0 } from './runs.ts'

const entry = (id: string, more: Partial<UsageEntry> = {}): UsageEntry => ({
  id,
  at: T0,
  model: 'large',
  inputTokens: 1,
  outputTokens: 2,
  cacheReadTokens: 3,
  cacheWriteTokens: 4,
  ...more,
})
const snapshot = (more: Partial<UsageSnapshot> = {}): UsageSnapshot => ({
  projectKey: '-home-me',
  sessionId: 's1',
  entries: [entry('a')],
  ...more,
})

test('the key and the compact text', () => {
  expect(usageToArchive(snapshot({ subagentId: 'x' }))).toEqual({
    ok: true,
    value: {
      key: { projectKey: '-home-me', sessionId: 's1', subagentId: 'x' },
      text: JSON.stringify({
        projectKey: '-home-me',
        sessionId: 's1',
        subagentId: 'x',
        entries: [entry('a')],
      }),
    },
  })
})

test('a repeated entry counts once, in its later form; undeclared fields are not written', () => {
  const chatty = { ...entry('b'), prompt: 'secret' }
  const answer = usageToArchive(snapshot({ entries: [entry('a'), chatty, entry('a', { costUsd: 1 })] }))
  expect(answer.ok && JSON.parse(answer.value.text).entries).toEqual([entry('a', { costUsd: 1 }), entry('b')])
})

test('a hash is that of the entries’ compact JSON, and must match', () => {
  const entries = [entry('a'), entry('a')]
  const sha256 = createHash('sha256').update(JSON.stringify(entries)).digest('hex')
  expect(usageHash(entries)).toBe(sha256)
  expect(usageToArchive(snapshot({ entries, sha256 })).ok).toBe(true)
  expect(usageToArchive(snapshot({ sha256 }))).toMatchObject({
    refusal: {
      kind: 'invalid',
      message: '/snapshot/sha256: is not the SHA-256 of the compact JSON of the entries',
    },
  })
})

test.each(['..', '.', '', '.hidden', 'a/b', 'a\\b', 'a\0', 'a\n', 's.json', 's.JSON', 'é', 'x'.repeat(201)])(
  'an unsafe part of the name: %j',
  (part) => {
    for (const key of ['projectKey', 'sessionId', 'subagentId']) {
      expect(usageToArchive(snapshot({ [key]: part }))).toMatchObject({
        refusal: { message: `/snapshot/${key}: is not safe as the name of a file` },
      })
    }
  },
)

test('an oversized snapshot is refused', () => {
  const entries = Array.from({ length: 20_000 }, (_, n) => entry(`${n}`.padStart(200, '-')))
  expect(usageToArchive(snapshot({ entries }))).toMatchObject({
    refusal: { message: expect.stringContaining('more than 4194304') },
  })
})
