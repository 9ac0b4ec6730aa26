/** Converts agentB's token counts: its input count includes cached tokens, its output count includes reasoning. */
import type { TokenUse } from '../../../core/run/price.ts'
import { countAt, type JsonObject } from '../json-lines.ts'

export function readThreadTokens(usage: JsonObject): TokenUse {
  const cacheReadTokens = countAt(usage, 'cached_input_tokens')
  const cacheWriteTokens = countAt(usage, 'cache_write_input_tokens')
  return {
    inputTokens: Math.max(0, countAt(usage, 'input_tokens') - cacheReadTokens - cacheWriteTokens),
    outputTokens: countAt(usage, 'output_tokens'),
    cacheReadTokens,
    cacheWriteTokens,
  }
}
