/** `limitRequestBody` passes a request's body on, counts it, and ends it above the limit: its length may be unstated. */
import type { IncomingMessage } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import { MODEL_API_BODY_BYTES_MAX } from '../../protocol/limits.ts'
import type { RequestMeter } from './meter.ts'

const MIB = 1024 * 1024
export const BODY_TOO_LARGE = `a request may have at most ${MODEL_API_BODY_BYTES_MAX / MIB} MiB`

export class BodyTooLargeError extends Error {}

export function limitRequestBody(request: IncomingMessage, counted: RequestMeter): Readable {
  let bytes = 0
  const limited = new PassThrough()
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > MODEL_API_BODY_BYTES_MAX) limited.destroy(new BodyTooLargeError(BODY_TOO_LARGE))
    else counted.onRequestChunk(chunk)
  })
  request.once('close', () => {
    if (!request.complete) limited.destroy(new Error('the agent broke off its request'))
  })
  limited.on('error', () => {})
  return request.pipe(limited)
}
