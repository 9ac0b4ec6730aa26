/** Filters the bodies of Anthropic's Messages API. */
import { yes } from '../../core/result.ts'
import { SERVER_TOOLS, type ServerTool } from '../../protocol/agents/model-use.ts'
import { field, isObject, type JsonObject, listAt, objectAt, textAt } from '../agents/json-lines.ts'
import { type FilterBody, pickKeys, refuse, refuseKeys, sortTools, type ToolKind } from './body-rules.ts'

/** A dearer speed, place or model (`speed`, `inference_geo`, `fallbacks`) is not among them. */
const KEYS = new Set([
  'cache_control',
  'context_management',
  'max_tokens',
  'messages',
  'metadata',
  'model',
  'output_config',
  'output_format',
  'service_tier',
  'stop_sequences',
  'stream',
  'system',
  'temperature',
  'thinking',
  'tool_choice',
  'tools',
  'top_k',
  'top_p',
])
const TOOL_KEYS = { mcp_servers: 'mcp', container: 'code_execution' } as const
const TIERS: readonly unknown[] = ['auto', 'standard_only']

export const filterAnthropicBody: FilterBody = (body, rules) => {
  const refused = refuseKeys(body, TOOL_KEYS, rules)
  if (refused !== undefined) return refused
  const allowed = Object.entries(TOOL_KEYS).flatMap(([key, tool]) =>
    rules.serverTools.includes(tool) ? [key] : [],
  )
  const {
    service_tier: tier,
    tools: _,
    tool_choice: choice,
    ...kept
  } = pickKeys(body, new Set([...KEYS, ...allowed]), rules)
  if (tier !== undefined && !TIERS.includes(tier)) rules.drop('service_tier')
  const sorted = sortTools(listAt(body, 'tools'), kindOfTool, rules)
  if (!sorted.ok) return sorted
  const { kept: tools, stripped } = sorted.value
  const forced = isObject(choice) ? choice : {}
  const isForced =
    (textAt(forced, 'type') === 'tool' && stripped.has(textAt(forced, 'name') ?? '')) ||
    (textAt(forced, 'type') === 'any' && tools.length === 0)
  if (isForced && stripped.size > 0)
    return refuse(`the tool ${[...stripped].join(', ')}`, toolOf(body, stripped))
  return yes({
    ...kept,
    ...(isObject(field(kept, 'metadata'))
      ? { metadata: pickKeys(objectAt(kept, 'metadata'), METADATA, rules, 'metadata.') }
      : {}),
    ...(TIERS.includes(tier) ? { service_tier: tier } : {}),
    ...(tools.length === 0 ? {} : { tools, ...(choice === undefined ? {} : { tool_choice: choice }) }),
  })
}

const METADATA = new Set(['user_id'])

/** Tools that the vendor defines and the agent runs, and the vendor's search among the agent's own tools. */
const OWN_TOOL = /^(?:custom|(?:bash|text_editor|computer|memory|tool_search_tool_(?:regex|bm25))_\d{8})$/
const VENDORS_TOOL = /^(web_search|web_fetch|code_execution|mcp)_/

function kindOfTool(tool: unknown): ToolKind {
  if (!isObject(tool)) return { is: 'vendors', name: 'without a name' }
  const type = field(tool, 'type') ?? 'custom'
  if (typeof type === 'string' && OWN_TOOL.test(type)) return { is: 'own' }
  const family = VENDORS_TOOL.exec(String(type))?.[1]
  const server = SERVER_TOOLS.find((known) => known === family)
  const name = textAt(tool, 'name') ?? String(type)
  return { is: 'vendors', name, ...(server === undefined ? {} : { tool: server }) }
}

function toolOf(body: JsonObject, names: ReadonlySet<string>): ServerTool | undefined {
  const kinds = listAt(body, 'tools').map(kindOfTool)
  return kinds.flatMap((kind) => (kind.is === 'vendors' && names.has(kind.name) ? (kind.tool ?? []) : []))[0]
}
