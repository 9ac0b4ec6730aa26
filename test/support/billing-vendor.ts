/**
 * A model's vendor on the loopback that bills what it is asked for, as soon as a request is whole.
 *
 * The vendor bills however the answer ends, as real ones do: the limit of the answer's tokens, and a token for four
 * bytes of the request. A test compares its bill with what a run's costs show.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { realClock } from '../../bin/process/clock.ts'
import { costUsdOf, type TokenUse } from '../../core/run/price.ts'
import { PRICES } from '../../core/run/price-table.ts'
import { createModelMeter } from '../../worker/model-api/create-model-meter.ts'
import { DialedUpstream } from '../../worker/model-api/dialed-upstream.ts'
import type { ModelMeter } from '../../worker/model-api/meter.ts'
import { openModelAccess } from '../../worker/model-api/model-access.ts'
import { openModelApi } from '../../worker/model-api/model-api.ts'
import type { ModelRules } from '../../worker/model-api/model-gate.ts'
import { tempFolder } from './temp-folder.ts'

export interface Billed {
  readonly model: string
  readonly use: TokenUse
}

export type Answer = (response: ServerResponse, billed: Billed) => void

/** The answer names what was billed. */
export const answerWhole: Answer = (response, { model, use }) => {
  const usage = { input_tokens: use.inputTokens, output_tokens: use.outputTokens }
  response.setHeader('content-type', 'application/json').end(JSON.stringify({ model, usage }))
}

export class BillingVendor {
  readonly bills: Billed[] = []
  readonly seen: { readonly headers: IncomingMessage['headers']; readonly body: string }[] = []
  answer: Answer = answerWhole
  readonly #upstream = new DialedUpstream({})
  readonly #server = createServer(async (incoming, response) => {
    const pieces: Buffer[] = []
    incoming.on('error', () => {})
    for await (const piece of incoming) pieces.push(piece)
    const body = Buffer.concat(pieces).toString()
    this.seen.push({ headers: incoming.headers, body })
    const { model = 'none', max_tokens: outputTokens = 0 } = JSON.parse(body)
    const inputTokens = Math.ceil(body.length / 4)
    const billed = { model, use: { inputTokens, outputTokens, cacheReadTokens: 0, cacheWriteTokens: 0 } }
    this.bills.push(billed)
    this.answer(response, billed)
  })

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  async close(): Promise<void> {
    await this.#upstream.close()
    this.#server.closeAllConnections()
    this.#server.close()
  }

  /** The sum of the bills, where models without a listed price cost as much as claude-opus-4-1. */
  billedUsd(): number {
    return this.bills.reduce((sum, { model, use }) => {
      return (
        sum +
        (costUsdOf(model, use, 'request', PRICES) ??
          costUsdOf('claude-opus-4-1', use, 'request', PRICES) ??
          0)
      )
    }, 0)
  }

  /** Opens the proxy of a run in front of this vendor. */
  async openRun(
    limits: { readonly maxCostUsd?: number },
    rules: Partial<ModelRules> = {},
  ): Promise<MeteredRun> {
    const { port } = this.#server.address() as AddressInfo
    const access = openModelAccess(
      'agentA',
      { kind: 'api-key', value: 'sk-ant-api03-a-key-of-a-person' },
      Date.now(),
    )
    if (!access.ok) throw new Error(access.refusal.message)
    const lines: string[] = []
    const exhausted: string[] = []
    const meter = createModelMeter({
      ...{ provider: 'agentA', prices: PRICES, limits },
      onExhausted: (reason) => void exhausted.push(reason),
    })
    const api = await openModelApi({
      access: { ...access.value, origin: `http://127.0.0.1:${port}` },
      folder: tempFolder(),
      rules: { provider: 'agentA', serverTools: [], ...rules },
      upstream: this.#upstream,
      clock: realClock,
      log: (line) => void lines.push(line),
      meter,
    })
    return { socketPath: api.socketPath, meter, lines, exhausted, close: () => api.close() }
  }
}

export interface MeteredRun {
  readonly socketPath: string
  readonly meter: ModelMeter
  readonly lines: readonly string[]
  /** The sentences by which the run learns that nothing more passes. */
  readonly exhausted: readonly string[]
  close(): Promise<void>
}

export const shownUsd = ({ meter }: MeteredRun): number =>
  meter.rows().reduce((sum, { costUsd = 0 }) => sum + costUsd, 0)

export interface Asked {
  readonly answered: Promise<{ readonly status: number; readonly body: string }>
  hangUp(): void
}

/** Hanging up is an answer with the status 0. */
export function askModel(
  { socketPath }: MeteredRun,
  body: object,
  headers: Record<string, string> = {},
): Asked {
  const sent = request({ socketPath, method: 'POST', path: '/v1/messages', headers, agent: false })
  const answered = new Promise<{ status: number; body: string }>((resolve) => {
    sent.on('error', () => resolve({ status: 0, body: '' }))
    sent.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('error', () => {})
      response.on('close', () => resolve({ status: response.statusCode ?? 0, body: text }))
    })
  })
  sent.end(JSON.stringify(body))
  return { answered, hangUp: () => sent.destroy() }
}
