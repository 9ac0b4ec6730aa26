/** Services that limit by the minute and report it only by rejecting requests. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Urgency } from '../../../../core/ports/code-host.ts'
import { createClientBench, paths, sendTracked, serviceRequest } from './client-fixture.ts'

/** Ten points: five for background requests, eight for people; a write costs two. */
const tight = () =>
  createClientBench({
    concurrencyMax: 100,
    writeIntervalMs: 0,
    minuteQuota: () => ({ points: 10, read: 1, write: 2 }),
  })
const person = (path: string) => serviceRequest(path, 'person')
const kept = (path: string) => serviceRequest(path, 'person', { cached: true })
const named = (name: string, count: number) => Array.from({ length: count }, (_, n) => `/${name}${n}`)

describe('requests within a minute', () => {
  test('background requests are spread over minutes, and people may use more points', async () => {
    const { clock, client, sent } = tight()
    for (const path of named('b', 7)) sendTracked(client, serviceRequest(path))
    await clock.settle()
    expect(paths(sent)).toEqual(named('b', 5))
    for (const path of named('p', 3)) sendTracked(client, person(path))
    await clock.advance(50_000)
    expect(paths(sent).slice(5)).toEqual(named('p', 3))
    await clock.advance(10_000)
    expect(paths(sent).slice(8)).toEqual(['/b5', '/b6'])
  })

  test('a person’s request waits a while, or is refused when the wait would be long', async () => {
    const { clock, client, sent } = tight()
    for (const path of named('p', 8)) sendTracked(client, person(path))
    await clock.settle()
    const early = sendTracked(client, person('/early'))
    await clock.advance(45_000)
    expect(early.now).toMatch(/for this minute .* 2026-01-01 00:01:00 UTC$/)
    const late = sendTracked(client, person('/late'))
    await clock.advance(15_000)
    expect(paths(sent).slice(8)).toEqual(['/late'])
    await sent.at(-1)?.reply(200)
    expect(late.now).toBe('200')
  })

  test('writes cost more points, and each resource is counted separately', async () => {
    const { clock, client, sent } = tight()
    for (const path of named('w', 5)) sendTracked(client, serviceRequest(path, 'person', { method: 'POST' }))
    sendTracked(client, person('/search'))
    await clock.settle()
    expect(paths(sent)).toEqual([...named('w', 4), '/search'])
  })

  test('a fresh cached reply is returned without a request, unless a write or a minute came in between', async () => {
    const { clock, client, sent } = tight()
    const first = sendTracked(client, kept('/list'))
    await clock.settle()
    await sent[0]?.reply(200, { etag: '"1"' }, 'as it was')
    for (const path of named('p', 7)) sendTracked(client, person(path))
    const again = sendTracked(client, kept('/list'))
    await clock.settle()
    expect([first.now, again.now, sent.length]).toEqual(['200 as it was', '200 as it was', 8])
    await clock.advance(59_999)
    const last = sendTracked(client, kept('/list'))
    await clock.advance(1)
    expect([last.now, sent.length]).toEqual(['200 as it was', 8])
    sendTracked(client, kept('/list'))
    await clock.settle()
    expect(paths(sent).slice(8)).toEqual(['/list'])
  })

  test('after a write the old reply is not returned', async () => {
    const { clock, client, sent } = tight()
    sendTracked(client, kept('/list'))
    await clock.settle()
    await sent[0]?.reply(200, { etag: '"1"' }, 'as it was')
    sendTracked(client, serviceRequest('/change', 'person', { method: 'POST' }))
    for (const path of named('p', 5)) sendTracked(client, person(path))
    await clock.settle()
    expect(sent).toHaveLength(7)
    const again = sendTracked(client, kept('/list'))
    await clock.settle()
    expect([again.now, sent.length]).toEqual([expect.stringContaining('for this minute'), 7])
  })

  test('a reply that is gone is not returned', async () => {
    const { clock, client, sent } = tight()
    sendTracked(client, kept('/list'))
    await clock.settle()
    await sent[0]?.reply(200, { etag: '"1"' }, 'as it was')
    sendTracked(client, kept('/list'))
    await clock.settle()
    await sent[1]?.reply(404)
    for (const path of named('p', 6)) sendTracked(client, person(path))
    const again = sendTracked(client, kept('/list'))
    await clock.settle()
    expect(again.now).toContain('for this minute')
  })
})

const step = fc.record({
  urgency: fc.constantFrom<Urgency>('person', 'background'),
  writes: fc.boolean(),
  passMs: fc.constantFrom(0, 0, 0, 1, 5_000, 19_000, 60_000),
})

test('in every order of requests no minute exceeds the quota, and every request is answered', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const { clock, client, sent } = tight()
      const asked: { readonly now: string }[] = []
      for (const [n, { urgency, writes, passMs }] of steps.entries()) {
        const path = `/${urgency}/${writes ? 2 : 1}/${n}`
        asked.push(sendTracked(client, serviceRequest(path, urgency, { method: writes ? 'POST' : 'GET' })))
        await clock.advance(passMs)
      }
      // Background requests are spread over as many minutes as needed.
      for (let minutes = 0; minutes <= steps.length; minutes++) await clock.advance(60_000)
      for (const request of sent) await request.reply(200)
      expect(asked.filter(({ now }) => now === 'waits')).toEqual([])
      for (const [index, { at, path }] of sent.entries()) {
        const minute = sent.slice(0, index + 1).filter((earlier) => at - earlier.at < 60_000)
        const points = minute.reduce((sum, request) => sum + Number(request.path.split('/')[2]), 0)
        expect(points).toBeLessThanOrEqual(path.startsWith('/person') ? 8 : 5)
      }
    }),
    { numRuns: 150 },
  )
})

test('a service without a quota per minute is not limited by it', async () => {
  const { clock, client, sent } = createClientBench({ concurrencyMax: 1_000 })
  for (const path of named('p', 500)) sendTracked(client, person(path))
  await clock.settle()
  expect(sent).toHaveLength(500)
})
