/**
 * Listens to agentB's output stream and determines the outcome.
 *
 * Most errors in the stream are recoverable; only a failed turn or the exit code means failure. The usage is reported
 * once at the end, as one sum without a model name; the session records have details. The end of a usage limit is
 * reported only in prose.
 */
import type { PriceTable, TokenUse } from '../../../core/run/price.ts'
import type { AgentExit, AgentExitReport, AgentListener, AgentObservation, AgentTask } from '../agent.ts'
import { costEntryOf, priceRow } from '../cost.ts'
import {
  describeSilentExit,
  findSignal,
  toAgentEvent,
  toLimitEvent,
  toLogEvents,
  toReason,
  toSummary,
} from '../events.ts'
import { field, isObject, type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'
import { parseResetTime } from '../reset-time.ts'
import { readThreadTokens } from './tokens.ts'

const PROVIDER = 'agentB'

export function createAgentBListener(task: AgentTask, prices: PriceTable): AgentListener {
  const state: AgentBState = { turns: 0, isAnswering: false }
  return {
    onOutputLine(text, at) {
      const message = parseObject(text)
      if (message === undefined) return toLogEvents('stdout', text, at)
      return [toAgentEvent(PROVIDER, message, at), ...observe(state, message, task, prices)]
    },
    onErrorLine(text, at) {
      const events = toLogEvents('stderr', text, at)
      if (events.length > 0) state.lastErrorLine = toReason(text)
      return events
    },
    onExit: (exit, at) => buildOutcome(state, task, prices, exit, at),
  }
}

interface AgentBState {
  turns: number
  /** A turn is the model's output between two inputs (the prompt or a tool result). */
  isAnswering: boolean
  /** Usage of the whole thread, so the latest report counts. */
  usage?: TokenUse
  failure?: string
  lastText?: string
  lastErrorLine?: string
}

// ---- listening ---------------------------------------------------------------------------------------------------

function observe(
  state: AgentBState,
  message: JsonObject,
  task: AgentTask,
  prices: PriceTable,
): AgentObservation[] {
  switch (textAt(message, 'type')) {
    case 'item.started':
    case 'item.completed':
      return observeItem(state, objectAt(message, 'item'), textAt(message, 'type') === 'item.completed')
    case 'turn.failed':
      state.failure = textAt(objectAt(message, 'error'), 'message') ?? 'the agent failed and did not say why'
      return []
    case 'turn.completed':
      return observeUsage(state, message, task, prices)
    default:
      return []
  }
}

const MODEL_ITEMS = new Set(['agent_message', 'reasoning'])
const TOOL_ITEMS = new Set(['command_execution', 'file_change', 'mcp_tool_call', 'web_search'])

function observeItem(state: AgentBState, item: JsonObject, isComplete: boolean): AgentObservation[] {
  const type = textAt(item, 'type') ?? ''
  if (!MODEL_ITEMS.has(type) && !TOOL_ITEMS.has(type)) return []
  if (isComplete && type === 'agent_message') state.lastText = textAt(item, 'text') ?? ''
  const isNew = !state.isAnswering && !(isComplete && TOOL_ITEMS.has(type))
  // A completed tool call is the model's next input.
  state.isAnswering = !(isComplete && TOOL_ITEMS.has(type))
  if (isNew) state.turns += 1
  return isNew ? [{ is: 'spent', turns: state.turns }] : []
}

function observeUsage(
  state: AgentBState,
  message: JsonObject,
  task: AgentTask,
  prices: PriceTable,
): AgentObservation[] {
  if (!isObject(field(message, 'usage'))) return []
  state.usage = readThreadTokens(objectAt(message, 'usage'))
  const costUsd = priceRow(task.agent.model ?? '', state.usage, prices).costUsd
  return [{ is: 'spent', turns: state.turns, ...(costUsd === undefined ? {} : { costUsd }) }]
}

// ---- the end -----------------------------------------------------------------------------------------------------

/** The API refuses the key or the login, and then the agent cannot renew the login. */
const UNAUTHORIZED =
  /\b401 Unauthorized\b|invalid_api_key|Not logged in|Failed to refresh token|token could not be refreshed/i
/** Messages about plan limits, quotas and persistent rate limiting. */
const LIMIT = /usage limit|quota exceeded|insufficient_quota|\b429\b|too many requests/i

function buildOutcome(
  state: AgentBState,
  task: AgentTask,
  prices: PriceTable,
  exit: AgentExit,
  at: string,
): AgentExitReport {
  const verdict = judgeVerdict(state, exit)
  const reason =
    verdict === 'done'
      ? undefined
      : toReason(
          state.failure ??
            describeSilentExit(exit, {
              lastErrorLine: state.lastErrorLine,
              hadResult: state.usage !== undefined,
            }),
        )
  const summary = toSummary(state.lastText)
  const limits =
    verdict === 'limit' ? [toLimitEvent(PROVIDER, reason ?? '', at, parseResetTime(reason ?? '', at))] : []
  return {
    verdict,
    ...(reason === undefined ? {} : { reason }),
    ...(verdict === 'failed' && UNAUTHORIZED.test(state.failure ?? '') ? { isCredentialRefused: true } : {}),
    ...(summary === undefined ? {} : { summary }),
    ...buildCost(state, task, prices),
    events: limits,
  }
}

function judgeVerdict({ failure }: AgentBState, exit: AgentExit): AgentExitReport['verdict'] {
  if (failure !== undefined) return LIMIT.test(failure) ? 'limit' : 'failed'
  if (exit.code === 0) return 'done'
  const signal = findSignal(exit)
  return signal === 'SIGINT' || signal === 'SIGTERM' ? 'interrupted' : 'failed'
}

function buildCost(
  { usage }: AgentBState,
  { agent }: AgentTask,
  prices: PriceTable,
): Pick<AgentExitReport, 'cost' | 'costIsPartial'> {
  if (usage === undefined) return {}
  const row = priceRow(agent.model ?? '', usage, prices)
  const { model, ...rest } = costEntryOf(PROVIDER, [row], true)
  return {
    cost: model === '' ? rest : { ...rest, ...(model === undefined ? {} : { model }) },
    costIsPartial: true,
  }
}
