/** Tests of how much memory the bodies of a run's requests take up together, over real connections. */
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { MODEL_API_BODY_BYTES_MAX } from '../../../../protocol/limits.ts'
import { BodyReader, MODEL_API_HELD_BYTES_MAX } from '../../../../worker/model-api/request-body.ts'

const MIB = 1024 * 1024
let bodies = new BodyReader()
const server = createServer((incoming, response) => {
  void bodies.read(incoming).then(
    () => response.end('held'),
    (error: Error) => response.end(error.message),
  )
})

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
beforeEach(() => {
  bodies = new BodyReader()
})
afterAll(() => void server.close())

async function send(bytes: Buffer, headers: Record<string, string> = {}): Promise<string> {
  const { port } = server.address() as AddressInfo
  const sent = request({ host: '127.0.0.1', port, method: 'POST', headers, agent: false }).end(bytes)
  const [response] = await once(sent, 'response')
  let text = ''
  for await (const piece of response) text += String(piece)
  return text
}

/** A JSON object of one long text. */
const bodyOf = (bytes: number): Buffer => Buffer.from(`{"a":"${'x'.repeat(bytes - 8)}"}`)

test('short bodies that unpack to long ones are unpacked one after another', async () => {
  const packed = gzipSync(bodyOf(MODEL_API_BODY_BYTES_MAX))
  const before = process.memoryUsage().arrayBuffers
  let peak = 0
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().arrayBuffers - before)
  }, 1)
  const answers = await Promise.all(
    Array.from({ length: 16 }, () => send(packed, { 'content-encoding': 'gzip' })),
  )
  clearInterval(watch)
  expect(answers.filter((answer) => answer === 'held')).toHaveLength(6)
  expect(peak).toBeLessThan(1.75 * MODEL_API_HELD_BYTES_MAX)
})

test('a body that comes as it is counts once', async () => {
  const body = bodyOf(20 * MIB)
  for (let count = 0; count < 6; count++) expect(await send(body)).toBe('held')
})
