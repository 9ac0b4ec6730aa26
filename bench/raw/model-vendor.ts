/**
 * A model's API with streamed answers, over TLS. Arguments: the files of the certificate and of its key.
 *
 * The question says how many events the answer has, and how many are sent each millisecond; 0 sends them as fast as
 * the connection takes them. Prints its port when it listens.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { MODEL, readQuestion } from './model-question.ts'

const EVENTS_PER_WRITE = 64
const USAGE = { input_tokens: 100, output_tokens: 40 }
const delta = {
  type: 'content_block_delta',
  index: 0,
  delta: { type: 'text_delta', text: 'A few words of a model’s long answer, as they come along.' },
}
const START = toEvent({
  type: 'message_start',
  message: { id: 'msg_1', role: 'assistant', model: MODEL, usage: USAGE },
})
const DELTA = toEvent(delta)
const END = toEvent({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: USAGE })

const [certificate = '', key = ''] = process.argv.slice(2)
const server = createServer(
  { cert: readFileSync(certificate), key: readFileSync(key), noDelay: true },
  (request, response) => void answer(request, response).catch(() => response.destroy()),
)
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))

function toEvent(value: { readonly type: string; readonly [name: string]: unknown }): string {
  return `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  const { events, perMs } = readQuestion(Buffer.concat(parts).toString())
  response.writeHead(200, { 'content-type': 'text/event-stream' }).write(START)
  await (perMs === 0 ? flood(response, events) : pace(response, events, perMs))
  response.end(END)
}

async function flood(response: ServerResponse, events: number): Promise<void> {
  for (let sent = 0; sent < events; sent += EVENTS_PER_WRITE) {
    if (!response.write(DELTA.repeat(Math.min(EVENTS_PER_WRITE, events - sent))))
      await once(response, 'drain')
  }
}

/** Sends by the clock, because timers are late. */
async function pace(response: ServerResponse, events: number, perMs: number): Promise<void> {
  const from = performance.now()
  for (let sent = 0; sent < events; ) {
    await sleep(1)
    const due = Math.min(events, Math.floor((performance.now() - from) * perMs))
    for (; sent < due; sent++) response.write(DELTA)
  }
}
