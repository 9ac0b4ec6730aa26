/** Tests of the last step before sending: whatever goes in, the reader accepts what comes out. */
import { createHash } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { encodeFrame, fitFrame } from '../../../protocol/frame-budget.ts'
import {
  type HostFrame,
  readHostFrame,
  readWorkerFrame,
  type WorkerFrame,
  type WorkerFrameOf,
} from '../../../protocol/frames.ts'
import {
  FOLLOW_UP_ITEMS_MAX,
  LOG_EVENT_BYTES_MAX,
  LOG_TEXT_CHARS_MAX,
  PROSE_CHARS_MAX,
  RUN_ARTIFACTS_MAX,
  RUN_COSTS_MAX,
  RUN_MEMORIES_FACT_CHARS_MAX,
  RUN_MEMORIES_FACTS_MAX,
  TEXT_CHARS_MAX,
  USAGE_ENTRIES_MAX,
  USD_MAX,
  WORKER_FRAME_BYTES_MAX,
} from '../../../protocol/limits.ts'
import { parseJson } from '../../../protocol/parse.ts'
import { sanitizeJson } from '../../../protocol/safe-json.ts'
import { splitLog, textBytes, truncateToBytes, truncateToChars } from '../../../protocol/text-budget.ts'
import { type UsageEntry, usageText } from '../../../protocol/usage.ts'
import { at, costEntry, hostFrameExamples, job, leaseId, workerFrameExamples } from './examples.ts'

const CONTROL = '\u0001'
const MARK = '… [cut]'

function received(frame: WorkerFrame): WorkerFrame {
  const text = encodeFrame(frame)
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(WORKER_FRAME_BYTES_MAX)
  const read = readWorkerFrame(text, true)
  if (!read.ok) throw new Error(read.error)
  return read.value
}

function receivedByWorker(frame: HostFrame): HostFrame {
  const text = encodeFrame(frame)
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(WORKER_FRAME_BYTES_MAX)
  const read = readHostFrame(text)
  if (!read.ok) throw new Error(read.error)
  return read.value
}

const logFrame = (text: string): WorkerFrameOf<'run-event'> => ({
  type: 'run-event',
  leaseId,
  seq: 1,
  event: { at, type: 'log', stream: 'stdout', text },
})
const agentFrame = (message: Record<string, unknown>): WorkerFrameOf<'run-event'> => ({
  type: 'run-event',
  leaseId,
  seq: 1,
  event: { at, type: 'agent', provider: 'agentA', message },
})

describe('a valid frame stays unchanged', () => {
  const { register: _, ...frames } = workerFrameExamples
  test.each(Object.values<WorkerFrame>(frames))('$type', (frame) => {
    expect(fitFrame(frame)).toBe(frame)
    expect(encodeFrame(frame)).toBe(JSON.stringify(frame))
  })
  test.each(Object.values<HostFrame>(hostFrameExamples))('$type', (frame) => {
    expect(fitFrame(frame)).toBe(frame)
    expect(encodeFrame(frame)).toBe(JSON.stringify(frame))
  })
})

describe('too long', () => {
  test('a log of control characters with six bytes each', () => {
    const { event } = received(logFrame(CONTROL.repeat(LOG_TEXT_CHARS_MAX))) as WorkerFrameOf<'run-event'>
    expect(event).toMatchObject({ text: expect.stringMatching(/\[cut\]$/) })
    expect(JSON.stringify(event).length).toBeGreaterThan(0.99 * WORKER_FRAME_BYTES_MAX)
  })

  test('a log with more characters than the schema allows', () => {
    expect(received(logFrame('x'.repeat(LOG_TEXT_CHARS_MAX + 1)))).toMatchObject({
      event: { text: expect.stringMatching(/^x+… \[cut\]$/) },
    })
  })

  test('an agent message: its longest text is truncated, short texts stay', () => {
    const message = { role: 'assistant', content: [{ text: 'a'.repeat(3_000_000) }, { text: 'short' }] }
    const { event } = received(agentFrame(message)) as WorkerFrameOf<'run-event'>
    expect(event).toMatchObject({
      message: {
        role: 'assistant',
        content: [{ text: expect.stringMatching(/^a+… \[cut\]$/) }, { text: 'short' }],
      },
    })
  })

  test('an agent message of many small values', () => {
    const message = Object.fromEntries(
      Array.from({ length: 8_000 }, (_, i) => [`key ${i} ${'k'.repeat(200)}`, i]),
    )
    expect(received(agentFrame({ ...message, type: 'tool' }))).toMatchObject({
      event: { message: { type: 'tool', [MARK]: true } },
    })
  })

  test('a completion with everything at its limit', () => {
    const cost = {
      ...costEntry,
      breakdown: Array.from({ length: 100 }, () => ({
        ...costEntry.breakdown?.[0],
        model: 'm',
        inputTokens: 1,
        outputTokens: 1,
        cacheReadTokens: 1,
        cacheWriteTokens: 1,
      })),
    }
    const complete: WorkerFrameOf<'run-complete'> = {
      ...workerFrameExamples['run-complete'],
      outcome: {
        ...workerFrameExamples['run-complete'].outcome,
        result: {
          prUrl: 'https://code.example/1',
          summary: CONTROL.repeat(PROSE_CHARS_MAX),
          artifacts: Array.from({ length: RUN_ARTIFACTS_MAX }, (_, i) => `${i}${'ä'.repeat(120)}`),
        },
        error: 'e'.repeat(2 * TEXT_CHARS_MAX),
        costs: Array.from({ length: RUN_COSTS_MAX }, () => cost),
      },
    }
    const { outcome } = received(complete) as WorkerFrameOf<'run-complete'>
    expect(outcome.status).toBe(complete.outcome.status)
    expect(outcome.result?.prUrl).toBe('https://code.example/1')
    expect(outcome.error).toMatch(/… \[cut\]$/)
    expect(outcome.costs).toHaveLength(RUN_COSTS_MAX)
    expect(outcome.costs[0]).toEqual({ ...costEntry, breakdown: undefined })
  })

  test('more facts than a frame can hold', () => {
    const facts = Array.from({ length: RUN_MEMORIES_FACTS_MAX + 5 }, () =>
      CONTROL.repeat(RUN_MEMORIES_FACT_CHARS_MAX + 1),
    )
    const read = received({ ...workerFrameExamples['run-memories'], facts }) as WorkerFrameOf<'run-memories'>
    expect(read.facts.length).toBe(RUN_MEMORIES_FACTS_MAX)
  })

  test('a dispatch: prose is truncated, secrets and scripts are not', () => {
    const body = 'b'.repeat(PROSE_CHARS_MAX)
    const comment = { id: 'c', author: 'ada', body, createdAt: at, url: 'https://code.example/1' }
    const comments = Array.from({ length: 300 }, (_, i) => ({ ...comment, id: `c-${i}` }))
    const thread = {
      id: 't',
      resolved: false,
      path: 'a.ts',
      diffHunk: CONTROL.repeat(9_999),
      comments: comments.slice(0, 3),
    }
    const setup = `echo ${CONTROL.repeat(15_000)}`
    const login = JSON.stringify({ token: 's'.repeat(60_000) })
    const long: HostFrame = {
      ...hostFrameExamples.dispatch,
      job: {
        ...job,
        repo: { ...job.repo, setup },
        credentials: { agent: { kind: 'login', value: login } },
        run: { ...job.run, ticket: { ...job.run.ticket, description: 'd'.repeat(2 * PROSE_CHARS_MAX) } },
        pull: {
          number: 7,
          url: 'https://code.example/7',
          headBranch: 'b',
          headRemote: 'r',
          baseBranch: 'main',
          threads: Array.from({ length: FOLLOW_UP_ITEMS_MAX }, () => thread),
          reviews: [],
          comments,
        },
      },
    }
    const read = receivedByWorker(long)
    if (read.type !== 'dispatch') throw new Error('another frame')
    expect(read.job.repo.setup).toBe(setup)
    expect(read.job.credentials.agent?.value).toBe(login)
    expect(read.job.run.ticket.description).toMatch(/^d+… \[cut\]$/)
    expect(read.job.pull?.comments.at(-1)?.id).toBe('c-299')
    expect(read.job.pull?.threads.length).toBeGreaterThan(10)
  })

  test('any frame with oversized prose anywhere is accepted', () => {
    const texts = fc
      .constantFrom('x', CONTROL, '"', 'ä', '💡', '\ud800', '\n')
      .chain((unit) => fc.integer({ min: 0, max: 400_000 }).map((times) => unit.repeat(times)))
    const frames = [
      (text: string): WorkerFrame => logFrame(text),
      (text: string): WorkerFrame => agentFrame({ deep: { er: [text, text] } }),
      (text: string): WorkerFrame => ({ type: 'dispatch-rejected', leaseId, reason: text }),
      (text: string): WorkerFrame => ({ type: 'sandbox-failed', requestId: 'q', message: text }),
      (text: string): WorkerFrame => ({
        type: 'run-event',
        leaseId,
        seq: 1,
        event: { at, type: 'limit', provider: 'agentA', message: text },
      }),
      (text: string): WorkerFrame => ({
        type: 'run-event',
        leaseId,
        seq: 1,
        event: { at, type: 'status', to: 'running', reason: text },
      }),
      (text: string): WorkerFrame => ({
        type: 'run-complete',
        leaseId,
        seq: 1,
        outcome: { status: 'failed', error: text, costs: [], result: { summary: text, artifacts: [] } },
      }),
    ]
    fc.assert(
      fc.property(fc.constantFrom(...frames), texts, (make, text) => void received(make(text))),
      { numRuns: 30, seed: 20_261_121 },
    )
  })
})

describe('usage snapshots', () => {
  const entry = (i: number): UsageEntry => ({
    id: `msg_01${createHash('sha1').update(String(i)).digest('base64url').slice(0, 22)}`,
    at: new Date(1_772_000_000_000 + i * 7_919).toISOString(),
    model: i % 3 === 0 ? 'a-small-model-20260101' : 'a-large-model-20260101',
    inputTokens: i % 7,
    outputTokens: (i * 31) % 900,
    cacheReadTokens: (i * 977) % 190_000,
    cacheWriteTokens: (i * 13) % 9_000,
  })
  const snapshotOf = (entries: UsageEntry[]): WorkerFrameOf<'run-usage-snapshot'> => ({
    type: 'run-usage-snapshot',
    leaseId,
    seq: 4,
    snapshot: {
      projectKey: 'p',
      sessionId: 's',
      entries,
      sha256: createHash('sha256').update(usageText(entries)).digest('hex'),
    },
  })
  const sums = (entries: readonly UsageEntry[]) =>
    entries.reduce((sum, entry) => sum + entry.cacheReadTokens, 0)

  test('a snapshot that fits stays unchanged; a longer one is packed and unpacks to the same entries', () => {
    for (const count of [10, 4_000, 12_000, 17_000]) {
      const frame = snapshotOf(Array.from({ length: count }, (_, i) => entry(i)))
      expect(received(frame)).toEqual(frame)
      expect(encodeFrame(frame).includes('"packed"')).toBe(count > 4_000)
    }
  })

  test('partly known costs survive packing', () => {
    const frame = snapshotOf(
      Array.from({ length: 9_000 }, (_, i) => (i % 2 === 0 ? entry(i) : { ...entry(i), costUsd: i / 1000 })),
    )
    expect(received(frame)).toEqual(frame)
  })

  test('a snapshot that is too long when packed has its oldest entries merged, and loses no tokens', () => {
    const entries = Array.from({ length: USAGE_ENTRIES_MAX }, (_, i) => ({
      ...entry(i),
      id: createHash('sha512').update(String(i)).digest('hex').slice(0, 70),
    }))
    const read = received(snapshotOf(entries)) as WorkerFrameOf<'run-usage-snapshot'>
    expect(read.snapshot.entries.length).toBeLessThan(entries.length)
    expect(read.snapshot.entries.length).toBeGreaterThan(5_000)
    expect(read.snapshot.entries[0]?.id).toBe('merged-1')
    expect(read.snapshot.entries.at(-1)).toEqual(entries.at(-1))
    expect(sums(read.snapshot.entries)).toBe(sums(entries))
    expect(read.snapshot.sha256).toBe(
      createHash('sha256').update(usageText(read.snapshot.entries)).digest('hex'),
    )
  })

  test('the cost of merged entries stays within the schema', () => {
    const entries = Array.from({ length: USAGE_ENTRIES_MAX + 50 }, (_, i) => ({
      ...entry(i),
      costUsd: USD_MAX,
    }))
    const read = received(snapshotOf(entries)) as WorkerFrameOf<'run-usage-snapshot'>
    expect(read.snapshot.entries[0]?.costUsd).toBe(USD_MAX)
  })

  test('too many entries are merged too, repeated ones counted once', () => {
    const many = Array.from({ length: USAGE_ENTRIES_MAX + 50 }, (_, i) => ({ ...entry(i), id: `${i}` }))
    const read = received(snapshotOf([...many, ...many])) as WorkerFrameOf<'run-usage-snapshot'>
    expect(sums(read.snapshot.entries)).toBe(sums(many))
  })

  test('an invalid instant prevents packing', () => {
    const frame = snapshotOf([{ ...entry(1), at: '2026-02-31T00:00:00.000Z' }])
    expect(received(frame)).toEqual(frame)
  })
})

describe('a log in pieces', () => {
  const units = fc.constantFrom('x', CONTROL, '\n', 'ä', '💡', '\ud800', '"')
  test('each piece fits, together they are the text, and no character is split', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(units, fc.integer({ min: 1, max: 200_000 })), { maxLength: 6 }),
        (parts) => {
          const text = parts.map(([unit, times]) => unit.repeat(times)).join('')
          const pieces = splitLog(text)
          expect(pieces.join('')).toBe(text)
          for (const [i, piece] of pieces.entries()) {
            expect(textBytes(piece)).toBeLessThanOrEqual(LOG_EVENT_BYTES_MAX)
            const cutsPair = /[\ud800-\udbff]$/.test(piece) && /^[\udc00-\udfff]/.test(pieces[i + 1] ?? '')
            expect(cutsPair).toBe(false)
          }
        },
      ),
      { numRuns: 40, seed: 20_261_121 },
    )
  })

  test('lines stay whole where possible', () => {
    const line = `${'l'.repeat(999)}\n`
    const pieces = splitLog(line.repeat(1_000))
    expect(pieces.length).toBeGreaterThan(3)
    for (const piece of pieces) expect(piece.endsWith('\n')).toBe(true)
    expect(splitLog('')).toEqual([])
  })

  test('a truncated text has the given length, mark included', () => {
    fc.assert(
      fc.property(fc.array(units, { maxLength: 80 }), fc.integer({ min: 20, max: 200 }), (parts, max) => {
        const text = parts.join('')
        const bytes = truncateToBytes(text, max)
        expect(textBytes(bytes)).toBeLessThanOrEqual(max)
        expect(bytes === text || bytes.endsWith(MARK)).toBe(true)
        expect([...truncateToChars(text, max)].length).toBeLessThanOrEqual(max)
      }),
    )
  })
})

/** Values that JSON cannot express, so no agent can send them. */
const hasBigInt = (value: unknown): boolean =>
  typeof value === 'bigint' ||
  (typeof value === 'object' && value !== null && Object.values(value).some(hasBigInt))

describe('sanitized JSON', () => {
  test('any agent message is accepted by the JSON check and the host, inside any frame', () => {
    const keys = fc.constantFrom('a', '__proto__', 'constructor', 'prototype', '__proto___', '\ud800')
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 8, withCrossShrink: true },
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.double(),
          fc.constant(null),
          fc.bigInt(),
          fc.constant(undefined),
        ),
        fc.array(tie('tree'), { maxLength: 4 }),
        fc.array(fc.tuple(keys, tie('tree')), { maxLength: 4 }).map((pairs) => {
          const made = {}
          for (const [key, value] of pairs)
            Object.defineProperty(made, key, { value, enumerable: true, configurable: true, writable: true })
          return made
        }),
      ),
    }))
    fc.assert(
      fc.property(tree, (value) => {
        const text = JSON.stringify(sanitizeJson(value))
        expect(parseJson(text).ok).toBe(true)
        expect(text).not.toMatch(/\\\\ud[89a-f]/)
        received(agentFrame({ value: JSON.parse(text) }))
        if (!hasBigInt(value)) received(agentFrame({ value }))
      }),
      { numRuns: 300, seed: 20_261_121 },
    )
  })

  test('keys that reach into a prototype are renamed', () => {
    expect(
      sanitizeJson(JSON.parse('{"__proto__":1,"constructor":{"prototype":2},"constructor_":3}')),
    ).toEqual({
      __proto___: 1,
      constructor__: { prototype_: 2 },
      constructor_: 3,
    })
  })

  test('depth, keys and values are limited, and cycles end', () => {
    let deep: unknown = 'end'
    for (let i = 0; i < 10_000; i++) deep = i % 2 === 0 ? { deep } : [deep]
    expect(JSON.stringify(sanitizeJson(deep))).toContain(MARK)
    const wide = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, i]))
    const kept = Object(sanitizeJson(wide))
    expect(kept[MARK]).toBe(true)
    expect(parseJson(JSON.stringify({ event: kept })).ok).toBe(true)
    expect(Object(sanitizeJson(new Array(200_000).fill(0))).at(-1)).toBe(MARK)
    const circle: Record<string, unknown> = {}
    circle.again = [circle, circle]
    expect(parseJson(JSON.stringify(sanitizeJson(circle))).ok).toBe(true)
    const thrower = Object.defineProperty({}, 'x', {
      enumerable: true,
      get: () => {
        throw new Error('no')
      },
    })
    expect(sanitizeJson(thrower)).toBe(MARK)
  })
})
