/**
 * Listens to agentC's output stream and determines the outcome.
 *
 * Text arrives in chunks; consecutive chunks form one answer. The final result counts tokens by model. Thinking tokens
 * are included only in the total, and billed like output. Without a result, the exit code tells the reason.
 */
import type { PriceTable } from '../../../core/run/price.ts'
import type { CostModelUsage } from '../../../protocol/cost.ts'
import type { AgentExit, AgentExitReport, AgentListener, AgentObservation } from '../agent.ts'
import { costEntryOf, priceRow, toModelName } from '../cost.ts'
import {
  describeSilentExit,
  findSignal,
  toAgentEvent,
  toLimitEvent,
  toLogEvents,
  toReason,
  toSummary,
} from '../events.ts'
import { countAt, isObject, type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'

const PROVIDER = 'agentC'

export function createAgentCListener(prices: PriceTable): AgentListener {
  const state: AgentCState = { turns: 0, lastSpeaker: 'user', lastText: '' }
  return {
    onOutputLine(text, at) {
      const message = parseObject(text)
      if (message === undefined) return toLogEvents('stdout', text, at)
      return [toAgentEvent(PROVIDER, message, at), ...observe(state, message, prices)]
    },
    onErrorLine(text, at) {
      const events = toLogEvents('stderr', text, at)
      if (events.length > 0) state.lastErrorLine = toReason(text)
      return events
    },
    onExit: (exit, at) => buildOutcome(state, exit, at),
  }
}

interface AgentCState {
  turns: number
  /** A turn is the model's output between two inputs; text and tool calls may alternate within it. */
  lastSpeaker: 'user' | 'words' | 'tool'
  lastText: string
  model?: string
  result?: AgentCResult
  lastErrorLine?: string
}

interface AgentCResult {
  readonly isError: boolean
  readonly error: string
  readonly rows: readonly CostModelUsage[]
}

// ---- listening ---------------------------------------------------------------------------------------------------

function observe(state: AgentCState, message: JsonObject, prices: PriceTable): AgentObservation[] {
  switch (textAt(message, 'type')) {
    case 'init':
      state.model = toModelName(textAt(message, 'model'))
      return []
    case 'message':
      return observeText(state, message)
    case 'tool_use':
      return observeModelOutput(state, 'tool')
    case 'tool_result':
      state.lastSpeaker = 'user'
      return []
    case 'result':
      return observeResult(state, message, prices)
    default:
      return []
  }
}

/** Limits how much of an answer is kept as a possible last text. */
const TEXT_CHARS_MAX = 256 * 1024

function observeText(state: AgentCState, message: JsonObject): AgentObservation[] {
  if (textAt(message, 'role') !== 'assistant') {
    state.lastSpeaker = 'user'
    return []
  }
  const before = state.lastSpeaker === 'words' ? state.lastText : ''
  if (before.length < TEXT_CHARS_MAX) state.lastText = before + (textAt(message, 'content') ?? '')
  return observeModelOutput(state, 'words')
}

function observeModelOutput(state: AgentCState, speaker: 'words' | 'tool'): AgentObservation[] {
  const isNew = state.lastSpeaker === 'user'
  state.lastSpeaker = speaker
  if (!isNew) return []
  state.turns += 1
  return [{ is: 'spent', turns: state.turns }]
}

function observeResult(state: AgentCState, message: JsonObject, prices: PriceTable): AgentObservation[] {
  const rows = readRows(objectAt(message, 'stats'), state.model, prices)
  const error = extractErrorText(textAt(objectAt(message, 'error'), 'message') ?? '')
  state.result = { isError: textAt(message, 'status') !== 'success', error, rows }
  const costUsd = costEntryOf(PROVIDER, rows, true).costUsd
  return [{ is: 'spent', turns: state.turns, ...(costUsd === undefined ? {} : { costUsd }) }]
}

function readRows(stats: JsonObject, model: string | undefined, prices: PriceTable): CostModelUsage[] {
  const models = Object.entries(objectAt(stats, 'models'))
  const rows = models.flatMap(([name, use]) =>
    isObject(use) ? [readRow(toModelName(name), use, prices)] : [],
  )
  return rows.length > 0 ? rows : [readRow(toModelName(model), stats, prices)]
}

function readRow(model: string, use: JsonObject, prices: PriceTable): CostModelUsage {
  const prompt = countAt(use, 'input_tokens')
  const cacheReadTokens = Math.min(countAt(use, 'cached'), prompt)
  const tokens = {
    inputTokens: prompt - cacheReadTokens,
    outputTokens: Math.max(countAt(use, 'output_tokens'), countAt(use, 'total_tokens') - prompt),
    cacheReadTokens,
    cacheWriteTokens: 0,
  }
  return priceRow(model, tokens, prices)
}

/**
 * Extracts the reason from `[API Error: …]`, which contains the API's JSON or plain text, and advice for interactive
 * use.
 */
function extractErrorText(message: string): string {
  const inner = /^\[API Error: ([\s\S]*?)\](?:\n|$)/.exec(message)?.[1] ?? message
  const api = parseObject(inner)
  return (api === undefined ? undefined : textAt(objectAt(api, 'error'), 'message')) ?? inner
}

// ---- the end -----------------------------------------------------------------------------------------------------

const LIMIT = /quota|rate limit|resource_exhausted|too many requests|\b429\b/i
/** The HTTP status 429, truncated to the 8 bits of an exit code. */
const EXIT_TOO_MANY_REQUESTS = 429 & 0xff

/** The API refuses the key or the login. */
const UNAUTHORIZED = /API key not valid|API_KEY_INVALID|UNAUTHENTICATED|\b401\b/
const EXIT_NO_CREDENTIAL = 41

const REASON_BY_EXIT_CODE: Readonly<Record<number, string>> = {
  41: 'the agent has no credential; set one with: switchyard config set agent.agentCApiKey',
  42: 'the agent does not understand how it was started',
  44: 'the agent could not use its own sandbox',
  52: 'the agent does not understand its settings',
  53: 'the agent reached its limit of turns',
  54: "one of the agent's tools failed for good",
  55: 'the agent does not trust the checkout',
}

function buildOutcome(state: AgentCState, exit: AgentExit, at: string): AgentExitReport {
  const verdict = judgeVerdict(state, exit)
  const reason = verdict === 'done' ? undefined : explainVerdict(state, exit)
  const summary = toSummary(state.lastText)
  return {
    verdict,
    ...(reason === undefined ? {} : { reason }),
    ...(verdict === 'failed' && isCredentialRefused(state, exit) ? { isCredentialRefused: true } : {}),
    ...(summary === undefined ? {} : { summary }),
    ...(state.result === undefined ? {} : { cost: costEntryOf(PROVIDER, state.result.rows, true) }),
    events: verdict === 'limit' ? [toLimitEvent(PROVIDER, reason ?? '', at, undefined)] : [],
  }
}

const isCredentialRefused = ({ result }: AgentCState, exit: AgentExit): boolean =>
  exit.code === EXIT_NO_CREDENTIAL || UNAUTHORIZED.test(result?.error ?? '')

function judgeVerdict({ result, lastErrorLine }: AgentCState, exit: AgentExit): AgentExitReport['verdict'] {
  if (exit.code === 0 && result?.isError === false) return 'done'
  const errorText = result === undefined ? (lastErrorLine ?? '') : result.error
  if (exit.code === EXIT_TOO_MANY_REQUESTS || LIMIT.test(errorText)) return 'limit'
  const signal = findSignal(exit)
  return signal === 'SIGINT' || signal === 'SIGTERM' ? 'interrupted' : 'failed'
}

function explainVerdict({ result, lastErrorLine }: AgentCState, exit: AgentExit): string {
  if (result !== undefined && result.error.trim() !== '') return toReason(result.error)
  const known = REASON_BY_EXIT_CODE[exit.code ?? 0]
  return known === undefined
    ? describeSilentExit(exit, { lastErrorLine, hadResult: result !== undefined })
    : toReason(`${known}${lastErrorLine === undefined ? '' : `: ${lastErrorLine}`}`)
}
