/**
 * `exchangeWithModel` takes one request to its vendor and its answer back, and tells the meter how it ended.
 *
 * A billed request that has left is seen to its end even when the agent hangs up, because the vendor bills it anyway.
 * Only `stop` ends it, and it counts its worst case then.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { ModelMeter, RequestEnd, RequestMeter } from './meter.ts'
import type { ModelAccess } from './model-access.ts'
import { ModelRefusal } from './model-errors.ts'
import type { ModelGate } from './model-gate.ts'
import type { ModelRequest } from './model-request.ts'
import { findAnswerProblem, headersToPass } from './model-response.ts'
import type { ModelUpstream, UpstreamResponse } from './model-upstream.ts'
import type { BodyReader, WrittenBody } from './request-body.ts'
import type { SecretMask } from './secret-mask.ts'

export interface ModelExchange {
  readonly access: ModelAccess
  readonly upstream: ModelUpstream
  readonly meter: ModelMeter
  readonly gate: ModelGate
  readonly bodies: BodyReader
  readonly checked: ModelRequest
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly mask: SecretMask
  readonly stop: AbortSignal
}

/** Resolves with the problem of an answer that cannot be passed on. Rejects with a `ModelRefusal`, or when it breaks. */
export async function exchangeWithModel(exchange: ModelExchange): Promise<string | undefined> {
  const { bodies, checked, gate, request } = exchange
  if (checked.method === 'GET') return sendOn(exchange, undefined, {})
  const { body, release } = await bodies.read(request)
  try {
    const passed = gate.passBody(checked.path.replace(/\?.*$/s, ''), body.value)
    if (!passed.ok) throw new ModelRefusal('request', passed.refusal.message)
    const written = body.write(passed.value)
    if (written === undefined) throw new ModelRefusal('request', 'its body can’t be written anew')
    return await sendOn(exchange, written, { body: passed.value })
  } finally {
    release()
  }
}

async function sendOn(
  { access, upstream, meter, gate, checked, response, mask, stop }: ModelExchange,
  written: WrittenBody | undefined,
  facts: Pick<Parameters<ModelMeter['begin']>[0], 'body'>,
): Promise<string | undefined> {
  const { method, path } = checked
  const headers = gate.passHeaders(checked.headers)
  const gone = signalOfClose(response)
  const waited = AbortSignal.any([stop, gone])
  const { bytes, keepsLong = false } = written ?? {}
  const begun = await meter.begin(
    { method, path, ...facts, bodyBytes: bytes?.length ?? 0, keepsLong },
    waited,
  )
  if (!begun.ok) throw waited.aborted ? new Error('gone') : new ModelRefusal('budget', begun.refusal.message)
  const counted = begun.value
  const sent: { end: RequestEnd } = { end: 'unsent' }
  // The library asks for the body once it is connected.
  const send = async function* () {
    sent.end = 'broken'
    yield bytes
  }
  try {
    const answer = await upstream.send({
      origin: access.origin,
      method,
      path,
      headers: {
        ...headers,
        ...access.credentialHeaders(headers),
        // The meter and the mask read the answer.
        'accept-encoding': 'identity',
        ...(bytes === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(bytes.length) }),
      },
      ...(bytes === undefined ? {} : { body: Readable.from(send()) }),
      signal: counted.isBilled ? stop : waited,
    })
    if (answer.status >= 300) sent.end = 'refused'
    const problem = findAnswerProblem(answer)
    if (problem === undefined) await passOn(answer, response, counted, mask)
    else answer.body.on('error', () => {}).destroy()
    if (sent.end === 'broken' && problem === undefined) sent.end = 'complete'
    return problem
  } finally {
    counted.onEnd(sent.end)
  }
}

async function passOn(
  { status, headers, body }: UpstreamResponse,
  response: ServerResponse,
  counted: RequestMeter,
  mask: SecretMask,
): Promise<void> {
  const passed = headersToPass(headers, (text) => mask.maskText(text))
  counted.onResponseHead(status, passed)
  if (!response.destroyed) {
    response.writeHead(status, passed)
    response.flushHeaders()
  }
  for await (const chunk of body) {
    const bytes = mask.push(chunk)
    if (bytes.length === 0) continue
    counted.onChunk(bytes)
    await writeTo(response, bytes)
  }
  const rest = mask.flush()
  if (rest.length > 0) counted.onChunk(rest)
  if (!response.destroyed) response.end(rest)
}

/** Waits for an agent that reads slowly, but not for one that has hung up. */
function writeTo(response: ServerResponse, bytes: Buffer): Promise<void> | undefined {
  if (response.destroyed || response.write(bytes)) return undefined
  return new Promise((resolve) => {
    const settle = () => {
      response.off('drain', settle).off('close', settle)
      resolve()
    }
    response.on('drain', settle).on('close', settle)
  })
}

function signalOfClose(response: ServerResponse): AbortSignal {
  const closed = new AbortController()
  if (response.destroyed) closed.abort()
  else response.once('close', () => closed.abort())
  return closed.signal
}
