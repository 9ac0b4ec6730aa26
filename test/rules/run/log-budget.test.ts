/** Tests of the budgets of a run: what may be stored, what one execution may use, and how a worker limits a log. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  describeLeftOut,
  executionLogBytes,
  executionOutputBytes,
  isOutput,
  LOG_IS_FULL,
  LOG_TAIL_BYTES_MAX,
  LOG_TAIL_EVENTS_MAX,
  LogLimiter,
  logBudget,
  logBytesMaxFor,
} from '../../../core/run/log-budget.ts'
import { configDefaults } from '../../../protocol/config.ts'
import type { ReportedEvent } from '../../../protocol/run.ts'
import { keepEnd, textBytes } from '../../../protocol/text-budget.ts'

const T0 = '2026-03-01T08:00:00.000Z'
const MIB = 1024 * 1024
const output = (text: string): ReportedEvent => ({ type: 'log', at: T0, stream: 'stdout', text })
const sentence: ReportedEvent = { type: 'log', at: T0, stream: 'system', text: 'said the service' }
const message: ReportedEvent = { type: 'agent', at: T0, provider: 'agentA', message: {} }
const record: ReportedEvent = { type: 'artifact', at: T0, name: 'a.txt', size: 1, contentType: 'text/plain' }

describe('the budget of a run', () => {
  test('has a default, and the far ends of its setting', () => {
    expect(logBudget(configDefaults)).toBe(64 * MIB)
    expect(logBudget({ ...configDefaults, sandbox: { ...configDefaults.sandbox, maxLogMib: 4096 } })).toBe(
      4096 * MIB,
    )
  })

  test('leaves a reserve for records, which output may not use', () => {
    for (const event of [output('x'), message]) {
      expect(isOutput(event)).toBe(true)
      expect(logBytesMaxFor(event, MIB)).toBe(MIB - MIB / 16)
      expect(logBytesMaxFor(event, 64 * MIB)).toBe(63 * MIB)
    }
    for (const event of [sentence, record]) expect(logBytesMaxFor(event, MIB)).toBe(MIB)
  })

  test('leaves something for every later execution', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: MIB, max: 4096 * MIB }),
        fc.integer({ min: 0, max: 8 }),
        (budget, runs) => {
          let stored = 0
          for (let run = 0; run < runs; run++) stored += executionLogBytes(budget, stored)
          expect(stored).toBeLessThanOrEqual(logBytesMaxFor(output('x'), budget))
        },
      ),
    )
    expect(executionLogBytes(64 * MIB, 0)).toBeGreaterThan(55 * MIB)
    expect(executionLogBytes(64 * MIB, 56 * MIB)).toBeGreaterThan(6 * MIB)
    expect(executionLogBytes(MIB, 2 * MIB)).toBe(0)
  })

  test('gives records first the part that an execution leaves to later ones', () => {
    expect(executionOutputBytes(7 * MIB, 0)).toBe(7 * MIB)
    expect(executionOutputBytes(7 * MIB, MIB)).toBe(7 * MIB)
    expect(executionOutputBytes(7 * MIB, MIB + 1)).toBe(7 * MIB - 1)
    expect(executionOutputBytes(7 * MIB, 9 * MIB)).toBe(0)
    expect(executionOutputBytes(0, 0)).toBe(0)
  })
})

/** Passes events through a limiter, and returns what reaches the host before the end and at the end. */
function limit(bytesMax: number, events: readonly ReportedEvent[]) {
  const limiter = new LogLimiter(bytesMax)
  const sent = events.flatMap((event) => limiter.add(event))
  return { sent, tail: limiter.end(T0) }
}
const bytesOf = (events: readonly ReportedEvent[]) =>
  events.reduce((sum, event) => sum + Buffer.byteLength(JSON.stringify(event)), 0)
const textsOf = (events: readonly ReportedEvent[]) =>
  events.map((event) => (event.type === 'log' ? event.text : event.type))
const numbered = (count: number, length = 0) =>
  Array.from({ length: count }, (_, i) => output(`${i}${'.'.repeat(length)}`))

describe('a log on the worker', () => {
  test('that fits is sent unchanged', () => {
    const events = [...numbered(20), message, record, sentence]
    expect(limit(MIB, events)).toEqual({ sent: events, tail: [] })
  })

  test('that does not fit keeps its head and its tail, and names the bytes between them', () => {
    const events = numbered(10_000, 200)
    const { sent, tail } = limit(MIB, events)
    const [notice, ...kept] = tail
    const head = sent.slice(0, -1)
    expect(head).toEqual(events.slice(0, head.length))
    expect(kept).toEqual(events.slice(-kept.length))
    expect(bytesOf([...sent, ...tail])).toBeLessThan(MIB)
    expect(bytesOf(head)).toBeGreaterThan(MIB / 3)
    expect(bytesOf(kept)).toBeGreaterThan(MIB / 10)
    const [overflow] = textsOf(sent.slice(-1))
    expect(overflow).toMatch(
      /^the log has reached \d+ bytes: from here on only its last 262144 bytes are kept/,
    )
    const [, bytes] =
      /^(\d+) bytes of the log are left out here/.exec(textsOf([notice as ReportedEvent])[0] ?? '') ?? []
    const missing = bytesOf(events) - bytesOf(head) - bytesOf(kept)
    expect(Number(bytes)).toBeGreaterThanOrEqual(missing)
    expect(Number(bytes)).toBeLessThan(missing * 2)
  })

  test('sends records at once, between what is held back', () => {
    const { sent } = limit(MIB, [...numbered(10_000, 200), record])
    expect(sent.at(-1)).toBe(record)
  })

  test('has a tail of limited bytes and events, however large its budget is', () => {
    const { tail } = limit(4096 * MIB, [])
    expect(tail).toEqual([])
    const many = limit(MIB / 2, numbered(50_000)).tail
    expect(many.length - 1).toBeLessThanOrEqual(LOG_TAIL_EVENTS_MAX)
    const large = limit(64 * MIB, numbered(1_000, 100_000)).tail
    expect(bytesOf(large)).toBeLessThan(LOG_TAIL_BYTES_MAX + 1024)
    expect(bytesOf(large)).toBeGreaterThan(LOG_TAIL_BYTES_MAX * 0.9)
  })

  test('keeps the end of a text that is larger than the whole tail', () => {
    const { sent, tail } = limit(64 * 1024, [output('a'.repeat(60_000)), output(`${'b'.repeat(60_000)}end`)])
    expect(textsOf(sent)).toHaveLength(1)
    expect(textsOf(tail).at(-1)).toMatch(/^b+end$/)
    expect(bytesOf(tail)).toBeLessThan(64 * 1024)
  })

  test('that may hold nothing keeps its records and names all output', () => {
    const { sent, tail } = limit(0, [record, output('gone'), message, sentence])
    expect(textsOf(sent)).toEqual(['artifact', LOG_IS_FULL, 'said the service'])
    expect(textsOf(tail)).toEqual([expect.stringMatching(/^\d+ bytes of the log are left out here/)])
  })

  test('whose first event exceeds the head says what is kept', () => {
    const { sent, tail } = limit(64 * 1024, [output(`${'b'.repeat(70_000)}end`)])
    expect(textsOf(sent)).toEqual([expect.stringContaining('only the last 16384 bytes are kept')])
    expect(textsOf(tail).at(-1)).toMatch(/^b+end$/)
  })

  test('loses no record, and no output that the host would keep, whatever is reported', () => {
    fc.assert(
      fc.property(
        fc.record({
          budget: fc.integer({ min: 20_000, max: 120_000 }),
          storedShare: fc.integer({ min: 0, max: 110 }),
          events: fc.array(anyEvent, { maxLength: 120 }),
        }),
        ({ budget, storedShare, events }) => {
          const before = Math.floor((budget * storedShare) / 100)
          const bytesMax = executionLogBytes(budget, before)
          const { sent, tail } = limit(bytesMax, events)
          const texts = textsOf([...sent, ...tail])
          expect(texts.filter((text) => /\b0 bytes/.test(text))).toEqual([])

          const records = events.filter((event) => !isOutput(event))
          expect([...sent, ...tail].filter((event) => records.includes(event))).toEqual(records)

          const leftOutByHost = storeOnHost(budget, before, [...sent, ...tail])
          expect(leftOutByHost.filter(isOutput)).toEqual([])

          const outputs = events.filter(isOutput)
          const kept = [...sent, ...tail].filter((event) => outputs.includes(event))
          const isWhole = kept.length === outputs.length
          expect(texts.some((text) => /^[1-9]\d* bytes of the log are left out/.test(text))).toBe(!isWhole)
          if (isWhole) return
          const outputMax = executionOutputBytes(bytesMax, weightOf(records) + NOTICES_BYTES_MAX)
          expect(weightOf(outputs)).toBeGreaterThan(
            outputMax - Math.max(...outputs.map((event) => weightOf([event]))),
          )
        },
      ),
    )
  })
})

/** Events of all kinds; few are large. */
const anyEvent = fc.oneof(
  fc.integer({ min: 0, max: 3_000 }).map((length) => output('ü'.repeat(length))),
  fc.integer({ min: 0, max: 200 }).map((length) => output('x'.repeat(length))),
  fc.integer({ min: 0, max: 4 }).map(() => ({ ...message })),
  fc.integer({ min: 0, max: 4 }).map(() => ({ ...record })),
  fc.integer({ min: 0, max: 4 }).map(() => ({ ...sentence })),
)
/** Two sentences of the limiter. */
const NOTICES_BYTES_MAX = 1_000
/** The size of events as the limiter counts them. */
const weightOf = (events: readonly ReportedEvent[]) => bytesOf(events) + 128 * events.length

/** Stores events as the host does. Returns what the host leaves out. */
function storeOnHost(budget: number, before: number, events: readonly ReportedEvent[]): ReportedEvent[] {
  let stored = before
  return events.filter((event, index) => {
    const line = JSON.stringify({ runId: 'r'.repeat(36), index: 1_000_000 + index, ...event })
    const bytes = Buffer.byteLength(line) + 1
    if (stored + bytes > logBytesMaxFor(event, budget)) return true
    stored += bytes
    return false
  })
}

test('the end of a text fits, and never begins inside a character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 0, max: 60 }), (text, bytesMax) => {
      const kept = keepEnd(text, bytesMax)
      expect(text.endsWith(kept)).toBe(true)
      expect(textBytes(kept)).toBeLessThanOrEqual(Math.max(0, bytesMax))
    }),
  )
  expect(keepEnd('abc', 2)).toBe('bc')
  expect(keepEnd('\u{1f600}', 3)).toBe('')
})

test('the sentence about what is missing', () => {
  expect(describeLeftOut(12)).toBe(
    '12 bytes of the log are left out here: the log was larger than sandbox.maxLogMib allows',
  )
})
