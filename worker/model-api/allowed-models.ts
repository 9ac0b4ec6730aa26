/**
 * `isAllowedModel` says which models a run may ask: what `agent.models` lists, or else the run's own and the vendor's helpers.
 *
 * A run without a model of its own may ask all of its vendor. So a new default works on the day of its release; the
 * budget counts it at the dearest price until it has one.
 */
import { bareName } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'

export interface ModelChoice {
  readonly provider: AgentProvider
  /** The run's model as its agent takes it: a name, or a word for the newest of a family. */
  readonly model?: string
  /** `agent.models`; `*` stands for any characters. */
  readonly patterns?: readonly string[]
}

const ALL_OF: Readonly<Record<AgentProvider, readonly string[]>> = {
  agentA: ['claude-*'],
  agentB: ['gpt-*', 'codex-*', 'o3*', 'o4*'],
  agentC: ['gemini-*'],
}
/** Small models that agents ask besides, for titles, summaries and searches. */
const HELPERS: Readonly<Record<AgentProvider, readonly string[]>> = {
  agentA: ['claude-haiku-*'],
  agentB: ['gpt-*-mini', 'gpt-*-luna', 'codex-auto-review'],
  agentC: ['gemini-*-flash*'],
}

/** Models that cost more than the dearest listed price, or bill something else than text: a budget would count too little. */
const BEYOND_PRICES: Readonly<Record<AgentProvider, readonly string[]>> = {
  agentA: [],
  agentB: ['*-pro', '*-pro-*', 'gpt-4.5*', '*image*', '*audio*', '*realtime*', '*-tts*', '*transcribe*'],
  agentC: ['*image*', '*audio*', '*-live*', '*-tts*'],
}

export function isAllowedModel(model: string, { provider, model: own = '', patterns }: ModelChoice): boolean {
  const name = bareName(model)
  const isOneOf = (list: readonly string[]) => list.some((pattern) => matches(name, bareName(pattern)))
  if (patterns !== undefined) return isOneOf(patterns)
  if (own !== '' && name === bareName(own)) return true
  const defaults = own === '' ? ALL_OF[provider] : patternsOf(own, provider)
  return isOneOf([...defaults, ...HELPERS[provider]]) && !isOneOf(BEYOND_PRICES[provider])
}

/** Claude Code takes words for families, Gemini CLI words for choices that it makes itself. */
function patternsOf(model: string, provider: AgentProvider): readonly string[] {
  const name = bareName(model)
  if (provider === 'agentA' && /^[a-z]+$/.test(name))
    return /^(?:default|best|opusplan)$/.test(name) ? ALL_OF.agentA : [`claude-${name}-*`]
  if (provider === 'agentC' && !name.startsWith('gemini-')) return ALL_OF.agentC
  return [name]
}

/** Takes the first place for each part, so it needs no second try. */
function matches(name: string, pattern: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return name === first
  if (!name.startsWith(first)) return false
  let at = first.length
  for (const part of rest) {
    const found = name.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return name.length - last.length >= at && name.endsWith(last)
}
