/**
 * What agentA's work came to, out of what was heard of it.
 *
 * Whether it succeeded is what `is_error` of its last account says: a refused key and a used-up subscription both call
 * themselves a success otherwise. An account that was followed by more work is not the last.
 */
import type { AgentEnding, AgentExit } from './agent.ts'
import type { Bill } from './agent-a-reported-cost.ts'
import { entryOf } from './cost.ts'
import { endedSilently, limitEvent, reasonFrom, signalOf, summaryFrom } from './events.ts'
import { field, type JsonObject, listAt, textAt } from './json-lines.ts'
import type { Spending } from './spending.ts'

export const PROVIDER = 'agentA'

export interface Seen {
  readonly spent: Spending
  readonly bill: Bill
  /** What counts of the last account. */
  account?: Account
  /** It worked on after that. */
  wentOn: boolean
  session?: string
  /** Where its credential came from, as it says. */
  keySource?: string
  model?: string
  words?: string
  complaint?: string
  /** The limit that it was told is reached. */
  rejection?: Rejection
}

export interface Account {
  readonly isError: boolean
  readonly text: string
  readonly isAborted: boolean
  readonly isLimit: boolean
}

export interface Rejection {
  readonly what: string
  readonly resetsAt?: string
}

// ---- an account --------------------------------------------------------------------------------------------------

const TOO_MANY_REQUESTS = 429
/** It knows its own flags, and people know ours. */
const BUDGETS: ReadonlyMap<unknown, string> = new Map([
  ['error_max_turns', 'agent.maxTurns allows no more'],
  ['error_max_budget_usd', 'agent.maxCostUsd allows no more'],
])

export function accountOf(message: JsonObject): Account {
  const isError = field(message, 'is_error') !== false
  const budget = BUDGETS.get(field(message, 'subtype'))
  const errors = [...listAt(message, 'errors'), budget].filter((error) => typeof error === 'string')
  const isTooMany = isError && field(message, 'api_error_status') === TOO_MANY_REQUESTS
  return {
    isError,
    text: textAt(message, 'result') ?? errors.join('; '),
    isAborted: textAt(message, 'terminal_reason')?.startsWith('aborted') === true,
    isLimit: isTooMany || textAt(message, 'api_error') === 'usage_limit_reached',
  }
}

// ---- the end -----------------------------------------------------------------------------------------------------

export function endingOf(seen: Seen, exit: AgentExit, at: string): AgentEnding {
  const verdict = verdictOf(seen, exit)
  const reason = verdict === 'done' ? undefined : reasonOf(seen, exit, verdict)
  const isTold = verdict === 'done' && seen.account?.text !== ''
  const summary = summaryFrom(isTold ? seen.account?.text : seen.words)
  return {
    verdict,
    ...(reason === undefined ? {} : { reason }),
    ...(summary === undefined ? {} : { summary }),
    ...costOf(seen),
    events: verdict === 'limit' ? [limitEvent(PROVIDER, reason ?? '', at, seen.rejection?.resetsAt)] : [],
  }
}

function verdictOf({ account, wentOn, rejection }: Seen, exit: AgentExit): AgentEnding['verdict'] {
  const last = wentOn ? undefined : account
  if (last?.isError === false && isOrderly(exit)) return 'done'
  if (last?.isAborted === true) return 'interrupted'
  if (rejection !== undefined || last?.isLimit === true) return 'limit'
  const signal = last === undefined ? signalOf(exit) : undefined
  return signal === 'SIGINT' || signal === 'SIGTERM' ? 'interrupted' : 'failed'
}

/** Killed after it had said that it is done, it is done. */
const isOrderly = (exit: AgentExit): boolean => exit.code === 0 || signalOf(exit) !== undefined

function reasonOf(seen: Seen, exit: AgentExit, verdict: AgentEnding['verdict']): string {
  const last = seen.wentOn ? undefined : seen.account
  if (verdict === 'interrupted' && last !== undefined) return 'the agent was interrupted'
  if (last?.isError === true && last.text.trim() !== '') return reasonFrom(last.text)
  if (verdict === 'limit') return seen.rejection?.what ?? "the agent's usage limit is reached"
  return endedSilently(exit, { complaint: seen.complaint, hadResult: last !== undefined })
}

/** Without a last account, what was seen on the way: less than what was used, for no answer was whole yet. */
function costOf({
  bill,
  spent,
  keySource,
  wentOn,
  account,
}: Seen): Pick<AgentEnding, 'cost' | 'costIsPartial'> {
  const cost = bill.entry(keySource)
  if (cost !== undefined && !(wentOn && account !== undefined)) return { cost }
  if (cost !== undefined) return { cost, costIsPartial: true }
  const rows = spent.rows()
  return rows.length === 0 ? {} : { cost: entryOf(PROVIDER, rows, true), costIsPartial: true }
}
