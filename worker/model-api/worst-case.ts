/**
 * `worstCasesOf` says what a request may use at most: all of its input as new, and as much output as it asks for.
 *
 * The budget reserves that much before the request leaves, and counts it for an answer that nobody saw the end of.
 */
import type { TokenUse } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { MODEL_OUTPUT_TOKENS_DEFAULT, MODEL_OUTPUT_TOKENS_MAX } from '../../protocol/limits.ts'
import { countAt, type JsonObject, objectAt, textAt } from '../agents/json-lines.ts'
import { mediaTokensIn } from './media-tokens.ts'
import type { MeteredRequest } from './meter.ts'

/** The facts of a request that decide its price. */
export interface RequestFacts {
  readonly model?: string
  /** The limit of the answer's tokens; absent: the model's own. */
  readonly outputTokens?: number
}

type ReadRequestFacts = (body: JsonObject, path: string) => RequestFacts

export const REQUEST_READERS: Readonly<Record<AgentProvider, ReadRequestFacts>> = {
  agentA: (body) => factsOf(textAt(body, 'model'), countAt(body, 'max_tokens')),
  agentB: (body) => factsOf(textAt(body, 'model'), countAt(body, 'max_output_tokens')),
  agentC: (body, path) =>
    factsOf(
      /\/models\/([\w.-]+):/.exec(path)?.[1],
      countAt(objectAt(body, 'generationConfig'), 'maxOutputTokens'),
    ),
}

function factsOf(model: string | undefined, outputTokens: number): RequestFacts {
  return {
    ...(model === undefined ? {} : { model }),
    ...(outputTokens === 0 ? {} : { outputTokens: Math.min(outputTokens, MODEL_OUTPUT_TOKENS_MAX) }),
  }
}

/** Text and code have about four bytes for each token, the densest usual text two. */
const BYTES_PER_TOKEN = 2

/** The ways in which a vendor may count the input: as it is, as a new cache entry, as one that it keeps for long. */
export function worstCasesOf(
  { outputTokens = MODEL_OUTPUT_TOKENS_DEFAULT }: RequestFacts,
  { body = {}, bodyBytes, keepsLong = false }: Pick<MeteredRequest, 'body' | 'bodyBytes' | 'keepsLong'>,
): readonly [TokenUse, ...TokenUse[]] {
  const tokens = Math.ceil(bodyBytes / BYTES_PER_TOKEN) + mediaTokensIn(body)
  const none = { inputTokens: 0, outputTokens, cacheReadTokens: 0, cacheWriteTokens: 0 }
  const written = { ...none, cacheWriteTokens: tokens }
  const kept = keepsLong ? [{ ...written, cacheWriteHourTokens: tokens }] : []
  return [written, { ...none, inputTokens: tokens }, ...kept]
}
