/**
 * The scripted agent's lines, in the shape of agentA's stream: an init line, one line for each content block, a result.
 *
 * Every line names the session and itself. What is made up says so: `scripted`, a cost basis of `unknown`, and no key.
 * Values only; who prints them, and when, is the performance's business.
 */
import { MODEL, type ModelUsage, NO_USAGE, type Spent, type Usage } from './usage-meter.ts'

export type Line = Readonly<Record<string, unknown>>
export type Block = Readonly<Record<string, unknown>> & { readonly type: string }

export interface Voice {
  readonly sessionId: string
  readonly cwd: string
  readonly uuid: () => string
  readonly now: () => number
}

export interface Message {
  readonly id: string
  readonly requestId: string
  readonly model: string
}

/** In whose name a line is spoken, when it is a subagent's. */
export interface Nested {
  readonly toolUseId: string
  readonly agentId: string
  readonly description: string
}

/** How an execution ended. */
export interface Ended {
  readonly subtype: 'success' | 'error_during_execution' | 'error_max_turns' | 'error_max_budget_usd'
  readonly reason:
    | 'completed'
    | 'api_error'
    | 'model_error'
    | 'max_turns'
    | 'budget_exhausted'
    | 'aborted_streaming'
  readonly isError: boolean
  /** The final text, or what went wrong. */
  readonly text: string
  readonly stopReason: string | null
  readonly apiError?: Line
}

export interface Figures {
  readonly turns: number
  readonly startedAt: number
  readonly subagents: number
  /** Of the main loop; nothing when it was cut off. */
  readonly usage: Usage
  readonly since: Spent
  readonly total: Spent
  readonly totalUsd: number
}

export class Dialect {
  readonly #voice: Voice

  constructor(voice: Voice) {
    this.#voice = voice
  }

  init(): Line {
    return this.#line({
      type: 'system',
      subtype: 'init',
      cwd: this.#voice.cwd,
      tools: ['Task', 'Bash', 'Edit', 'WebFetch', 'Write'],
      mcp_servers: [],
      model: MODEL,
      permissionMode: 'bypassPermissions',
      slash_commands: ['exit', 'help'],
      apiKeySource: 'none',
      claude_code_version: '0.0.0-scripted',
      output_style: 'default',
      agents: ['general-purpose'],
      skills: [],
      plugins: [],
      capabilities: [],
      scripted: true,
    })
  }

  assistant(message: Message, block: Block, usage: Usage, nested?: Nested): Line {
    return this.#spoken({
      type: 'assistant',
      message: messageOf(message, [block], usage),
      parent_tool_use_id: nested?.toolUseId ?? null,
      request_id: message.requestId,
      ...nestedFields(nested),
    })
  }

  aborted(message: Message, text: string, usage: Usage): Line {
    const block = { type: 'text', text }
    return this.#spoken({
      type: 'assistant',
      message: messageOf(message, [block], usage),
      parent_tool_use_id: null,
      aborted: true,
    })
  }

  interruption(): Line {
    const content = [{ type: 'text', text: '[Request interrupted by user]' }]
    return this.#spoken({ type: 'user', message: { role: 'user', content }, parent_tool_use_id: null })
  }

  toolResult(toolUseId: string, text: string, isError: boolean, structured: Line): Line {
    const content = [{ tool_use_id: toolUseId, type: 'tool_result', content: text, is_error: isError }]
    return this.#spoken({
      type: 'user',
      message: { role: 'user', content },
      parent_tool_use_id: null,
      tool_use_result: structured,
    })
  }

  /** `system` lines about a subagent. */
  task(subtype: 'task_started' | 'task_notification', nested: Nested, fields: Line): Line {
    const { agentId, toolUseId, description } = nested
    return this.#line({
      type: 'system',
      subtype,
      task_id: agentId,
      tool_use_id: toolUseId,
      description,
      subagent_type: 'general-purpose',
      ...fields,
    })
  }

  rateLimit(resetsAt: number): Line {
    return this.#line({ type: 'rate_limit_event', rate_limit_info: rateLimitInfo(resetsAt) })
  }

  /** What an API error looks like among the messages. */
  synthetic(text: string, error: string, apiError: Line): Line {
    const message = { id: this.#voice.uuid(), requestId: 'req_scripted', model: '<synthetic>' }
    return this.#spoken({
      type: 'assistant',
      message: { ...messageOf(message, [{ type: 'text', text }], NO_USAGE), stop_reason: 'stop_sequence' },
      parent_tool_use_id: null,
      error,
      request_id: message.requestId,
      is_api_error_message: true,
      ...apiError,
    })
  }

  /** Its type does not come first, and nobody may rely on that. */
  result(ended: Ended, figures: Figures): Line {
    const durationMs = this.#voice.now() - figures.startedAt
    const words = ended.subtype === 'success' ? { result: ended.text } : { errors: [ended.text] }
    return this.#line({
      duration_api_ms: durationMs,
      stop_reason: ended.stopReason,
      total_cost_usd: figures.totalUsd,
      usage: fullUsage(figures.usage),
      modelUsage: modelUsage(figures.total),
      permission_denials: [],
      terminal_reason: ended.reason,
      subagent_stats: { spawned: figures.subagents, completed: figures.subagents, failed: 0 },
      is_error: ended.isError,
      num_turns: figures.turns,
      subtype: ended.subtype,
      ...(ended.subtype === 'success' ? { api_error_status: null } : {}),
      ...ended.apiError,
      ...words,
      type: 'result',
      duration_ms: durationMs,
      queued_turn_count: 0,
      result_index: 0,
      model_usage_since_last_result: modelUsage(figures.since),
      scripted: true,
    })
  }

  #line(fields: Line): Line {
    return { ...fields, session_id: this.#voice.sessionId, uuid: this.#voice.uuid() }
  }

  #spoken(fields: Line): Line {
    return this.#line({ ...fields, timestamp: new Date(this.#voice.now()).toISOString() })
  }
}

export function messageOf({ id, model }: Message, content: readonly Block[], usage: Usage): Line {
  const streamed = { ...usage, service_tier: 'standard' }
  return {
    id,
    type: 'message',
    role: 'assistant',
    model,
    content,
    stop_reason: null,
    stop_sequence: null,
    usage: streamed,
  }
}

export function rateLimitInfo(resetsAt: number): Line {
  return { status: 'rejected', resetsAt, rateLimitType: 'five_hour', isUsingOverage: false }
}

export function modelUsage(spent: Spent): Line {
  return Object.fromEntries(
    Object.entries(spent).map(([model, usage]) => [model, fullModelUsage(model, usage)]),
  )
}

function fullModelUsage(model: string, usage: ModelUsage): Line {
  return {
    ...usage,
    webSearchRequests: 0,
    contextWindow: 200_000,
    maxOutputTokens: 32_000,
    thinkingTokens: 0,
    cacheCreationEphemeral5mInputTokens: usage.cacheCreationInputTokens,
    cacheCreationEphemeral1hInputTokens: 0,
    canonicalModel: model,
    provider: 'scripted',
    costBasis: 'unknown',
  }
}

function fullUsage(usage: Usage): Line {
  return {
    ...usage,
    server_tool_use: { web_search_requests: 0, web_fetch_requests: 0 },
    service_tier: 'standard',
    cache_creation: {
      ephemeral_5m_input_tokens: usage.cache_creation_input_tokens,
      ephemeral_1h_input_tokens: 0,
    },
  }
}

function nestedFields(nested: Nested | undefined): Line {
  if (nested === undefined) return {}
  return { agent_id: nested.agentId, subagent_type: 'general-purpose', task_description: nested.description }
}
