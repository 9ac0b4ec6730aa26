/**
 * `ModelGate` decides what of a request's body leaves for the vendor, because a vendor can carry data and money on.
 *
 * Keys that nobody knows are left out, so that an agent works on the day of its release. What is known to lead beyond the
 * model is refused, or left out where the agent works without it. `agent.serverTools` allows it by name.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { ServerTool } from '../../protocol/agents/model-use.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { field, isObject, type JsonObject } from '../agents/json-lines.ts'
import { isAllowedModel, type ModelChoice } from './allowed-models.ts'
import { filterAnthropicBody } from './anthropic-body.ts'
import { type SortedBetas, sortAnthropicBetas, sortOpenAiBetas } from './betas.ts'
import { type FilterBody, refuse } from './body-rules.ts'
import { filterGoogleBody } from './google-body.ts'
import { filterOpenAiBody } from './openai-body.ts'
import { findOutsideReference } from './outside-references.ts'
import { REQUEST_READERS } from './worst-case.ts'

export interface ModelRules extends ModelChoice {
  readonly serverTools: readonly ServerTool[]
}

export interface ModelGate {
  /** Returns the body that may leave. */
  passBody(path: string, body: JsonObject): Result<JsonObject>
  /** Returns the headers that may leave. */
  passHeaders(headers: Readonly<Record<string, string>>): Record<string, string>
}

const FILTERS: Readonly<Record<AgentProvider, FilterBody>> = {
  agentA: filterAnthropicBody,
  agentB: filterOpenAiBody,
  agentC: filterGoogleBody,
}
const SORTED_HEADERS: Readonly<
  Record<string, (header: string, tools: readonly ServerTool[]) => SortedBetas>
> = {
  'anthropic-beta': sortAnthropicBetas,
  'openai-beta': sortOpenAiBetas,
}
/** Schemas of tools and answers lie elsewhere, and name whatever they like. */
const CONVERSATION = ['messages', 'system', 'input', 'contents', 'systemInstruction'] as const
const NAMED_MAX = 100
const NAME_CHARS_MAX = 60

/** `log` receives the name of each part that is left out, once. */
export function createModelGate(rules: ModelRules, log: (line: string) => void): ModelGate {
  const named = new Set<string>()
  const drop = (what: string): void => {
    const shown = what.slice(0, NAME_CHARS_MAX).replace(/[^ -~]/g, '?')
    if (named.has(shown) || named.size >= NAMED_MAX) return
    named.add(shown)
    log(`model api: ${shown} is left out of requests`)
  }
  return {
    passBody(path, body) {
      const inner = field(body, 'generateContentRequest')
      // The count of tokens wraps the request that it counts.
      if (isObject(inner)) {
        const counted = this.passBody(path, inner)
        return counted.ok ? yes({ generateContentRequest: counted.value }) : counted
      }
      const { model } = REQUEST_READERS[rules.provider](body, path)
      if (model === undefined) return no('invalid', 'a request names its model')
      if (!isAllowedModel(model, rules))
        return no(
          'forbidden',
          `the model ${model.slice(0, NAME_CHARS_MAX)} is none of this run's; agent.models can allow it`,
        )
      const found = findOutsideReference(
        CONVERSATION.map((key) => field(body, key)),
        rules.serverTools,
      )
      if (found !== undefined) return refuse(found.what, found.tool)
      return FILTERS[rules.provider](body, { serverTools: rules.serverTools, drop, path })
    },
    passHeaders(headers) {
      const passed = { ...headers }
      for (const [name, sort] of Object.entries(SORTED_HEADERS)) {
        const { known, unknown } = sort(headers[name] ?? '', rules.serverTools)
        for (const beta of unknown) drop(`the beta ${beta}`)
        if (known.length > 0) passed[name] = known.join(',')
        else delete passed[name]
      }
      return passed
    },
  }
}
