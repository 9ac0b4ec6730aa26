/**
 * Creates the `ModelMeter` of one execution: it reserves what a request may cost, and settles by what its vendor says.
 *
 * The figures come from outside the sandbox, so no agent can change them. An answer whose end nobody saw costs its worst
 * case, or an agent could avoid its budget by hanging up. A model without a price costs the dearest of its vendor.
 */
import { no, yes } from '../../core/result.ts'
import { costUsdOf, type TokenUse, withDearestPrice } from '../../core/run/price.ts'
import { toModelName } from '../agents/cost.ts'
import { createSpending, spentBudgetReason } from '../agents/spending.ts'
import {
  type AnswerReader,
  type AnswerUsage,
  createAnswerReader,
  type ReadAnswerUsage,
  USAGE_READERS,
} from './answer-usage.ts'
import type { CreateModelMeter, MeteredRequest, RequestEnd, RequestMeter } from './meter.ts'
import { REQUEST_READERS, worstCasesOf } from './worst-case.ts'

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
    return spentUsd() - before
  }

  const usdOf = ({ model, use = NOTHING }: AnswerUsage): number =>
    costUsdOf(toModelName(model), use, 'request', table) ?? 0
  const dearestOf = (first: AnswerUsage, ...others: readonly AnswerUsage[]): AnswerUsage =>
    others.reduce((dearest, each) => (usdOf(each) > usdOf(dearest) ? each : dearest), first)

  return {
    async begin(request, signal) {
      if (!isBilled(request))
        return signal.aborted ? no('gone', 'the request has ended') : yes(createFreeMeter())
      const facts = REQUEST_READERS[provider](request.body ?? {}, request.path)
      const model = toModelName(facts.model)
      const [first, ...others] = worstCasesOf(facts, request)
      const worstOf = (use: TokenUse): AnswerUsage => ({ model, use, isFinal: true })
      const worst = dearestOf(worstOf(first), ...others.map(worstOf))
      const reservation = await budget.reserve(usdOf(worst), signal)
      if (reservation === undefined) {
        const spent = spentBudgetReason(spentUsd(), maxCostUsd)
        if (spent === undefined || signal.aborted) return no('gone', 'the request has ended')
        onExhausted?.(spent)
        return no('conflict', spent)
      }
      requests += 1
      const id = `request ${requests}`
      return yes(
        createRequestMeter({
          request,
          worst,
          dearestOf,
          readUsage,
          record: (usage) => reservation.spend(record(id, usage)),
          settle: () => {
            reservation.settle()
            if (budget.isIdle()) onSpent?.(spentUsd())
          },
        }),
      )
    },
    isIdle: budget.isIdle,
    rows: () => spending.rows().filter(isUsed),
  }
}

const isBilled = ({ method, path }: MeteredRequest): boolean =>
  method === 'POST' && BILLED.test(path.replace(/\?.*$/s, ''))

const createFreeMeter = (): RequestMeter => ({
  isBilled: false,
  onResponseHead: () => {},
  onChunk: () => {},
  onEnd: () => {},
})

const NOTHING: TokenUse = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

const isUsed = (use: TokenUse): boolean =>
  use.inputTokens + use.outputTokens + use.cacheReadTokens + use.cacheWriteTokens > 0

interface RequestMeterOptions {
  readonly request: MeteredRequest
  readonly worst: AnswerUsage
  readonly dearestOf: (first: AnswerUsage, second: AnswerUsage) => AnswerUsage
  readonly readUsage: ReadAnswerUsage
  readonly record: (usage: AnswerUsage) => void
  readonly settle: () => void
}

function createRequestMeter({
  request,
  worst,
  dearestOf,
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
    if (end === 'unsent' || end === 'refused') return undefined
    if (end === 'broken') return usage?.isLast === true ? undefined : brokenUsage()
    return usage?.isFinal === true ? undefined : estimateUsage(usage, worst, request.bodyBytes, answerBytes)
  }

  /** Figures that the vendor has named are spent, even beyond the worst case. */
  function brokenUsage(): AnswerUsage {
    const expected = { ...worst, ...modelNamed(usage) }
    if (usage?.use === undefined) return expected
    const outputTokens = Math.max(usage.use.outputTokens, worst.use?.outputTokens ?? 0)
    return dearestOf(expected, { ...usage, use: { ...usage.use, outputTokens } })
  }

  return {
    isBilled: true,
    onResponseHead(status, headers) {
      if (status >= 200 && status < 300) reader = createAnswerReader(headers['content-type'])
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

// ---- the budget ----------------------------------------------------------------------------------------------------

interface Reservation {
  /** Tells what of the reservation was spent so far; it counts as spent from then on. */
  spend(usd: number): void
  /** The request is over, and so is its reservation. */
  settle(): void
}

interface ModelBudget {
  /** Resolves without a reservation when nothing is left and nobody is under way, or when the signal aborts. */
  reserve(usd: number, signal: AbortSignal): Promise<Reservation | undefined>
  /** No reservation stands. */
  isIdle(): boolean
}

interface ModelBudgetOptions {
  /** Absent: there is no limit. */
  readonly maxUsd?: number
  /** The sum of all requests so far, those under way included. */
  readonly spentUsd: () => number
}

interface Waiting {
  readonly usd: number
  readonly settle: (reservation: Reservation | undefined) => void
}

interface Held {
  usd: number
  /** The request went although it did not fit, and does not count as reserved. */
  readonly isBeyond: boolean
}

/**
 * Lets a request go when its worst case fits into what is left, and lets it wait when it does not.
 *
 * Spent and reserved money never pass the budget together, except that one request at a time goes without fitting
 * while something is left. So nothing exceeds the budget by more than one request, and no run stands still. Requests
 * go in the order in which they came.
 */
function createModelBudget({ maxUsd = Number.POSITIVE_INFINITY, spentUsd }: ModelBudgetOptions): ModelBudget {
  const waiting = new Set<Waiting>()
  const held = new Set<Held>()

  const committedUsd = (): number =>
    [...held].reduce((sum, { usd, isBeyond }) => sum + (isBeyond ? 0 : usd), spentUsd())

  function admit(): void {
    for (const next of waiting) {
      const committed = committedUsd()
      const fits = committed + next.usd <= maxUsd
      const mayGo = fits || (committed < maxUsd && ![...held].some(({ isBeyond }) => isBeyond))
      const isSpent = spentUsd() >= maxUsd
      // A refusal ends the run, and with it each request that is under way.
      if (isSpent ? held.size > 0 : !mayGo) return
      waiting.delete(next)
      next.settle(isSpent ? undefined : reservationOf({ usd: next.usd, isBeyond: !fits }))
    }
  }

  function reservationOf(reserved: Held): Reservation {
    held.add(reserved)
    return {
      spend: (usd) => {
        reserved.usd = Math.max(0, reserved.usd - usd)
      },
      settle: () => {
        held.delete(reserved)
        admit()
      },
    }
  }

  return {
    reserve: (usd, signal) =>
      new Promise((resolve) => {
        if (signal.aborted) return void resolve(undefined)
        const leave = () => {
          waiting.delete(entry)
          entry.settle(undefined)
          admit()
        }
        const entry: Waiting = {
          usd,
          settle: (reservation) => {
            signal.removeEventListener('abort', leave)
            resolve(reservation)
          },
        }
        signal.addEventListener('abort', leave, { once: true })
        waiting.add(entry)
        admit()
      }),
    isIdle: () => held.size === 0,
  }
}
