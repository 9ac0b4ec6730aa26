/** Replies in the dialect of POST /v1beta/models/MODEL:streamGenerateContent, as far as agentC needs them. */
import type { ServerResponse } from 'node:http'
import type { Reply } from './model-api.ts'

export const GOOGLE_MODEL = 'gemini-3.8-flash'
/** The price of one reply, in dollars. */
export const REPLY_USD = (100 * 0.75 + 40 * 3.75) / 1e6
export const GENERATE = `/v1beta/models/${GOOGLE_MODEL}:streamGenerateContent`

export const replyText =
  (text: string): Reply =>
  (response) =>
    send(response, { text })

export const runs =
  (command: string): Reply =>
  (response) =>
    send(response, { functionCall: { name: 'run_shell_command', args: { command } } })

function send(response: ServerResponse, part: object): void {
  const answer = {
    candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 40, totalTokenCount: 140 },
    modelVersion: GOOGLE_MODEL,
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(`data: ${JSON.stringify(answer)}\r\n\r\n`)
}
