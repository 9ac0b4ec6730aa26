/**
 * Builds the scripted agent's output lines in the format of agentA's stream: init, one line per content block, result.
 *
 * Every line has the session id and a uuid. Invented values are marked: `scripted`, cost basis `unknown`, no API key.
 * `ScriptRunner` decides when to print the lines.
 */
import { SCRIPTED_MODEL } from '../../../core/run/cost.ts'
import { type ModelUsage, NO_USAGE, type Usage, type UsageByModel } from './usage-meter.ts'

export type StreamLine = Readonly<Record<string, unknown>>
export type ContentBlock = Readonly<Record<string, unknown>> & { readonly type: string }

export interface LineSource {
  readonly sessionId: string
  readonly cwd: string
  readonly uuid: () => string
  readonly now: () => number
}

export interface MessageHeader {
  readonly id: string
  readonly requestId: string
  readonly model: string
}

/** The subagent that a line belongs to. */
export interface SubagentTask {
  readonly toolUseId: string
  readonly agentId: string
  readonly description: string
}

/** How an execution ended. */
export interface ExecutionEnd {
  readonly subtype: 'success' | 'error_during_execution' | 'error_max_turns' | 'error_max_budget_usd'
  readonly reason:
    | 'completed'
    | 'api_error'
    | 'model_error'
    | 'max_turns'
    | 'budget_exhausted'
    | 'aborted_streaming'
  readonly isError: boolean
  /** The final text, or the error. */
  readonly text: string
  readonly stopReason: string | null
  readonly apiError?: StreamLine
}

export interface ExecutionFigures {
  readonly turns: number
  readonly startedAt: number
  readonly subagents: number
  /** Usage of the main loop; zero when the execution was interrupted or ran out of budget. */
  readonly usage: Usage
  readonly since: UsageByModel
  readonly total: UsageByModel
  readonly totalUsd: number
}

export class StreamLines {
  readonly #source: LineSource

  constructor(source: LineSource) {
    this.#source = source
  }

  init(): StreamLine {
    return this.#withSession({
      type: 'system',
      subtype: 'init',
      cwd: this.#source.cwd,
      tools: ['Task', 'Bash', 'Edit', 'WebFetch', 'Write'],
      mcp_servers: [],
      model: SCRIPTED_MODEL,
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

  assistant(message: MessageHeader, block: ContentBlock, usage: Usage, nested?: SubagentTask): StreamLine {
    return this.#withTimestamp({
      type: 'assistant',
      message: toApiMessage(message, [block], usage),
      parent_tool_use_id: nested?.toolUseId ?? null,
      request_id: message.requestId,
      ...subagentFields(nested),
    })
  }

  aborted(message: MessageHeader, text: string, usage: Usage): StreamLine {
    const block = { type: 'text', text }
    return this.#withTimestamp({
      type: 'assistant',
      message: toApiMessage(message, [block], usage),
      parent_tool_use_id: null,
      aborted: true,
    })
  }

  interruption(): StreamLine {
    const content = [{ type: 'text', text: '[Request interrupted by user]' }]
    return this.#withTimestamp({ type: 'user', message: { role: 'user', content }, parent_tool_use_id: null })
  }

  toolResult(toolUseId: string, text: string, isError: boolean, structured: StreamLine): StreamLine {
    const content = [{ tool_use_id: toolUseId, type: 'tool_result', content: text, is_error: isError }]
    return this.#withTimestamp({
      type: 'user',
      message: { role: 'user', content },
      parent_tool_use_id: null,
      tool_use_result: structured,
    })
  }

  /** Builds the `system` lines about a subagent. */
  task(subtype: 'task_started' | 'task_notification', nested: SubagentTask, fields: StreamLine): StreamLine {
    const { agentId, toolUseId, description } = nested
    return this.#withSession({
      type: 'system',
      subtype,
      task_id: agentId,
      tool_use_id: toolUseId,
      description,
      subagent_type: 'general-purpose',
      ...fields,
    })
  }

  rateLimit(resetsAt: number): StreamLine {
    return this.#withSession({ type: 'rate_limit_event', rate_limit_info: toRateLimitInfo(resetsAt) })
  }

  /** Builds the message with which agentA reports an API error. */
  synthetic(text: string, error: string, apiError: StreamLine): StreamLine {
    const message = { id: this.#source.uuid(), requestId: 'req_scripted', model: '<synthetic>' }
    return this.#withTimestamp({
      type: 'assistant',
      message: { ...toApiMessage(message, [{ type: 'text', text }], NO_USAGE), stop_reason: 'stop_sequence' },
      parent_tool_use_id: null,
      error,
      request_id: message.requestId,
      is_api_error_message: true,
      ...apiError,
    })
  }

  /** `type` is deliberately not the first field: readers must not depend on the order. */
  result(end: ExecutionEnd, figures: ExecutionFigures): StreamLine {
    const durationMs = this.#source.now() - figures.startedAt
    const words = end.subtype === 'success' ? { result: end.text } : { errors: [end.text] }
    return this.#withSession({
      duration_api_ms: durationMs,
      stop_reason: end.stopReason,
      total_cost_usd: figures.totalUsd,
      usage: toFullUsage(figures.usage),
      modelUsage: toModelUsage(figures.total),
      permission_denials: [],
      terminal_reason: end.reason,
      subagent_stats: { spawned: figures.subagents, completed: figures.subagents, failed: 0 },
      is_error: end.isError,
      num_turns: figures.turns,
      subtype: end.subtype,
      ...(end.subtype === 'success' ? { api_error_status: null } : {}),
      ...end.apiError,
      ...words,
      type: 'result',
      duration_ms: durationMs,
      queued_turn_count: 0,
      result_index: 0,
      model_usage_since_last_result: toModelUsage(figures.since),
      scripted: true,
    })
  }

  #withSession(fields: StreamLine): StreamLine {
    return { ...fields, session_id: this.#source.sessionId, uuid: this.#source.uuid() }
  }

  #withTimestamp(fields: StreamLine): StreamLine {
    return this.#withSession({ ...fields, timestamp: new Date(this.#source.now()).toISOString() })
  }
}

export function toApiMessage(
  { id, model }: MessageHeader,
  content: readonly ContentBlock[],
  usage: Usage,
): StreamLine {
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

export function toRateLimitInfo(resetsAt: number): StreamLine {
  return { status: 'rejected', resetsAt, rateLimitType: 'five_hour', isUsingOverage: false }
}

export function toModelUsage(spent: UsageByModel): StreamLine {
  return Object.fromEntries(
    Object.entries(spent).map(([model, usage]) => [model, toFullModelUsage(model, usage)]),
  )
}

function toFullModelUsage(model: string, usage: ModelUsage): StreamLine {
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

function toFullUsage(usage: Usage): StreamLine {
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

function subagentFields(subagent: SubagentTask | undefined): StreamLine {
  if (subagent === undefined) return {}
  return {
    agent_id: subagent.agentId,
    subagent_type: 'general-purpose',
    task_description: subagent.description,
  }
}
