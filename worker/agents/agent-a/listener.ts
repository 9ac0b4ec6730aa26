/**
 * Listens to agentA's output stream.
 *
 * Each JSON line is reported as an event. The listener also extracts the session id, the usage so far, the last text,
 * and the final result. Several results can occur when background work ends later.
 */
import type { PriceTable } from '../../../core/run/price.ts'
import type { AgentExit, AgentExitReport, AgentListener, AgentObservation, AgentTask } from '../agent.ts'
import { costEntryOf, toModelName } from '../cost.ts'
import {
  describeSilentExit,
  findSignal,
  toAgentEvent,
  toIsoInstant,
  toLimitEvent,
  toLogEvents,
  toReason,
  toSummary,
} from '../events.ts'
import {
  field,
  isObject,
  type JsonObject,
  listAt,
  numberAt,
  objectAt,
  parseObject,
  textAt,
} from '../json-lines.ts'
import { createSpending, type Spending } from '../spending.ts'
import { createReportedCost, type ReportedCost, readApiTokens } from './reported-cost.ts'

export function createAgentAListener(task: AgentTask, prices: PriceTable): AgentListener {
  const billing = {
    isResumed: task.resume !== undefined,
    ...(task.credential === undefined ? {} : { credential: task.credential }),
  }
  const state: AgentAState = {
    spending: createSpending(prices),
    reportedCost: createReportedCost(billing, prices),
    hasWorkedSinceResult: false,
  }
  return {
    onOutputLine(text, at) {
      const message = parseObject(text)
      if (message === undefined) return toLogEvents('stdout', text, at)
      return [toAgentEvent(PROVIDER, message, at), ...findSession(state, message), ...observe(state, message)]
    },
    onErrorLine(text, at) {
      const events = toLogEvents('stderr', text, at)
      if (events.length > 0) state.lastErrorLine = toReason(text)
      return events
    },
    onExit: (exit, at) => buildOutcome(state, exit, at),
  }
}

const PROVIDER = 'agentA'

interface AgentAState {
  readonly spending: Spending
  readonly reportedCost: ReportedCost
  /** The relevant fields of the last result. */
  lastResult?: AgentAResult
  /** The agent continued working after that result. */
  hasWorkedSinceResult: boolean
  sessionId?: string
  /** The credential source that the agent reported. */
  keySource?: string
  model?: string
  lastText?: string
  lastErrorLine?: string
  /** The usage limit that the API reported as reached. */
  rejection?: LimitRejection
}

interface AgentAResult {
  readonly isError: boolean
  readonly text: string
  readonly isAborted: boolean
  readonly isLimit: boolean
  /** The API refused the credential, or the agent has none. */
  readonly isCredentialRefused: boolean
}

interface LimitRejection {
  readonly reason: string
  readonly resetsAt?: string
}

// ---- listening ---------------------------------------------------------------------------------------------------

const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/

/** A result line may name a session that never started; any other line belongs to a started session. */
function findSession(state: AgentAState, message: JsonObject): AgentObservation[] {
  const id = textAt(message, 'session_id')
  if (id === undefined || id === state.sessionId || !SESSION_ID.test(id)) return []
  if (textAt(message, 'type') === 'result') return []
  state.sessionId = id
  return [{ is: 'session', id }]
}

function observe(state: AgentAState, message: JsonObject): AgentObservation[] {
  switch (textAt(message, 'type')) {
    case 'assistant':
      return observeAnswer(state, message, objectAt(message, 'message'))
    case 'result':
      return observeResult(state, message)
    case 'rate_limit_event':
      return observeLimit(state, objectAt(message, 'rate_limit_info'))
    case 'system':
      return observeStart(state, message)
    default:
      return []
  }
}

function observeStart(state: AgentAState, message: JsonObject): AgentObservation[] {
  if (textAt(message, 'subtype') !== 'init') return []
  const keySource = textAt(message, 'apiKeySource')
  if (keySource !== undefined) state.keySource = keySource
  state.model = toModelName(textAt(message, 'model'))
  return []
}

function observeLimit(state: AgentAState, info: JsonObject): AgentObservation[] {
  if (textAt(info, 'status') !== 'rejected') return []
  const resetsAt = toIsoInstant((numberAt(info, 'resetsAt') ?? Number.NaN) * 1000)
  const limitName = (textAt(info, 'rateLimitType') ?? 'unknown').replaceAll('_', ' ')
  state.rejection = {
    reason: toReason(`the agent's usage limit is reached (${limitName})`),
    ...(resetsAt === undefined ? {} : { resetsAt }),
  }
  return []
}

/** The model name of messages that the agent generates itself to report an error. */
const SYNTHETIC_MODEL = '<synthetic>'

function observeAnswer(state: AgentAState, line: JsonObject, answer: JsonObject): AgentObservation[] {
  const model = textAt(answer, 'model')
  if (model === SYNTHETIC_MODEL) return []
  const isTurn = typeof field(line, 'parent_tool_use_id') !== 'string'
  const words = isTurn ? textOf(answer) : ''
  if (words !== '') state.lastText = words
  state.hasWorkedSinceResult = true
  const id = textAt(answer, 'id') ?? textAt(line, 'uuid') ?? ''
  const use = readApiTokens(objectAt(answer, 'usage'))
  return state.spending.add({ id, model: toModelName(model), use, isTurn }) ? [currentSpending(state)] : []
}

/** Joins the text blocks of an answer; each stream line carries one block. */
function textOf(answer: JsonObject): string {
  return listAt(answer, 'content')
    .flatMap((block) =>
      isObject(block) && textAt(block, 'type') === 'text' ? [textAt(block, 'text') ?? ''] : [],
    )
    .join('')
}

function observeResult(state: AgentAState, message: JsonObject): AgentObservation[] {
  state.reportedCost.add(message, state.model)
  state.lastResult = readResult(message)
  state.hasWorkedSinceResult = false
  return [currentSpending(state)]
}

/** Reports the larger cost: results come late, and answers report figures before they are complete. */
function currentSpending({ spending, reportedCost, keySource }: AgentAState): AgentObservation {
  const known = [spending.costUsd(), reportedCost.entry(keySource)?.costUsd].filter(
    (usd) => usd !== undefined,
  )
  const cost = known.length === 0 ? {} : { costUsd: Math.max(...known) }
  return { is: 'spent', turns: spending.turns(), ...cost }
}

// ---- results -----------------------------------------------------------------------------------------------------

const TOO_MANY_REQUESTS = 429
const UNAUTHORIZED = 401
const NO_LOGIN = /^(Not logged in|Invalid API key)/
/** The agent names its own flags in its messages; these name our configuration keys. */
const BUDGET_MESSAGES: ReadonlyMap<unknown, string> = new Map([
  ['error_max_turns', 'agent.maxTurns allows no more'],
  ['error_max_budget_usd', 'agent.maxCostUsd allows no more'],
])

/**
 * Reads a result line. `is_error` decides about success, because a refused key and a used-up subscription have the
 * subtype `success`.
 */
function readResult(message: JsonObject): AgentAResult {
  const isError = field(message, 'is_error') !== false
  const budget = BUDGET_MESSAGES.get(field(message, 'subtype'))
  const errors = [...listAt(message, 'errors'), budget].filter((error) => typeof error === 'string')
  const isTooManyRequests = isError && field(message, 'api_error_status') === TOO_MANY_REQUESTS
  const text = textAt(message, 'result') ?? errors.join('; ')
  const isUnauthorized = field(message, 'api_error_status') === UNAUTHORIZED || NO_LOGIN.test(text)
  return {
    isError,
    text,
    isAborted: textAt(message, 'terminal_reason')?.startsWith('aborted') === true,
    isLimit: isTooManyRequests || textAt(message, 'api_error') === 'usage_limit_reached',
    isCredentialRefused: isError && isUnauthorized,
  }
}

// ---- the end -----------------------------------------------------------------------------------------------------

function buildOutcome(state: AgentAState, exit: AgentExit, at: string): AgentExitReport {
  const verdict = judgeVerdict(state, exit)
  const reason = verdict === 'done' ? undefined : explainVerdict(state, exit, verdict)
  const hasResultText = verdict === 'done' && state.lastResult?.text !== ''
  const summary = toSummary(hasResultText ? state.lastResult?.text : state.lastText)
  return {
    verdict,
    ...(reason === undefined ? {} : { reason }),
    ...(verdict === 'failed' && isCredentialRefused(state) ? { isCredentialRefused: true } : {}),
    ...(summary === undefined ? {} : { summary }),
    ...costSoFar(state),
    events: verdict === 'limit' ? [toLimitEvent(PROVIDER, reason ?? '', at, state.rejection?.resetsAt)] : [],
  }
}

const isCredentialRefused = ({ lastResult, hasWorkedSinceResult }: AgentAState): boolean =>
  !hasWorkedSinceResult && lastResult?.isCredentialRefused === true

/** A result that was followed by more work does not count as the last. */
function judgeVerdict(
  { lastResult, hasWorkedSinceResult, rejection }: AgentAState,
  exit: AgentExit,
): AgentExitReport['verdict'] {
  const last = hasWorkedSinceResult ? undefined : lastResult
  if (last?.isError === false && isOrderlyExit(exit)) return 'done'
  if (last?.isAborted === true) return 'interrupted'
  if (rejection !== undefined || last?.isLimit === true) return 'limit'
  const signal = last === undefined ? findSignal(exit) : undefined
  return signal === 'SIGINT' || signal === 'SIGTERM' ? 'interrupted' : 'failed'
}

/** An agent that was killed after it reported success is done. */
const isOrderlyExit = (exit: AgentExit): boolean => exit.code === 0 || findSignal(exit) !== undefined

function explainVerdict(state: AgentAState, exit: AgentExit, verdict: AgentExitReport['verdict']): string {
  const last = state.hasWorkedSinceResult ? undefined : state.lastResult
  if (verdict === 'interrupted' && last !== undefined) return 'the agent was interrupted'
  if (last?.isError === true && last.text.trim() !== '') return toReason(last.text)
  if (verdict === 'limit') return state.rejection?.reason ?? "the agent's usage limit is reached"
  return describeSilentExit(exit, { lastErrorLine: state.lastErrorLine, hadResult: last !== undefined })
}

/** Without a final result, the observed usage is the cost; it is too low, because answers were not complete yet. */
function costSoFar({
  reportedCost,
  spending,
  keySource,
  hasWorkedSinceResult,
  lastResult,
}: AgentAState): Pick<AgentExitReport, 'cost' | 'costIsPartial'> {
  const cost = reportedCost.entry(keySource)
  if (cost !== undefined && !(hasWorkedSinceResult && lastResult !== undefined)) return { cost }
  if (cost !== undefined) return { cost, costIsPartial: true }
  const rows = spending.rows()
  return rows.length === 0 ? {} : { cost: costEntryOf(PROVIDER, rows, true), costIsPartial: true }
}
