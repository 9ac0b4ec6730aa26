/** A refused framing ends the connection: no byte behind the refused head is read as another request. */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { HTTP_BODY_BYTES_MAX } from '../../../protocol/limits.ts'
import { requestText } from '../../support/raw-client.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'

const AUTH = ['Host: localhost', `Authorization: Bearer ${TOKEN}`]
const HIDDEN = requestText(
  'PUT',
  '/api/settings',
  [...AUTH, 'Content-Type: application/json'],
  '{"patch":{}}',
)

/** Sends each piece as a segment of its own; returns everything received until the server closes, or for a while. */
async function exchange(
  port: number,
  pieces: readonly string[],
): Promise<{ text: string; isClosed: boolean }> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  closeAfterTest(() => socket.destroy())
  let text = ''
  const closed = new Promise<boolean>((resolve) => {
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(true))
    socket.on('end', () => resolve(true))
  })
  for (const piece of pieces) {
    socket.write(Buffer.from(piece, 'latin1'))
    await sleep(30)
  }
  const isClosed = await Promise.race([closed, sleep(500).then(() => false)])
  return { text, isClosed }
}

const head = (...headers: string[]) => requestText('PUT', '/api/settings', [...AUTH, ...headers])
const get = (...headers: string[]) => requestText('GET', '/api/health', [...AUTH, ...headers])
const foreign = (...headers: string[]) =>
  requestText('PUT', '/api/settings', ['Host: evil.example', ...headers])
const missing = (...headers: string[]) => requestText('PUT', '/api/none', [...AUTH, ...headers])
const upgrade = (...headers: string[]) =>
  requestText('GET', '/ws', [
    'Host: localhost',
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    ...headers,
  ])
const fit = `Content-Length: ${HIDDEN.length}`

const refused: readonly (readonly [string, string])[] = [
  ['two lengths, of which the first is zero', `${head('Content-Length: 0', fit)}${HIDDEN}`],
  ['two lengths', `${head('Content-Length: 2', fit)}{}${HIDDEN}`],
  ['two equal lengths', `${head('Content-Length: 2', 'Content-Length: 2')}{}${HIDDEN}`],
  ['a read with two lengths', `${get('Content-Length: 0', fit)}${HIDDEN}`],
  ['an unknown encoding', `${head('Transfer-Encoding: gzip')}0\r\n\r\n${HIDDEN}`],
  ['no encoding by name', `${head('Transfer-Encoding: identity')}0\r\n\r\n${HIDDEN}`],
  ['an empty encoding', `${head('Transfer-Encoding: ')}${HIDDEN}`],
  ['two encodings', `${head('Transfer-Encoding: gzip', 'Transfer-Encoding: chunked')}0\r\n\r\n${HIDDEN}`],
  ['a foreign host with two lengths', `${foreign('Content-Length: 0', fit)}${HIDDEN}`],
  ['a missing path with an unknown encoding', `${missing('Transfer-Encoding: x')}0\r\n\r\n${HIDDEN}`],
  ['an upgrade with two lengths', `${upgrade('Content-Length: 0', fit)}${HIDDEN}`],
  ['an upgrade with a body', `${upgrade('Transfer-Encoding: chunked')}0\r\n\r\n${HIDDEN}`],
  ['a hexadecimal length', `${head('Content-Length: 0x0')}${HIDDEN}`],
  ['a length with a sign', `${head('Content-Length: +0')}${HIDDEN}`],
  ['an empty length', `${head('Content-Length: ')}${HIDDEN}`],
  [
    'a length and an encoding',
    `${head('Content-Length: 0', 'Transfer-Encoding: chunked')}0\r\n\r\n${HIDDEN}`,
  ],
]

const statusesIn = (text: string): string[] => text.match(/HTTP\/1\.1 \d+/g) ?? []

test.each(refused)(
  '%s: one 400 with `Connection: close`, and nothing behind it is executed',
  async (_, text) => {
    const { port, hostApi } = await openTestServer()
    const border = text.indexOf('\r\n\r\n') + 4
    for (const pieces of [[text], [text.slice(0, border), text.slice(border)], [`${text}${HIDDEN}`]]) {
      const { text: received, isClosed } = await exchange(port, pieces)
      expect(statusesIn(received)).toEqual(['HTTP/1.1 400'])
      expect(received).toMatch(/^connection: close\r$/im)
      expect(isClosed).toBe(true)
    }
    expect(hostApi.patches).toEqual([])
  },
)

test('a request right behind a body that is too large is not executed', async () => {
  const { port, hostApi } = await openTestServer()
  const body = 'x'.repeat(HTTP_BODY_BYTES_MAX + 1)
  const { text } = await exchange(port, [
    `${head('Content-Type: application/json', `Content-Length: ${body.length}`)}${body}${HIDDEN}`,
  ])
  expect(statusesIn(text)).toEqual(['HTTP/1.1 413'])
  expect(text).toMatch(/^connection: close\r$/im)
  expect(hostApi.patches).toEqual([])
})

test('a well-framed request behind another one is executed', async () => {
  const { port, hostApi } = await openTestServer()
  const { text } = await exchange(port, [`${get()}${HIDDEN}`])
  expect(statusesIn(text)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200'])
  expect(hostApi.patches).toHaveLength(1)
})
