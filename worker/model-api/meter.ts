/**
 * `ModelMeter` lets a run's model requests begin while its budget lasts, and counts what they spend as they pass.
 *
 * The proxy asks `begin` before it sends a request on, and ends every count that has begun. A meter never throws, keeps
 * no text, and sees no credential. The prices and the budget belong to whoever creates the meter.
 */

import { no, type Result, yes } from '../../core/result.ts'
import type { PriceTable } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { CostModelUsage } from '../../protocol/cost.ts'
import type { JobLimits } from '../../protocol/frames.ts'
import type { JsonObject } from '../agents/json-lines.ts'

export interface ModelMeterOptions {
  readonly provider: AgentProvider
  readonly prices: PriceTable
  readonly limits: Pick<JobLimits, 'maxCostUsd'>
  /** Receives the sum so far whenever nothing is under way any more: its end must not cut off what is billed. */
  readonly onSpent?: (costUsd: number) => void
  /** A request was refused, because nothing is left and nothing is under way; receives the sentence that says so. */
  readonly onExhausted?: (reason: string) => void
}

/** Creates the meter of one execution. */
export type CreateModelMeter = (options: ModelMeterOptions) => ModelMeter

export interface ModelMeter {
  /**
   * Waits until the budget has room for the request; requests run concurrently. Refuses it when nothing is left and
   * nothing under way, with the sentence that says so, and when the signal aborts. What is free never waits.
   */
  begin(request: MeteredRequest, signal: AbortSignal): Promise<Result<RequestMeter>>
  /** No billed request is under way. */
  isIdle(): boolean
  /** The usage of all requests so far, by model. */
  rows(): readonly CostModelUsage[]
}

/** A request as it leaves, without headers. */
export interface MeteredRequest {
  readonly method: string
  /** Path and query, such as `/v1/messages?beta=true`. */
  readonly path: string
  readonly body?: JsonObject
  readonly bodyBytes: number
  /** The request asks the vendor to keep its input for long, which costs more. */
  readonly keepsLong?: boolean
}

/**
 * How a request ended. `unsent`: nothing has left. `refused`: the vendor answered that it does nothing. `complete`: its
 * answer arrived whole. `broken`: nobody knows what the vendor did.
 */
export type RequestEnd = 'unsent' | 'refused' | 'complete' | 'broken'

/** The count of one request. The calls come in this order; an answer may break off after any of them. */
export interface RequestMeter {
  /** The vendor bills this request, so its answer must be seen to the end. */
  readonly isBilled: boolean
  /** Header names are in lower case. The body that follows is never compressed. */
  onResponseHead(status: number, headers: Readonly<Record<string, string>>): void
  /** A piece of the answer's body. */
  onChunk(bytes: Uint8Array): void
  /** Called once. */
  onEnd(end: RequestEnd): void
}

/** Counts nothing and never stops anything: for sandboxes without a budget. */
export const UNMETERED: ModelMeter = {
  begin: async (_request, { aborted }) =>
    aborted
      ? no('gone', 'the request has ended')
      : yes({ isBilled: false, onResponseHead: () => {}, onChunk: () => {}, onEnd: () => {} }),
  isIdle: () => true,
  rows: () => [],
}
