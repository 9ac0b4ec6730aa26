/** Reads the body of a page's request whole, and answers one that is too large or does not arrive in time. */
import type { Clock } from '../../core/ports.ts'
import { type Body, readBody } from '../body.ts'
import type { Exchange } from '../exchange.ts'
import type { ListenerResponse } from '../listener-port.ts'
import { refusal } from '../reply.ts'
import type { RequestHead } from '../request-head.ts'

const TOO_LARGE = refusal(413, 'the body is too large')
const TOO_LATE = refusal(408, 'the body did not arrive in time')

/** @param use is called once with a whole body, or never */
export function readPageBody(
  response: ListenerResponse,
  head: RequestHead,
  bytesMax: number,
  clock: Clock,
  exchange: Exchange,
  use: (bytes: Uint8Array) => void,
): void {
  const onBody = (body: Body): void => {
    if (body.is === 'whole') use(body.bytes)
    else if (body.is === 'late') exchange.replyAndClose(TOO_LATE)
    else exchange.replyBeforeBodyEnds(TOO_LARGE, body.onRestReceived, clock)
  }
  readBody(response, head, 'kept', clock, exchange, onBody, bytesMax)
}
