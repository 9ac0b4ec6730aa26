/**
 * `ModelGate` decides what of a request's body leaves for the vendor, because a vendor can carry data and money on.
 *
 * Keys that nobody knows are left out, so that an agent works on the day of its release. What is known to lead beyond
 * the model is refused, or left out where the agent works without it. `agent.serverTools` allows it by name.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { bareName } from '../../core/run/price.ts'
import type { ServerTool } from '../../protocol/agents/model-use.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { field, isObject, type JsonObject, textAt } from '../agents/json-lines.ts'
import {
  type FilterBody,
  filterAnthropicBody,
  filterGoogleBody,
  filterOpenAiBody,
  refuse,
} from './body-rules.ts'
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

// ---- the models of a run -------------------------------------------------------------------------------------------

interface ModelChoice {
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

/**
 * Models that cost more than the dearest listed price, or bill something else than text: a budget would count too
 * little.
 */
const BEYOND_PRICES: Readonly<Record<AgentProvider, readonly string[]>> = {
  agentA: [],
  agentB: ['*-pro', '*-pro-*', 'gpt-4.5*', '*image*', '*audio*', '*realtime*', '*-tts*', '*transcribe*'],
  agentC: ['*image*', '*audio*', '*-live*', '*-tts*'],
}

/**
 * Says which models a run may ask: what `agent.models` lists, or else the run's own and the vendor's helpers.
 *
 * A run without a model of its own may ask all of its vendor. So a new default works on the day of its release; the
 * budget counts it at the dearest price until it has one.
 */
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

// ---- the betas of vendors ------------------------------------------------------------------------------------------

/**
 * Betas of Anthropic that may pass. A beta can open a way out of the vendor's API, or a dearer price.
 *
 * Anthropic's names end with a day; a later day of a known one passes, so that an agent works on the day of its
 * release.
 */
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

interface SortedBetas {
  readonly known: readonly string[]
  readonly unknown: readonly string[]
}

function sortAnthropicBetas(header: string, tools: readonly ServerTool[]): SortedBetas {
  return sort(header, (name) => {
    const family = name.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2})$/, '')
    return ALWAYS.has(family) || tools.some((tool) => OF_TOOLS[tool].includes(family))
  })
}

function sortOpenAiBetas(header: string): SortedBetas {
  return sort(header, (name) => OPENAI_BETAS.has(name))
}

/** Splits the names of a header into those that may pass and the others. */
function sort(header: string, isKnown: (name: string) => boolean): SortedBetas {
  const names = header.split(',').map((name) => name.trim())
  const given = names.filter((name) => name !== '')
  return { known: given.filter(isKnown), unknown: given.filter((name) => !isKnown(name)) }
}

// ---- references to what lies outside a request ---------------------------------------------------------------------

interface OutsideReference {
  readonly what: string
  /** Absent: no setting allows it. */
  readonly tool?: ServerTool
}

/** Values under these keys are arguments and results of the agent's own tools. */
const OWN_DATA = new Set(['arguments', 'args', 'response'])
const ADDRESS_KEY = /^(?:image|video|audio|file|input|document)_?url$/i
const FILE_KEY = /^(?:file_?id|file_?ids|file_?uri)$/i

/**
 * Finds what a vendor would fetch, or has kept, in the conversation of a request.
 *
 * An address of an image makes the vendor ask a server of the sandbox's choice, with data in the name. Arguments of the
 * agent's own tools are texts to the vendor, and are not searched.
 */
function findOutsideReference(value: unknown, allowed: readonly ServerTool[]): OutsideReference | undefined {
  const left: unknown[] = [value]
  while (left.length > 0) {
    const next = left.pop()
    if (Array.isArray(next)) for (const each of next) left.push(each)
    else if (isObject(next)) {
      const found = referenceIn(next)
      if (found !== undefined && !(found.tool !== undefined && allowed.includes(found.tool))) return found
      for (const [key, inner] of Object.entries(next))
        if (typeof inner === 'object' && !isOwnData(next, key)) left.push(inner)
    }
  }
  return undefined
}

const isOwnData = (holder: JsonObject, key: string): boolean =>
  OWN_DATA.has(key) || (key === 'input' && String(holder.type).endsWith('tool_use'))

function referenceIn(object: JsonObject): OutsideReference | undefined {
  const type = textAt(object, 'type')
  if (type === 'container_upload') return { what: 'a file of a container', tool: 'code_execution' }
  if (type === 'item_reference') return { what: 'a stored item' }
  for (const [key, value] of Object.entries(object)) {
    if (key === 'source' && isObject(value)) {
      const kind = textAt(value, 'type')
      if (kind === 'url') return { what: 'an address to fetch', tool: 'urls' }
      if (kind === 'file') return { what: 'a stored file', tool: 'files' }
    }
    if (ADDRESS_KEY.test(key) && isAddress(value)) return { what: 'an address to fetch', tool: 'urls' }
    if (FILE_KEY.test(key) && (typeof value === 'string' || Array.isArray(value)))
      return isForeignFile(value)
        ? { what: 'an address to fetch', tool: 'urls' }
        : { what: 'a stored file', tool: 'files' }
  }
  return undefined
}

/** A file that the request itself brings along has no address. */
function isAddress(value: unknown): boolean {
  if (isObject(value)) return isAddress(value.url)
  return typeof value === 'string' && !value.startsWith('data:')
}

/** Gemini names its stored files by address too. */
const STORED_FILE = /^https:\/\/generativelanguage\.googleapis\.com\/v1(?:alpha|beta)?\/files\/[\w-]+$/

const isForeignFile = (value: unknown): boolean =>
  typeof value === 'string' && /^[a-z][a-z\d+.-]*:/i.test(value) && !STORED_FILE.test(value)
