/**
 * Creates the `ModelMeter` of one execution: it adds up what the vendor says each answer has used, with the price list.
 *
 * The figures come from outside the sandbox, so no agent can change them. An answer that breaks off before its figures
 * is estimated by its size, or an agent could avoid its budget by hanging up early. A model without a price costs
 * the dearest of its vendor.
 */
import { withDearestPrice } from '../../core/run/dearest-price.ts'
import type { TokenUse } from '../../core/run/price.ts'
import { toModelName } from '../agents/cost.ts'
import { createSpending, overBudgetReason } from '../agents/spending.ts'
import { type AnswerReader, createAnswerReader } from './answer-reader.ts'
import { type AnswerUsage, type ReadAnswerUsage, USAGE_READERS } from './answer-usage.ts'
import type { CreateModelMeter, MeteredRequest, RequestMeter } from './meter.ts'

/** Generations of text. Other routes are free. */
const BILLED =
  /\/(messages|responses|responses\/compact|chat\/completions)$|:(generateContent|streamGenerateContent)$/

/** Rough sizes of a token, in a request and in an answer's stream of events. */
const REQUEST_BYTES_PER_TOKEN = 4
const ANSWER_BYTES_PER_TOKEN = 32

export const createModelMeter: CreateModelMeter = ({ provider, prices, limits, onSpent }) => {
  const spending = createSpending(withDearestPrice(prices, provider))
  const readUsage = USAGE_READERS[provider]
  let requests = 0

  function record(id: string, { model, use }: AnswerUsage): void {
    if (use === undefined) return
    if (!spending.add({ id, model: toModelName(model), use, isTurn: false })) return
    const costUsd = spending.costUsd()
    if (costUsd !== undefined) onSpent?.(costUsd)
  }

  return {
    onRequest(request) {
      requests += 1
      const id = `request ${requests}`
      return createRequestMeter(request, readUsage, (usage) => record(id, usage))
    },
    spent: () => overBudgetReason(spending.costUsd(), limits.maxCostUsd),
    rows: () => spending.rows().filter(isUsed),
  }
}

const isUsed = (use: TokenUse): boolean =>
  use.inputTokens + use.outputTokens + use.cacheReadTokens + use.cacheWriteTokens > 0

function createRequestMeter(
  { method, path }: MeteredRequest,
  readUsage: ReadAnswerUsage,
  record: (usage: AnswerUsage) => void,
): RequestMeter {
  const isBilled = method === 'POST' && BILLED.test(path.replace(/\?.*$/s, ''))
  let reader: AnswerReader | undefined
  let usage: AnswerUsage | undefined
  let requestBytes = 0
  let answerBytes = 0

  function note(values: ReturnType<AnswerReader['push']>): void {
    for (const value of values) {
      const next = readUsage(value, usage)
      if (next === undefined) continue
      usage = next
      record(usage)
    }
  }

  return {
    onRequestChunk(bytes) {
      requestBytes += bytes.length
    },
    onResponseHead(status, headers) {
      if (isBilled && status === 200) reader = createAnswerReader(headers['content-type'])
    },
    onChunk(bytes) {
      answerBytes += bytes.length
      if (reader !== undefined) note(reader.push(bytes))
    },
    onEnd() {
      if (reader === undefined) return
      note(reader.flush())
      if (usage?.isFinal !== true) record(estimateUsage(usage, requestBytes, answerBytes))
    },
  }
}

function estimateUsage(
  named: AnswerUsage | undefined,
  requestBytes: number,
  answerBytes: number,
): AnswerUsage {
  const use = named?.use ?? {
    inputTokens: Math.ceil(requestBytes / REQUEST_BYTES_PER_TOKEN),
    outputTokens: 0,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
  }
  const outputTokens = Math.max(use.outputTokens, Math.ceil(answerBytes / ANSWER_BYTES_PER_TOKEN))
  return { ...named, use: { ...use, outputTokens }, isFinal: true }
}
