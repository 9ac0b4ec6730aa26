/** Request bodies: kept for routes that read them, and only counted for all others. */

import { expect, test } from '@jest/globals'
import { HTTP_BODY_BYTES_MAX } from '../../../protocol/limits.ts'
import { type Body, type BodyUse, readBody } from '../../../transport/body.ts'
import { Exchange } from '../../../transport/exchange.ts'
import type { ListenerResponse } from '../../../transport/listener-port.ts'
import type { RequestHead } from '../../../transport/request-head.ts'
import { createSettableClock } from '../../support/test-resources.ts'

const PIECE = 64 * 1024

/** A response of the library that hands out chunks, and counts how many are copied. */
function reading(use: BodyUse, contentLength = '') {
  let give = (_piece: ArrayBuffer, _isLast: boolean): void => {}
  const response: ListenerResponse = Object({
    onAborted: () => response,
    onData: (handler: typeof give) => {
      give = handler
      return response
    },
  })
  const head: RequestHead = Object({ contentLength })
  const bodies: Body[] = []
  let copies = 0
  readBody(response, head, use, createSettableClock(), new Exchange(response, undefined), (body) =>
    bodies.push(body),
  )
  const send = (isLast: boolean): void => {
    const piece = new ArrayBuffer(PIECE)
    piece.slice = (from, to) => {
      copies += 1
      return ArrayBuffer.prototype.slice.call(piece, from, to)
    }
    give(piece, isLast)
  }
  return { bodies, send, copies: () => copies }
}

test('a body that no route reads is awaited and not kept', () => {
  const { bodies, send, copies } = reading('counted')
  for (let sent = PIECE; sent < HTTP_BODY_BYTES_MAX; sent += PIECE) send(false)
  expect(bodies).toEqual([])
  send(true)
  expect(bodies).toEqual([{ is: 'whole', bytes: Buffer.alloc(0) }])
  expect(copies()).toBe(0)
})

test('an unread body is limited in size as well, announced or streamed', () => {
  const { bodies, send } = reading('counted')
  for (let sent = 0; sent <= HTTP_BODY_BYTES_MAX; sent += PIECE) send(false)
  expect(bodies).toMatchObject([{ is: 'too large' }])
  expect(reading('counted', String(HTTP_BODY_BYTES_MAX + 1)).bodies).toMatchObject([{ is: 'too large' }])
})

test('a body that is read arrives completely', () => {
  const { bodies, send, copies } = reading('kept')
  send(false)
  send(true)
  expect(bodies).toEqual([{ is: 'whole', bytes: Buffer.alloc(2 * PIECE) }])
  expect(copies()).toBe(2)
})
