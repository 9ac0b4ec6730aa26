/** The door to the web, against servers on loopback that do what servers do when things go wrong. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { realChance, realClock } from '../../../../bin/clock.ts'
import { createHttp, type Http, type HttpRequest } from '../../../../providers/http/http.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { until } from '../../../support/real-files.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})

type Deed = (reply: ServerResponse, asked: IncomingMessage) => void

/** Does the deeds in their order, the last one again and again. */
async function service(...deeds: readonly Deed[]) {
  const seen: string[] = []
  const lines = new Set<Socket>()
  const server = createServer((asked, reply) => {
    let body = ''
    asked.on('data', (part) => (body += part))
    asked.on('end', () => {
      seen.push(`${asked.method} ${asked.url} ${body}`.trim())
      deeds[Math.min(seen.length, deeds.length) - 1]?.(reply, asked)
    })
  })
  server.on('connection', (line) => {
    lines.add(line)
    line.on('close', () => lines.delete(line))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stop = () => {
    server.closeAllConnections()
    server.close()
  }
  open.push({ close: stop })
  return { seen, lines, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

function door(clock: ManualClock | typeof realClock = realClock): Http {
  const http = createHttp({ clock, random: realChance })
  open.unshift(http)
  return http
}
const to = (url: string, more: Partial<HttpRequest> = {}): HttpRequest => ({
  method: 'GET',
  url,
  headers: {},
  ...more,
})
const says =
  (status: number, headers: Record<string, string> = {}): Deed =>
  (reply) =>
    void reply.writeHead(status, headers).end('words')
const breaks: Deed = (reply) => void reply.socket?.destroy()

/** Winds the clock until it is answered; what happens on real lines takes its own time. */
async function answered<T>(clock: ManualClock, promise: Promise<T>): Promise<T> {
  let isDone = false
  void promise.finally(() => (isDone = true))
  await until('an answer', async () => {
    await clock.advance(200)
    return isDone
  })
  return promise
}

describe('what is sent more than once', () => {
  test.each<[HttpRequest['method'], string, Deed, number]>([
    ['GET', 'a broken line', breaks, 3],
    ['PUT', 'a broken line', breaks, 3],
    ['POST', 'a broken line', breaks, 1],
    ['PATCH', 'a broken line', breaks, 1],
    ['GET', 'an outage', says(503), 3],
    ['POST', 'an outage', says(503), 1],
    ['POST', 'too often', says(429), 3],
    ['POST', 'too often, with a time', says(403, { 'retry-after': '1' }), 3],
    ['POST', 'no for another reason', says(403), 1],
    ['GET', 'a longer pause than anybody waits for', says(429, { 'retry-after': '60' }), 1],
  ])('%s after %s', async (method, _what, deed, times) => {
    const clock = new ManualClock()
    const { seen, origin } = await service(deed)
    const body = method === 'GET' ? {} : { body: 'x=1' }
    await answered(clock, door(clock).send(to(`${origin}/a`, { method, ...body })))
    expect(seen).toEqual(Array(times).fill(`${method} /a${method === 'GET' ? '' : ' x=1'}`))
  })

  test.each([
    [1, 1],
    [2, 2],
    [99, 3],
    [0, 1],
  ])('allowed %s tries, it is sent %s times', async (tries, times) => {
    const clock = new ManualClock()
    const { seen, origin } = await service(says(503))
    expect(await answered(clock, door(clock).send(to(origin, { tries })))).toMatchObject({
      value: { status: 503 },
    })
    expect(seen).toHaveLength(times)
  })
})

describe('a reply that does not end', () => {
  test('is given up after its time, and its line is cut', async () => {
    const clock = new ManualClock()
    const { lines, origin, seen } = await service((reply) => void reply.writeHead(200).write('begun'))
    const asked = door(clock).send(to(`${origin}/path?secret=1`, { tries: 1 }))
    await until('the request', () => seen.length === 1)
    await clock.advance(29_999)
    expect(lines.size).toBe(1)
    await clock.advance(1)
    expect(await asked).toMatchObject({
      ok: false,
      refusal: { kind: 'failed', message: expect.stringMatching(/^127[^/?]* did not answer within 30 s/) },
    })
    await until('the line is cut', () => lines.size === 0)
  })

  test('is given up when there is too much of it, and its line is cut', async () => {
    const { lines, origin } = await service((reply) => {
      reply.on('error', () => {})
      const pour = () => {
        while (!reply.destroyed && reply.write(Buffer.alloc(1024 * 1024)));
      }
      reply.on('drain', pour)
      pour()
    })
    expect(await door().send(to(origin, { method: 'POST' }))).toMatchObject({
      refusal: { kind: 'failed', message: expect.stringMatching(/more than 16777216 bytes/) },
    })
    await until('the line is cut', () => lines.size === 0)
  })
})

describe('closing', () => {
  test('ends what is under way, what waits for its next try, and whoever comes', async () => {
    const clock = new ManualClock()
    const { origin, seen } = await service(says(503), () => {})
    const http = door(clock)
    const waits = http.send(to(`${origin}/waits`))
    await until('a pause', () => clock.timers === 1 && seen.length === 1)
    const hangs = http.send(to(`${origin}/hangs`))
    await until('both', () => seen.length === 2)
    await http.close()
    const stopping = {
      ok: false,
      refusal: { kind: 'unavailable', message: expect.stringMatching(/stopping/) },
    }
    expect(await Promise.all([waits, hangs, http.send(to(origin))])).toEqual([stopping, stopping, stopping])
    expect(seen).toHaveLength(2)
    expect(clock.timers).toBe(0)
  })
})

test('twenty-five and more are asked at the same time', async () => {
  const waiting: ServerResponse[] = []
  const { origin } = await service((reply) => void waiting.push(reply))
  const http = door()
  const all = Array.from({ length: 30 }, (_, at) => http.send(to(`${origin}/${at}`)))
  await until('all thirty', () => waiting.length === 30)
  for (const reply of waiting) reply.end('ok')
  expect((await Promise.all(all)).every(({ ok }) => ok)).toBe(true)
})

test('a credential that cannot be sent is refused without being shown', async () => {
  const { origin, seen } = await service(says(200))
  // Nor is it tried again: nobody winds this clock.
  const answer = await door(new ManualClock()).send(
    to(origin, { headers: { authorization: 'Bearer s3cret\r\nx: y' } }),
  )
  expect(answer).toMatchObject({
    refusal: { kind: 'invalid', message: expect.stringMatching(/enter the credential again/) },
  })
  expect(JSON.stringify(answer)).not.toContain('s3cret')
  expect(seen).toEqual([])
})
