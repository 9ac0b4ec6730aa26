/** Tests that listeners accept any input in any order, and lose none of it. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createLineReader } from '../../../../core/line-reader.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { ReportedEvent } from '../../../../protocol/run.ts'
import type { AgentObservation } from '../../../../worker/agents/agent.ts'
import { AT, listeners, sample, taskOf } from './recorded-events.ts'

const kinds = ['claude', 'codex', 'gemini'] as const
const samples = {
  claude: ['claude-subagent', 'claude-usage-limit-oauth', 'claude-sigint', 'claude-resume-unknown'],
  codex: ['codex-tool-use', 'codex-usage-limit', 'codex-401'],
  gemini: ['gemini-tool-use', 'gemini-quota', 'gemini-bad-key'],
}

const checkEvent = createChecker(ReportedEvent)

function checkObservations(observations: readonly AgentObservation[]): void {
  for (const observation of observations) {
    if (observation.is === 'event') expect(checkEvent(observation.event)).toMatchObject({ ok: true })
    if (observation.is === 'session') expect(observation.id).toMatch(/^[A-Za-z0-9_-]{1,128}$/)
    if (observation.is === 'spent')
      expect([observation.turns, observation.costUsd ?? 0].every((n) => n >= 0 && Number.isFinite(n))).toBe(
        true,
      )
  }
}

/** The content of a line that must be reported: its object as an event, or its characters as log text. */
const textOf = (observations: readonly AgentObservation[]): string =>
  observations
    .flatMap((observation) =>
      observation.is === 'event' && observation.event.type === 'log' ? [observation.event.text] : [],
    )
    .join('')

const anything = fc
  .anything({ withNullPrototype: false, maxDepth: 4 })
  .map((value) => JSON.stringify(value) ?? '')

const TYPES = [
  'assistant',
  'result',
  'system',
  'rate_limit_event',
  'item.completed',
  'turn.completed',
  'turn.failed',
  'message',
  'tool_use',
  'init',
  'nobody knows',
]
const FIELDS = [
  'message',
  'usage',
  'item',
  'error',
  'stats',
  'model',
  'session_id',
  'subtype',
  'content',
  'modelUsage',
  'model_usage_since_last_result',
  'is_error',
  'errors',
  'result',
  'rate_limit_info',
  'status',
  'resetsAt',
  'text',
  'role',
  'models',
  'parent_tool_use_id',
  '__proto__',
  'total_cost_usd',
]

/** Objects that resemble the agent's, with wrong values, and `type` at any position. */
const lookalike = fc
  .tuple(
    fc.dictionary(
      fc.constantFrom(...FIELDS),
      fc.oneof(fc.anything({ maxDepth: 3 }), fc.constantFrom(1e308, -1, 2 ** 60, 'x', [])),
    ),
    fc.constantFrom(...TYPES),
  )
  .map(([fields, type]) => JSON.stringify({ ...fields, type }))

describe.each(kinds)('any output of %s', (kind) => {
  const line = fc.oneof(
    anything,
    lookalike,
    fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\n', ' ')),
    fc.constantFrom(...samples[kind].flatMap(sample)),
    fc.constantFrom(...samples[kind].flatMap(sample)).map((text) => text.slice(0, text.length / 2)),
  )

  test('is reported line by line, within the limits of events', () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 30 }), fc.integer({ min: 0, max: 255 }), (lines, code) => {
        const listener = listeners[kind](taskOf())
        for (const text of lines) {
          const observations = listener.onOutputLine(text, AT)
          checkObservations(observations)
          const object = objectOf(text)
          const agents = observations.filter(
            (observation) => observation.is === 'event' && observation.event.type === 'agent',
          )
          expect(agents).toHaveLength(object === undefined ? 0 : 1)
          if (object === undefined && /\S/.test(text)) expect(observations.length).toBeGreaterThan(0)
        }
        const ending = listener.onExit({ code }, AT)
        checkObservations(ending.events.map((event) => ({ is: 'event', event })))
        if (ending.cost !== undefined) {
          expect(checkEvent({ type: 'cost', at: AT, entry: ending.cost })).toMatchObject({ ok: true })
        }
        expect(ending.reason === undefined).toBe(ending.verdict === 'done')
        expect(`${ending.reason}`).not.toMatch(/\n/)
      }),
      { numRuns: 200 },
    )
  })

  test('gives the same result however its bytes are split', () => {
    const stream = Buffer.from(`${samples[kind].flatMap(sample).join('\n')}\nplain\n`)
    const listenTo = (chunks: readonly Uint8Array[]) => {
      const reader = createLineReader()
      const listener = listeners[kind](taskOf())
      const lines = [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.flush()]
      return {
        observations: lines.flatMap((text) => listener.onOutputLine(text, AT)),
        ending: listener.onExit({ code: 0 }, AT),
      }
    }
    const whole = listenTo([stream])
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5_000 }), (size) => {
        const chunks = []
        for (let at = 0; at < stream.length; at += size) chunks.push(stream.subarray(at, at + size))
        expect(listenTo(chunks)).toEqual(whole)
      }),
      { numRuns: 25 },
    )
  })

  test('that is garbage is reported with every visible character', () => {
    const visible = fc
      .string({ unit: 'grapheme', minLength: 1 })
      .filter((text) => /\S/.test(text) && !text.includes('\n') && objectOf(text) === undefined)
    fc.assert(
      fc.property(visible, (text) => {
        expect(textOf(listeners[kind](taskOf()).onOutputLine(text, AT))).toBe(text)
        expect(textOf(listeners[kind](taskOf()).onErrorLine(text, AT))).toBe(text)
      }),
    )
  })

  test('with megabytes in one line is split into events that fit', () => {
    const text = 'x\u00e9'.repeat(500_000)
    const observations = listeners[kind](taskOf()).onOutputLine(text, AT)
    checkObservations(observations)
    expect(textOf(observations)).toBe(text)
  })
})

function objectOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}
