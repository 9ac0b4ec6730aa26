/**
 * Creates the `ModelMeter` of one execution: it reserves what a request may cost, and settles by what its vendor says.
 *
 * The figures come from outside the sandbox, so no agent can change them. An answer whose end nobody saw costs its worst
 * case, or an agent could avoid its budget by hanging up. A model without a price costs the dearest of its vendor.
 */

import { no, yes } from '../../core/result.ts'
import { withDearestPrice } from '../../core/run/dearest-price.ts'
import { costUsdOf, type TokenUse } from '../../core/run/price.ts'
import { toModelName } from '../agents/cost.ts'
import { createSpending, spentBudgetReason } from '../agents/spending.ts'
import { type AnswerReader, createAnswerReader } from './answer-reader.ts'
import { type AnswerUsage, type ReadAnswerUsage, USAGE_READERS } from './answer-usage.ts'
import { createModelBudget } from './budget.ts'
import type { CreateModelMeter, MeteredRequest, RequestEnd, RequestMeter } from './meter.ts'
import { REQUEST_READERS, worstCaseOf } from './worst-case.ts'

/** Generations of text. Other routes are free. */
const BILLED =
  /\/(messages|responses|responses\/compact|chat\/completions)$|:(generateContent|streamGenerateContent)$/

/** Rough sizes of a token, in a request and in an answer's stream of events. */
const REQUEST_BYTES_PER_TOKEN = 4
const ANSWER_BYTES_PER_TOKEN = 32

export const createModelMeter: CreateModelMeter = ({ provider, prices, limits, onSpent, onExhausted }) => {
  const { maxCostUsd } = limits
  const table = withDearestPrice(prices, provider)
  const spending = createSpending(table)
  const spentUsd = (): number => spending.costUsd() ?? 0
  const budget = createModelBudget({ ...(maxCostUsd === undefined ? {} : { maxUsd: maxCostUsd }), spentUsd })
  const readUsage = USAGE_READERS[provider]
  let requests = 0

  /** Returns how much dearer the run has become. */
  function record(id: string, { model, use }: AnswerUsage): number {
    const before = spentUsd()
    if (use === undefined || !spending.add({ id, model: toModelName(model), use, isTurn: false })) return 0
    onSpent?.(spentUsd())
    return spentUsd() - before
  }

  return {
    async begin(request, signal) {
      const facts = REQUEST_READERS[provider](request.body ?? {}, request.path)
      const isBilled = request.method === 'POST' && BILLED.test(request.path.replace(/\?.*$/s, ''))
      const use = isBilled ? worstCaseOf(facts, request) : NOTHING
      const model = toModelName(facts.model)
      const reservation = await budget.reserve(costUsdOf(model, use, 'request', table) ?? 0, signal)
      const spent = spentBudgetReason(spentUsd(), maxCostUsd)
      if (reservation === undefined) {
        if (spent === undefined) return no('gone', 'the request has ended')
        onExhausted?.(spent)
        return no('conflict', spent)
      }
      requests += 1
      const id = `request ${requests}`
      return yes(
        createRequestMeter({
          request,
          worst: isBilled ? { model, use, isFinal: true } : undefined,
          readUsage,
          record: (usage) => reservation.spend(record(id, usage)),
          settle: reservation.settle,
        }),
      )
    },
    rows: () => spending.rows().filter(isUsed),
  }
}

const NOTHING: TokenUse = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

const isUsed = (use: TokenUse): boolean =>
  use.inputTokens + use.outputTokens + use.cacheReadTokens + use.cacheWriteTokens > 0

interface RequestMeterOptions {
  readonly request: MeteredRequest
  /** Absent: the vendor bills nothing. */
  readonly worst: AnswerUsage | undefined
  readonly readUsage: ReadAnswerUsage
  readonly record: (usage: AnswerUsage) => void
  readonly settle: () => void
}

function createRequestMeter({
  request,
  worst,
  readUsage,
  record,
  settle,
}: RequestMeterOptions): RequestMeter {
  let reader: AnswerReader | undefined
  let usage: AnswerUsage | undefined
  let answerBytes = 0

  function note(values: ReturnType<AnswerReader['push']>): void {
    for (const value of values) {
      const next = readUsage(value, usage)
      if (next === undefined) continue
      usage = next
      record(usage)
    }
  }

  function finalUsage(end: RequestEnd): AnswerUsage | undefined {
    if (worst === undefined || end === 'unsent' || end === 'refused') return undefined
    if (end === 'broken') return usage?.isLast === true ? undefined : { ...worst, ...modelNamed(usage) }
    return usage?.isFinal === true ? undefined : estimateUsage(usage, worst, request.bodyBytes, answerBytes)
  }

  return {
    isBilled: worst !== undefined,
    onResponseHead(status, headers) {
      if (worst !== undefined && status >= 200 && status < 300)
        reader = createAnswerReader(headers['content-type'])
    },
    onChunk(bytes) {
      answerBytes += bytes.length
      if (reader !== undefined) note(reader.push(bytes))
    },
    onEnd(end) {
      if (reader !== undefined) note(reader.flush())
      const final = finalUsage(end)
      if (final !== undefined) record(final)
      settle()
    },
  }
}

const modelNamed = (usage: AnswerUsage | undefined): Pick<AnswerUsage, 'model'> =>
  usage?.model === undefined ? {} : { model: usage.model }

/** The vendor named no figures to the end, so the sizes speak. */
function estimateUsage(
  named: AnswerUsage | undefined,
  { model = '' }: AnswerUsage,
  requestBytes: number,
  answerBytes: number,
): AnswerUsage {
  const use = named?.use ?? { ...NOTHING, inputTokens: Math.ceil(requestBytes / REQUEST_BYTES_PER_TOKEN) }
  const outputTokens = Math.max(use.outputTokens, Math.ceil(answerBytes / ANSWER_BYTES_PER_TOKEN))
  return { model, ...named, use: { ...use, outputTokens }, isFinal: true }
}
