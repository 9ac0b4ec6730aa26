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
import { countAt, field, isObject, type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'

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

/** Converts agentB's token counts: its input count includes cached tokens, its output count includes reasoning. */
export function readThreadTokens(usage: JsonObject): TokenUse {
  const cacheReadTokens = countAt(usage, 'cached_input_tokens')
  const cacheWriteTokens = countAt(usage, 'cache_write_input_tokens')
  return {
    inputTokens: Math.max(0, countAt(usage, 'input_tokens') - cacheReadTokens - cacheWriteTokens),
    outputTokens: countAt(usage, 'output_tokens'),
    cacheReadTokens,
    cacheWriteTokens,
  }
}

// ---- the end of a usage limit --------------------------------------------------------------------------------------

/**
 * Parses the time when a usage limit ends from an agent's message: `try again at 2:22 AM`, `try again at Nov 22nd,
 * 2026 2:22 AM`, `try again in 3 hours 5 minutes`. A time of day means its next occurrence after `reportedAt`, in UTC.
 *
 * Returns undefined for other messages, and for times further away than any limit lasts.
 */
export function parseResetTime(text: string, reportedAt: string): string | undefined {
  const now = Date.parse(reportedAt)
  const ms = parseDuration(text, now) ?? parseDate(text) ?? parseTimeOfDay(text, now)
  if (ms === undefined || !(ms >= now - LATE_MS_MAX && ms <= now + LIMIT_MS_MAX)) return undefined
  return new Date(ms).toISOString()
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const LIMIT_MS_MAX = 62 * DAY_MS
/** Tolerates clock differences and delayed messages. */
const LATE_MS_MAX = HOUR_MS

const CLOCK = '(\\d{1,2}):(\\d{2})(?::\\d{2})?\\s*([AP])M'
const AT_CLOCK = new RegExp(`try again at ${CLOCK}`, 'i')
const AT_DATE = new RegExp(
  `try again at ([A-Z]{3})[a-z]* (\\d{1,2})(?:st|nd|rd|th)?,? (\\d{4}),? ${CLOCK}`,
  'i',
)
const IN_SPAN =
  /try again in (?:(\d{1,3}) days?)?[ ,]*(?:(\d{1,3}) hours?)?[ ,]*(?:(\d{1,4}) minutes?)?[ ,]*(?:(\d{1,5}) seconds?)?/i
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

function parseDuration(text: string, now: number): number | undefined {
  const found = IN_SPAN.exec(text)
  if (found === null || found.slice(1).every((part) => part === undefined)) return undefined
  const [, days = 0, hours = 0, minutes = 0, seconds = 0] = found.map(Number).map((n) => (n > 0 ? n : 0))
  return now + days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * 1000
}

function parseDate(text: string): number | undefined {
  const [, name = '', day, year, hour, minute, half = ''] = AT_DATE.exec(text) ?? []
  const month = MONTHS.indexOf(name.toLowerCase())
  if (month < 0) return undefined
  return Date.UTC(Number(year), month, Number(day)) + timeOfDay(hour, minute, half)
}

function parseTimeOfDay(text: string, now: number): number | undefined {
  const [whole, hour, minute, half = ''] = AT_CLOCK.exec(text) ?? []
  if (whole === undefined) return undefined
  const today = Math.floor(now / DAY_MS) * DAY_MS + timeOfDay(hour, minute, half)
  return today > now ? today : today + DAY_MS
}

function timeOfDay(hour: string | undefined, minute: string | undefined, half: string): number {
  const noon = half.toLowerCase() === 'p' ? 12 : 0
  return ((Number(hour) % 12) + noon) * HOUR_MS + Number(minute) * MINUTE_MS
}
