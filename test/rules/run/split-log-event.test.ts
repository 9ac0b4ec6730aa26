/** Long log texts: split into events that fit, with nothing lost and no character torn. */
import { describe, expect, test } from '@jest/globals'
import { splitLogEvent } from '../../../core/run/log-budget.ts'
import { checkWorkerFrame } from '../../../protocol/frames.ts'
import { LOG_EVENT_BYTES_MAX } from '../../../protocol/limits.ts'
import type { ReportedEvent } from '../../../protocol/run.ts'
import { T0 } from './runs.ts'

const log = (text: string): ReportedEvent => ({ type: 'log', at: T0, stream: 'stderr', text })
const isWritable = (event: ReportedEvent): boolean =>
  checkWorkerFrame({ type: 'run-event', leaseId: 'ls-1', seq: 1, event }).ok

test.each([
  ['an empty text', log('')],
  ['a short text', log('hello')],
  ['a text that just fits', log('x'.repeat(LOG_EVENT_BYTES_MAX))],
  ['an event of another type', { type: 'limit', at: T0, provider: 'agentA', message: 'x' } as const],
])('%s is returned as it is', (_, event) => {
  const [only, ...more] = splitLogEvent(event)
  expect(only).toBe(event)
  expect(more).toEqual([])
})

describe('a long text keeps its stream and time, and is whole', () => {
  test.each([
    ['plain', 'x'.repeat(3 * LOG_EVENT_BYTES_MAX)],
    ['of one character too many', 'x'.repeat(LOG_EVENT_BYTES_MAX + 1)],
    ['of characters that JSON escapes', '\u0001'.repeat(LOG_EVENT_BYTES_MAX / 2)],
    ['of surrogate pairs', `x${'😀'.repeat(LOG_EVENT_BYTES_MAX)}`],
    ['of lines', 'a line of output\n'.repeat(40_000)],
  ])('%s', (_, text) => {
    const parts = splitLogEvent(log(text))
    expect(parts.length).toBeGreaterThan(1)
    for (const part of parts) {
      expect(part).toMatchObject({ type: 'log', at: T0, stream: 'stderr' })
      expect(isWritable(part)).toBe(true)
    }
    const texts = parts.map((part) => (part.type === 'log' ? part.text : ''))
    expect(texts.join('') === text).toBe(true)
    for (const part of texts) expect(part).not.toMatch(/^[\udc00-\udfff]|[\ud800-\udbff]$/)
  })
})
