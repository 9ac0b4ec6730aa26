import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Deadlines } from '../../../actors/runtime/deadlines.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const DAY = 86_400_000

function wound() {
  const clock = new ManualClock()
  const start = clock.now()
  const fired: string[] = []
  const deadlines = new Deadlines<string>(clock, (key, name) =>
    fired.push(`${key}.${name}@${clock.now() - start}`),
  )
  return { clock, start, fired, deadlines }
}

describe('deadlines', () => {
  test('fire at their instant, in the order of their instants', async () => {
    const { clock, start, fired, deadlines } = wound()
    deadlines.set('b', 'x', start + 20)
    deadlines.set('a', 'x', start + 10)
    deadlines.set('c', 'x', start + 30)
    await clock.advance(25)
    expect(fired).toEqual(['a.x@10', 'b.x@20'])
  })

  test('overdue deadlines fire at once, oldest first', async () => {
    const { clock, start, fired, deadlines } = wound()
    deadlines.set('late', 'x', start - 1)
    deadlines.set('later', 'x', start - 5)
    await clock.advance(1)
    expect(fired.map((text) => text.split('@')[0])).toEqual(['later.x', 'late.x'])
  })

  test('setting a deadline again moves it, later or earlier', async () => {
    const { clock, start, fired, deadlines } = wound()
    deadlines.set('a', 'x', start + 10)
    deadlines.set('a', 'x', start + 50)
    deadlines.set('b', 'x', start + 40)
    deadlines.set('b', 'x', start + 5)
    await clock.advance(100)
    expect(fired).toEqual(['b.x@5', 'a.x@50'])
  })

  test('cancelled deadlines never fire', async () => {
    const { clock, start, fired, deadlines } = wound()
    deadlines.set('a', 'x', start + 10)
    deadlines.set('a', 'y', start + 10)
    deadlines.set('b', 'x', start + 10)
    deadlines.cancel('a', 'x')
    deadlines.cancelAll('b')
    await clock.advance(100)
    expect(fired).toEqual(['a.y@10'])
    expect(deadlines.size).toBe(0)
  })

  test('a deadline a month away does not overflow a timer', async () => {
    const { clock, start, fired, deadlines } = wound()
    deadlines.set('a', 'x', start + 30 * DAY)
    await clock.advance(29 * DAY)
    expect(fired).toEqual([])
    await clock.advance(2 * DAY)
    expect(fired).toEqual([`a.x@${30 * DAY}`])
  })

  test('when the wall clock jumps forward, overdue deadlines fire within a minute', async () => {
    const { clock, start, fired, deadlines } = wound()
    deadlines.set('a', 'x', start + DAY)
    clock.jumpWallClock(DAY)
    await clock.advance(60_000)
    expect(fired).toHaveLength(1)
  })

  test('any number of deadlines needs one timer only', () => {
    const { clock, start, deadlines } = wound()
    for (let i = 0; i < 1_000; i++) deadlines.set(`k${i}`, 'x', start + 1_000 - i)
    expect(clock.timers).toBe(1)
    deadlines.stop()
    expect(clock.timers).toBe(0)
  })

  test('cancelling many drops none that is due while the process could not run', async () => {
    const { clock, start, fired, deadlines } = wound()
    for (let i = 0; i < 60; i++) deadlines.set(`late${i}`, 'x', start + 10)
    clock.work(20)
    for (let i = 0; i < 80; i++) deadlines.set(`k${i}`, 'x', start + DAY)
    for (let i = 0; i < 80; i++) deadlines.cancel(`k${i}`, 'x')
    await clock.advance(1)
    expect(fired).toHaveLength(60)
    expect(deadlines.size).toBe(0)
  })

  test('behaves like a naive list over random orders of setting, moving, cancelling and waiting', async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('set' as const), key: fc.nat(6), in: fc.nat(200) }),
      fc.record({ do: fc.constant('cancel' as const), key: fc.nat(6) }),
      fc.record({ do: fc.constant('wait' as const), ms: fc.nat(60) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { clock, start, fired, deadlines } = wound()
        const naive = new Map<number, number>()
        const expected: string[] = []
        for (const step of steps) {
          const now = clock.now()
          if (step.do === 'set') {
            deadlines.set(String(step.key), 'x', now + step.in)
            naive.set(step.key, now + step.in)
          } else if (step.do === 'cancel') {
            deadlines.cancel(String(step.key), 'x')
            naive.delete(step.key)
          } else {
            await clock.advance(step.ms)
            const due = [...naive].filter(([, at]) => at <= clock.now()).sort((a, b) => a[1] - b[1])
            for (const [key, at] of due) {
              naive.delete(key)
              expected.push(`${key}@${at - start}`)
            }
          }
        }
        // Equal instants may come in either order: compare what fired when.
        expect(fired.map((text) => text.replace('.x', '')).sort()).toEqual(expected.sort())
        expect(deadlines.size).toBe(naive.size)
      }),
      { numRuns: 300 },
    )
  })
})
