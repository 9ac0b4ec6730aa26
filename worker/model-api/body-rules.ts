/**
 * Filters the bodies of requests by vendor: known keys pass, and a vendor's tools pass where a setting allows them. A
 * refusal names that setting.
 */
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { SERVER_TOOLS, type ServerTool } from '../../protocol/agents/model-use.ts'
import { field, isObject, type JsonObject, listAt, objectAt, textAt } from '../agents/json-lines.ts'

export interface BodyRules {
  readonly serverTools: readonly ServerTool[]
  /** Receives the name of each part that is left out. */
  readonly drop: (what: string) => void
  /** The path of the request. */
  readonly path: string
}

/** Returns what of a body may pass. Dropped parts change no meaning that the agent relies on; the rest is refused. */
export type FilterBody = (body: JsonObject, rules: BodyRules) => Result<JsonObject>

// ---- rules that all filters share ----------------------------------------------------------------------------------

export function pickKeys(
  object: JsonObject,
  names: ReadonlySet<string>,
  { drop }: BodyRules,
  prefix = '',
): JsonObject {
  const kept = Object.entries(object).filter(([name]) => names.has(name))
  for (const name of Object.keys(object)) if (!names.has(name)) drop(`${prefix}${name}`)
  return Object.fromEntries(kept)
}

/** `tool` absent: no setting allows it. */
export function refuse(what: string, tool?: ServerTool): Refused {
  const cure = tool === undefined ? 'no setting allows it' : `agent.serverTools can allow it with "${tool}"`
  return no('forbidden', `a request with ${what} is not passed on: it leads beyond the model; ${cure}`)
}

/** Refuses a body that uses one of the keys, unless the tool beside it is allowed. */
export function refuseKeys(
  body: JsonObject,
  keys: Readonly<Record<string, ServerTool | undefined>>,
  { serverTools }: BodyRules,
): Refused | undefined {
  for (const [key, tool] of Object.entries(keys)) {
    const value = field(body, key)
    const isUsed =
      value !== undefined &&
      value !== null &&
      value !== false &&
      !(Array.isArray(value) && value.length === 0)
    if (isUsed && (tool === undefined || !serverTools.includes(tool))) return refuse(key, tool)
  }
  return undefined
}

/** `own`: the agent runs it. Otherwise the vendor does; without a `tool`, no setting allows it. */
export type ToolKind =
  | { readonly is: 'own' }
  | { readonly is: 'vendors'; readonly name: string; readonly tool?: ServerTool }

export interface SortedTools {
  readonly kept: readonly unknown[]
  /** The names of those that were left out. */
  readonly stripped: ReadonlySet<string>
}

export function sortTools(
  tools: readonly unknown[],
  kindOf: (tool: unknown) => ToolKind,
  { serverTools, drop }: BodyRules,
): Result<SortedTools> {
  const [kept, stripped]: [unknown[], Set<string>] = [[], new Set()]
  for (const each of tools) {
    const kind = kindOf(each)
    if (kind.is === 'own' || (kind.tool !== undefined && serverTools.includes(kind.tool))) kept.push(each)
    else if (kind.tool === 'mcp') return refuse('a remote MCP server', 'mcp')
    else {
      stripped.add(kind.name)
      drop(`the tool ${kind.name}`)
    }
  }
  return yes({ kept, stripped })
}

// ---- Anthropic -----------------------------------------------------------------------------------------------------

/** A dearer speed, place or model (`speed`, `inference_geo`, `fallbacks`) is not among them. */
const ANTHROPIC_KEYS = new Set([
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
const ANTHROPIC_TIERS: readonly unknown[] = ['auto', 'standard_only']

/** Filters the bodies of Anthropic's Messages API. */
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
  } = pickKeys(body, new Set([...ANTHROPIC_KEYS, ...allowed]), rules)
  if (tier !== undefined && !ANTHROPIC_TIERS.includes(tier)) rules.drop('service_tier')
  const sorted = sortTools(listAt(body, 'tools'), anthropicKindOfTool, rules)
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
    ...(ANTHROPIC_TIERS.includes(tier) ? { service_tier: tier } : {}),
    ...(tools.length === 0 ? {} : { tools, ...(choice === undefined ? {} : { tool_choice: choice }) }),
  })
}

const METADATA = new Set(['user_id'])

/** Tools that the vendor defines and the agent runs, and the vendor's search among the agent's own tools. */
const OWN_TOOL = /^(?:custom|(?:bash|text_editor|computer|memory|tool_search_tool_(?:regex|bm25))_\d{8})$/
const VENDORS_TOOL = /^(web_search|web_fetch|code_execution|mcp)_/

function anthropicKindOfTool(tool: unknown): ToolKind {
  if (!isObject(tool)) return { is: 'vendors', name: 'without a name' }
  const type = field(tool, 'type') ?? 'custom'
  if (typeof type === 'string' && OWN_TOOL.test(type)) return { is: 'own' }
  const family = VENDORS_TOOL.exec(String(type))?.[1]
  const server = SERVER_TOOLS.find((known) => known === family)
  const name = textAt(tool, 'name') ?? String(type)
  return { is: 'vendors', name, ...(server === undefined ? {} : { tool: server }) }
}

function toolOf(body: JsonObject, names: ReadonlySet<string>): ServerTool | undefined {
  const kinds = listAt(body, 'tools').map(anthropicKindOfTool)
  return kinds.flatMap((kind) => (kind.is === 'vendors' && names.has(kind.name) ? (kind.tool ?? []) : []))[0]
}

// ---- Google --------------------------------------------------------------------------------------------------------

const GOOGLE_KEYS = new Set([
  'contents',
  'generationConfig',
  'model',
  'safetySettings',
  'systemInstruction',
  'toolConfig',
  'tools',
])
/** Several answers at once and answers that are no text are not among them: they cost more than a budget reserves. */
const GENERATION_KEYS = new Set([
  '_responseJsonSchema',
  'frequencyPenalty',
  'maxOutputTokens',
  'mediaResolution',
  'presencePenalty',
  'responseJsonSchema',
  'responseMimeType',
  'responseSchema',
  'seed',
  'stopSequences',
  'temperature',
  'thinkingConfig',
  'topK',
  'topP',
])
const TOOL_CONFIG_KEYS = new Set(['functionCallingConfig'])
const GOOGLE_OWN_TOOLS = new Set(['computerUse', 'functionDeclarations'])
const GOOGLE_SERVER_TOOLS: Readonly<Record<string, ServerTool>> = {
  codeExecution: 'code_execution',
  fileSearch: 'files',
  googleSearch: 'web_search',
  googleSearchRetrieval: 'web_search',
  mcpServers: 'mcp',
  urlContext: 'web_fetch',
}

/** Filters the bodies of Google's Gemini API. The API also knows each key in snake case; those are left out. */
export const filterGoogleBody: FilterBody = (body, rules) => {
  const refused = refuseKeys(body, { cachedContent: 'files', cached_content: 'files' }, rules)
  if (refused !== undefined) return refused
  const { tools: _, toolConfig: config, generationConfig: __, ...kept } = pickKeys(body, GOOGLE_KEYS, rules)
  if (
    listAt(body, 'tools').some((tool) => isObject(tool) && Object.hasOwn(tool, 'mcpServers')) &&
    !rules.serverTools.includes('mcp')
  )
    return refuse('a remote MCP server', 'mcp')
  const tools = listAt(body, 'tools').flatMap((tool) => (isObject(tool) ? keepOwnTools(tool, rules) : []))
  return yes({
    ...kept,
    ...(field(body, 'generationConfig') === undefined
      ? {}
      : {
          generationConfig: pickKeys(
            objectAt(body, 'generationConfig'),
            GENERATION_KEYS,
            rules,
            'generationConfig.',
          ),
        }),
    ...(tools.length === 0
      ? {}
      : {
          tools,
          ...(isObject(config)
            ? { toolConfig: pickKeys(config, TOOL_CONFIG_KEYS, rules, 'toolConfig.') }
            : {}),
        }),
  })
}

function keepOwnTools(tool: JsonObject, { serverTools, drop }: BodyRules): readonly JsonObject[] {
  const kept = Object.entries(tool).filter(([name]) => {
    const server = Object.hasOwn(GOOGLE_SERVER_TOOLS, name) ? GOOGLE_SERVER_TOOLS[name] : undefined
    const isKept = GOOGLE_OWN_TOOLS.has(name) || (server !== undefined && serverTools.includes(server))
    if (!isKept) drop(`the tool ${name}`)
    return isKept
  })
  return kept.length === 0 ? [] : [Object.fromEntries(kept)]
}

// ---- OpenAI --------------------------------------------------------------------------------------------------------

const OPENAI_KEYS = new Set([
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
const OPENAI_TIERS: readonly unknown[] = ['default', 'flex']

/** Filters the bodies of OpenAI's Responses API. */
export const filterOpenAiBody: FilterBody = (body, rules) => {
  const refused = refuseKeys(body, KEPT_THERE, rules)
  if (refused !== undefined) return refused
  const {
    service_tier: tier,
    tools: _,
    tool_choice: choice,
    store: __,
    ...kept
  } = pickKeys(body, OPENAI_KEYS, rules)
  if (tier !== undefined && tier !== null && !OPENAI_TIERS.includes(tier)) rules.drop('service_tier')
  const sorted = sortTools(listAt(body, 'tools').map(withoutInnerTools), openaiKindOfTool, rules)
  if (!sorted.ok) return sorted
  const { kept: tools, stripped } = sorted.value
  const forced = forcedKinds(choice, tools.length === 0)
  if (stripped.size > 0 && forced.some((type) => type === ANY || stripped.has(type)))
    return refuse(
      `the tool ${[...stripped].join(', ')}`,
      OPENAI_SERVER_TOOLS.find(([type]) => forced.some((each) => type.test(each)))?.[1],
    )
  return yes({
    ...kept,
    // The vendor keeps answers by default; a compacted conversation it only returns, and knows no such key.
    ...(COMPACT.test(rules.path) ? {} : { store: false }),
    ...(OPENAI_TIERS.includes(tier) ? { service_tier: tier } : {}),
    ...(tools.length === 0 ? {} : { tools, ...(choice === undefined ? {} : { tool_choice: choice }) }),
  })
}

const OPENAI_OWN_TOOLS = new Set([
  'apply_patch',
  'computer',
  'computer_use_preview',
  'custom',
  'function',
  'local_shell',
  'namespace',
  'tool_search',
])
const OPENAI_SERVER_TOOLS: readonly (readonly [RegExp, ServerTool])[] = [
  [/^web_search/, 'web_search'],
  [/^mcp$/, 'mcp'],
  [/^(?:code_interpreter|shell)$/, 'code_execution'],
  [/^file_search$/, 'files'],
]

function openaiKindOfTool(tool: unknown): ToolKind {
  const type = isObject(tool) ? (textAt(tool, 'type') ?? '') : ''
  const isLocalShell =
    isObject(tool) && type === 'shell' && textAt(objectAt(tool, 'environment'), 'type') === 'local'
  if (OPENAI_OWN_TOOLS.has(type) || isLocalShell) return { is: 'own' }
  const found = OPENAI_SERVER_TOOLS.find(([pattern]) => pattern.test(type))
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
