/**
 * Determines the outcome of an agentA execution from the observed output.
 *
 * `is_error` of the last result decides about success, because a refused key and a used-up subscription have the
 * subtype `success`. A result that was followed by more work does not count as the last.
 */
import type { AgentExit, AgentExitReport } from '../agent.ts'
import { costEntryOf } from '../cost.ts'
import { describeSilentExit, findSignal, toLimitEvent, toReason, toSummary } from '../events.ts'
import { field, type JsonObject, listAt, textAt } from '../json-lines.ts'
import type { Spending } from '../spending.ts'
import type { ReportedCost } from './reported-cost.ts'

export const PROVIDER = 'agentA'

export interface AgentAState {
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

export interface AgentAResult {
  readonly isError: boolean
  readonly text: string
  readonly isAborted: boolean
  readonly isLimit: boolean
  /** The API refused the credential, or the agent has none. */
  readonly isCredentialRefused: boolean
}

export interface LimitRejection {
  readonly reason: string
  readonly resetsAt?: string
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

export function readResult(message: JsonObject): AgentAResult {
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

export function buildOutcome(state: AgentAState, exit: AgentExit, at: string): AgentExitReport {
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
