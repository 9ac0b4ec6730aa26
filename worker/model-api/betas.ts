/**
 * Lists the betas of vendors' APIs that may pass. A beta can open a way out of the vendor's API, or a dearer price.
 *
 * Anthropic's names end with a day; a later day of a known one passes, so that an agent works on the day of its release.
 */
import type { ServerTool } from '../../protocol/agents/model-use.ts'

const ALWAYS = new Set([
  'adaptive-thinking',
  'advanced-tool-use',
  'claude-code',
  'compact',
  'computer-use',
  'context-1m',
  'context-management',
  'effort',
  'extended-cache-ttl',
  'fine-grained-tool-streaming',
  'interleaved-thinking',
  'mid-conversation-system',
  'model-context-window-exceeded',
  'oauth',
  'output-128k',
  'prompt-caching',
  'prompt-caching-scope',
  'redact-thinking',
  'structured-outputs',
  'task-budgets',
  'thinking-token-count',
  'token-counting',
  'token-efficient-tools',
  'tool-examples',
  'tool-search-tool',
])

const OF_TOOLS: Readonly<Record<ServerTool, readonly string[]>> = {
  web_search: ['web-search'],
  web_fetch: ['web-fetch'],
  mcp: ['mcp-client'],
  code_execution: ['code-execution', 'skills'],
  files: ['files-api'],
  urls: [],
}

/** The plan's address of Codex asks for it. */
const OPENAI_BETAS = new Set(['responses=experimental'])

export function sortOpenAiBetas(header: string): SortedBetas {
  return sort(header, (name) => OPENAI_BETAS.has(name))
}

export interface SortedBetas {
  readonly known: readonly string[]
  readonly unknown: readonly string[]
}

/** Splits the names of a header into those that may pass and the others. */
export function sortAnthropicBetas(header: string, tools: readonly ServerTool[]): SortedBetas {
  return sort(header, (name) => {
    const family = name.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2})$/, '')
    return ALWAYS.has(family) || tools.some((tool) => OF_TOOLS[tool].includes(family))
  })
}

function sort(header: string, isKnown: (name: string) => boolean): SortedBetas {
  const names = header.split(',').map((name) => name.trim())
  const given = names.filter((name) => name !== '')
  return { known: given.filter(isKnown), unknown: given.filter((name) => !isKnown(name)) }
}
