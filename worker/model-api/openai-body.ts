/** Filters the bodies of OpenAI's Responses API. */
import { yes } from '../../core/result.ts'
import type { ServerTool } from '../../protocol/agents/model-use.ts'
import { field, isObject, type JsonObject, listAt, objectAt, textAt } from '../agents/json-lines.ts'
import { type FilterBody, pickKeys, refuse, refuseKeys, sortTools, type ToolKind } from './body-rules.ts'

const KEYS = new Set([
  'client_metadata',
  'context_management',
  'include',
  'input',
  'instructions',
  'max_output_tokens',
  'model',
  'parallel_tool_calls',
  'prompt_cache_key',
  'prompt_cache_retention',
  'reasoning',
  'service_tier',
  'store',
  'stream',
  'stream_options',
  'temperature',
  'text',
  'tool_choice',
  'tools',
  'top_p',
  'truncation',
])
/** Answers that outlive the request, and conversations that lie with the vendor. */
const KEPT_THERE = { background: undefined, previous_response_id: undefined, conversation: undefined }
const COMPACT = /\/responses\/compact$/
const TIERS: readonly unknown[] = ['default', 'flex']

export const filterOpenAiBody: FilterBody = (body, rules) => {
  const refused = refuseKeys(body, KEPT_THERE, rules)
  if (refused !== undefined) return refused
  const {
    service_tier: tier,
    tools: _,
    tool_choice: choice,
    store: __,
    ...kept
  } = pickKeys(body, KEYS, rules)
  if (tier !== undefined && tier !== null && !TIERS.includes(tier)) rules.drop('service_tier')
  const sorted = sortTools(listAt(body, 'tools').map(withoutInnerTools), kindOfTool, rules)
  if (!sorted.ok) return sorted
  const { kept: tools, stripped } = sorted.value
  const forced = forcedKinds(choice, tools.length === 0)
  if (stripped.size > 0 && forced.some((type) => type === ANY || stripped.has(type)))
    return refuse(
      `the tool ${[...stripped].join(', ')}`,
      SERVER_TOOL_OF.find(([type]) => forced.some((each) => type.test(each)))?.[1],
    )
  return yes({
    ...kept,
    // The vendor keeps answers by default; a compacted conversation it only returns, and knows no such key.
    ...(COMPACT.test(rules.path) ? {} : { store: false }),
    ...(TIERS.includes(tier) ? { service_tier: tier } : {}),
    ...(tools.length === 0 ? {} : { tools, ...(choice === undefined ? {} : { tool_choice: choice }) }),
  })
}

const OWN_TOOLS = new Set([
  'apply_patch',
  'computer',
  'computer_use_preview',
  'custom',
  'function',
  'local_shell',
  'namespace',
  'tool_search',
])
const SERVER_TOOL_OF: readonly (readonly [RegExp, ServerTool])[] = [
  [/^web_search/, 'web_search'],
  [/^mcp$/, 'mcp'],
  [/^(?:code_interpreter|shell)$/, 'code_execution'],
  [/^file_search$/, 'files'],
]

function kindOfTool(tool: unknown): ToolKind {
  const type = isObject(tool) ? (textAt(tool, 'type') ?? '') : ''
  const isLocalShell =
    isObject(tool) && type === 'shell' && textAt(objectAt(tool, 'environment'), 'type') === 'local'
  if (OWN_TOOLS.has(type) || isLocalShell) return { is: 'own' }
  const found = SERVER_TOOL_OF.find(([pattern]) => pattern.test(type))
  return { is: 'vendors', name: type || 'without a type', ...(found === undefined ? {} : { tool: found[1] }) }
}

/** A namespace groups tools of the agent, and nothing else. */
function withoutInnerTools(tool: unknown): unknown {
  if (!isObject(tool) || textAt(tool, 'type') !== 'namespace') return tool
  const own = listAt(tool, 'tools').filter(
    (each) => isObject(each) && ['function', 'custom'].includes(String(each.type)),
  )
  return { ...tool, tools: own }
}

const ANY = 'any'

/** The types of the tools that a request insists on. */
function forcedKinds(choice: unknown, hasNoTools: boolean): readonly string[] {
  if (choice === 'required') return hasNoTools ? [ANY] : []
  if (!isObject(choice)) return []
  const types = [choice, ...listAt(choice, 'tools')]
    .filter(isObject)
    .map((each: JsonObject) => String(field(each, 'type')))
  return types.filter((type) => type !== 'function' && type !== 'custom')
}
