/**
 * `ModelMeter` counts what a run's agent spends as its model requests pass through the worker, and says when to stop.
 *
 * The proxy asks `spent` before it sends a request on and after every piece of an answer. From the first sentence on,
 * the running answer ends and further requests are refused in the vendor's own words. A meter never throws, keeps no
 * text, and sees no credential. The prices and the budget belong to whoever creates the meter.
 */
import type { PriceTable } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { CostModelUsage } from '../../protocol/cost.ts'
import type { JobLimits } from '../../protocol/frames.ts'

export interface ModelMeterOptions {
  readonly provider: AgentProvider
  readonly prices: PriceTable
  readonly limits: Pick<JobLimits, 'maxCostUsd'>
  /** Receives the sum so far after each change. */
  readonly onSpent?: (costUsd: number) => void
}

/** Creates the meter of one execution. */
export type CreateModelMeter = (options: ModelMeterOptions) => ModelMeter

export interface ModelMeter {
  /** Starts the count of a request that the proxy sends on; requests run concurrently. */
  onRequest(request: MeteredRequest): RequestMeter
  /** The sentence that says why nothing more may be spent; undefined while the budget lasts. */
  spent(): string | undefined
  /** The usage of all requests so far, by model. */
  rows(): readonly CostModelUsage[]
}

/** A request as the agent sent it, without headers. */
export interface MeteredRequest {
  readonly method: string
  /** Path and query, such as `/v1/messages?beta=true`. */
  readonly path: string
}

/** The count of one request. The calls come in this order; an answer may break off after any of them. */
export interface RequestMeter {
  /** A piece of the request's body, possibly compressed by the agent. */
  onRequestChunk(bytes: Uint8Array): void
  /** Header names are in lower case. The body that follows is never compressed. */
  onResponseHead(status: number, headers: Readonly<Record<string, string>>): void
  /** A piece of the answer's body, before the agent receives it. */
  onChunk(bytes: Uint8Array): void
  /** Called once: the answer is complete, was broken off, or never came. */
  onEnd(): void
}

/** Counts nothing and never stops anything: for sandboxes without a budget. */
export const UNMETERED: ModelMeter = {
  onRequest: () => ({
    onRequestChunk: () => {},
    onResponseHead: () => {},
    onChunk: () => {},
    onEnd: () => {},
  }),
  spent: () => undefined,
  rows: () => [],
}
