/**
 * What agentA's work came to, out of what was heard of it.
 *
 * Whether it succeeded is what `is_error` of its last account says: a refused key and a used-up subscription both call
 * themselves a success otherwise. An account that was followed by more work is not the last.
 */
import type { AgentExit, AgentExitReport } from './agent.ts'
import type { ReportedCost } from './agent-a-reported-cost.ts'
import { costEntryOf } from './cost.ts'
import { describeSilentExit, findSignal, toLimitEvent, toReason, toSummary } from './events.ts'
import { field, type JsonObject, listAt, textAt } from './json-lines.ts'
import type { Spending } from './spending.ts'

export const PROVIDER = 'agentA'

export interface AgentAState {
  readonly spending: Spending
  readonly reportedCost: ReportedCost
  /** What counts of the last account. */
  lastResult?: AgentAResult
  /** It worked on after that. */
  hasWorkedSinceResult: boolean
  sessionId?: string
  /** Where its credential came from, as it says. */
  keySource?: string
  model?: string
  lastText?: string
  lastErrorLine?: string
  /** The limit that it was told is reached. */
  rejection?: LimitRejection
}

export interface AgentAResult {
  readonly isError: boolean
  readonly text: string
  readonly isAborted: boolean
  readonly isLimit: boolean
}

export interface LimitRejection {
  readonly reason: string
  readonly resetsAt?: string
}

// ---- an account --------------------------------------------------------------------------------------------------

const TOO_MANY_REQUESTS = 429
/** It knows its own flags, and people know ours. */
const BUDGET_MESSAGES: ReadonlyMap<unknown, string> = new Map([
  ['error_max_turns', 'agent.maxTurns allows no more'],
  ['error_max_budget_usd', 'agent.maxCostUsd allows no more'],
])

export function readResult(message: JsonObject): AgentAResult {
  const isError = field(message, 'is_error') !== false
  const budget = BUDGET_MESSAGES.get(field(message, 'subtype'))
  const errors = [...listAt(message, 'errors'), budget].filter((error) => typeof error === 'string')
  const isTooManyRequests = isError && field(message, 'api_error_status') === TOO_MANY_REQUESTS
  return {
    isError,
    text: textAt(message, 'result') ?? errors.join('; '),
    isAborted: textAt(message, 'terminal_reason')?.startsWith('aborted') === true,
    isLimit: isTooManyRequests || textAt(message, 'api_error') === 'usage_limit_reached',
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
    ...(summary === undefined ? {} : { summary }),
    ...costSoFar(state),
    events: verdict === 'limit' ? [toLimitEvent(PROVIDER, reason ?? '', at, state.rejection?.resetsAt)] : [],
  }
}

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

/** Killed after it had said that it is done, it is done. */
const isOrderlyExit = (exit: AgentExit): boolean => exit.code === 0 || findSignal(exit) !== undefined

function explainVerdict(state: AgentAState, exit: AgentExit, verdict: AgentExitReport['verdict']): string {
  const last = state.hasWorkedSinceResult ? undefined : state.lastResult
  if (verdict === 'interrupted' && last !== undefined) return 'the agent was interrupted'
  if (last?.isError === true && last.text.trim() !== '') return toReason(last.text)
  if (verdict === 'limit') return state.rejection?.reason ?? "the agent's usage limit is reached"
  return describeSilentExit(exit, { lastErrorLine: state.lastErrorLine, hadResult: last !== undefined })
}

/** Without a last account, what was seen on the way: less than what was used, for no answer was whole yet. */
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
