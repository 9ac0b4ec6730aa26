/**
 * `worstCasesOf` says what a request may use at most: all of its input as new, and as much output as it asks for.
 *
 * The budget reserves that much before the request leaves, and counts it for an answer that nobody saw the end of.
 */
import type { TokenUse } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { countAt, isObject, type JsonObject, objectAt, textAt } from '../agents/json-lines.ts'
import type { MeteredRequest } from './meter.ts'

/** The highest limit of an answer that counts, and the limit of a request that names none. */
const MODEL_OUTPUT_TOKENS_MAX = 1_000_000
const MODEL_OUTPUT_TOKENS_DEFAULT = 128_000

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

/** The dearest image of the vendors, and a document or a recording of some length. */
const IMAGE_TOKENS = 3_300
const FILE_TOKENS = 100_000

/**
 * Says how many tokens the images and files of a request cost at least.
 *
 * Vendors bill them by what they show, and not by their bytes: a plain image, or a file of blank pages, is short.
 */
function mediaTokensIn(body: JsonObject): number {
  let tokens = 0
  const left: unknown[] = [body]
  while (left.length > 0) {
    const next = left.pop()
    if (isObject(next)) tokens += tokensOf(next)
    if (typeof next === 'object' && next !== null) for (const inner of Object.values(next)) left.push(inner)
  }
  return tokens
}

function tokensOf(part: JsonObject): number {
  const media = ['inlineData', 'inline_data', 'fileData', 'file_data'].find((key) => isObject(part[key]))
  if (media !== undefined) {
    const inner = objectAt(part, media)
    return /^image\//i.test(textAt(inner, 'mimeType') ?? textAt(inner, 'mime_type') ?? '')
      ? IMAGE_TOKENS
      : FILE_TOKENS
  }
  const type = textAt(part, 'type') ?? ''
  if (/^(?:image|input_image|image_url|computer_screenshot)$/.test(type)) return IMAGE_TOKENS
  return /^(?:document|file|input_file|input_audio|audio|video|input_video)$/.test(type) ? FILE_TOKENS : 0
}
