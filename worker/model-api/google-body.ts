/** Filters the bodies of Google's Gemini API. The API also knows each key in snake case; those are left out. */
import { yes } from '../../core/result.ts'
import type { ServerTool } from '../../protocol/agents/model-use.ts'
import { field, isObject, type JsonObject, listAt, objectAt } from '../agents/json-lines.ts'
import { type BodyRules, type FilterBody, pickKeys, refuse, refuseKeys } from './body-rules.ts'

const KEYS = new Set([
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
const OWN_TOOLS = new Set(['computerUse', 'functionDeclarations'])
const SERVER_TOOL_OF: Readonly<Record<string, ServerTool>> = {
  codeExecution: 'code_execution',
  fileSearch: 'files',
  googleSearch: 'web_search',
  googleSearchRetrieval: 'web_search',
  mcpServers: 'mcp',
  urlContext: 'web_fetch',
}

export const filterGoogleBody: FilterBody = (body, rules) => {
  const refused = refuseKeys(body, { cachedContent: 'files', cached_content: 'files' }, rules)
  if (refused !== undefined) return refused
  const { tools: _, toolConfig: config, generationConfig: __, ...kept } = pickKeys(body, KEYS, rules)
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
    const server = Object.hasOwn(SERVER_TOOL_OF, name) ? SERVER_TOOL_OF[name] : undefined
    const isKept = OWN_TOOLS.has(name) || (server !== undefined && serverTools.includes(server))
    if (!isKept) drop(`the tool ${name}`)
    return isKept
  })
  return kept.length === 0 ? [] : [Object.fromEntries(kept)]
}
