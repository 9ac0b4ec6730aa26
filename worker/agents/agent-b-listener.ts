/**
 * What agentB says while it works, and what it came to.
 *
 * Its errors are mostly of the kind that it gets over: only a turn that failed, or an exit code, says that it did not.
 * It tells what it used once, at the end, as one sum without a model's name; its records know more. How long a limit
 * lasts it tells in words.
 */
import type { PriceTable, TokenUse } from '../../core/run/price.ts'
import type { AgentEnding, AgentExit, AgentListener, AgentTask, Heard } from './agent.ts'
import { threadTokens } from './agent-b-tokens.ts'
import { entryOf, pricedRow } from './cost.ts'
import {
  agentEvent,
  endedSilently,
  limitEvent,
  logEvents,
  reasonFrom,
  signalOf,
  summaryFrom,
} from './events.ts'
import { field, isObject, type JsonObject, objectAt, objectIn, textAt } from './json-lines.ts'
import { resetTime } from './reset-time.ts'

const PROVIDER = 'agentB'

export function agentBListener(task: AgentTask, prices: PriceTable): AgentListener {
  const seen: Seen = { turns: 0, isAnswering: false }
  return {
    line(text, at) {
      const message = objectIn(text)
      if (message === undefined) return logEvents('stdout', text, at)
      return [agentEvent(PROVIDER, message, at), ...noted(seen, message, task, prices)]
    },
    complaint(text, at) {
      const events = logEvents('stderr', text, at)
      if (events.length > 0) seen.complaint = reasonFrom(text)
      return events
    },
    ended: (exit, at) => endingOf(seen, task, prices, exit, at),
  }
}

interface Seen {
  turns: number
  /** A turn is what a model says between two things that it is told. */
  isAnswering: boolean
  /** Of the whole thread, so the last word counts. */
  usage?: TokenUse
  failure?: string
  words?: string
  complaint?: string
}

// ---- listening ---------------------------------------------------------------------------------------------------

function noted(seen: Seen, message: JsonObject, task: AgentTask, prices: PriceTable): Heard[] {
  switch (textAt(message, 'type')) {
    case 'item.started':
    case 'item.completed':
      return notedItem(seen, objectAt(message, 'item'), textAt(message, 'type') === 'item.completed')
    case 'turn.failed':
      seen.failure = textAt(objectAt(message, 'error'), 'message') ?? 'the agent failed and did not say why'
      return []
    case 'turn.completed':
      return notedUsage(seen, message, task, prices)
    default:
      return []
  }
}

const SAID = new Set(['agent_message', 'reasoning'])
const DONE = new Set(['command_execution', 'file_change', 'mcp_tool_call', 'web_search'])

function notedItem(seen: Seen, item: JsonObject, isComplete: boolean): Heard[] {
  const type = textAt(item, 'type') ?? ''
  if (!SAID.has(type) && !DONE.has(type)) return []
  if (isComplete && type === 'agent_message') seen.words = textAt(item, 'text') ?? ''
  const isNew = !seen.isAnswering && !(isComplete && DONE.has(type))
  // What a tool answered is what the model is told next.
  seen.isAnswering = !(isComplete && DONE.has(type))
  if (isNew) seen.turns += 1
  return isNew ? [{ is: 'spent', turns: seen.turns }] : []
}

function notedUsage(seen: Seen, message: JsonObject, task: AgentTask, prices: PriceTable): Heard[] {
  if (!isObject(field(message, 'usage'))) return []
  seen.usage = threadTokens(objectAt(message, 'usage'))
  const costUsd = pricedRow(task.agent.model ?? '', seen.usage, prices).costUsd
  return [{ is: 'spent', turns: seen.turns, ...(costUsd === undefined ? {} : { costUsd }) }]
}

// ---- the end -----------------------------------------------------------------------------------------------------

/** Plans, quotas, and too many requests for too long. */
const LIMIT = /usage limit|quota exceeded|insufficient_quota|\b429\b|too many requests/i

function endingOf(seen: Seen, task: AgentTask, prices: PriceTable, exit: AgentExit, at: string): AgentEnding {
  const verdict = verdictOf(seen, exit)
  const reason =
    verdict === 'done'
      ? undefined
      : reasonFrom(
          seen.failure ??
            endedSilently(exit, { complaint: seen.complaint, hadResult: seen.usage !== undefined }),
        )
  const summary = summaryFrom(seen.words)
  const limits =
    verdict === 'limit' ? [limitEvent(PROVIDER, reason ?? '', at, resetTime(reason ?? '', at))] : []
  return {
    verdict,
    ...(reason === undefined ? {} : { reason }),
    ...(summary === undefined ? {} : { summary }),
    ...costOf(seen, task, prices),
    events: limits,
  }
}

function verdictOf({ failure }: Seen, exit: AgentExit): AgentEnding['verdict'] {
  if (failure !== undefined) return LIMIT.test(failure) ? 'limit' : 'failed'
  if (exit.code === 0) return 'done'
  const signal = signalOf(exit)
  return signal === 'SIGINT' || signal === 'SIGTERM' ? 'interrupted' : 'failed'
}

function costOf(
  { usage }: Seen,
  { agent }: AgentTask,
  prices: PriceTable,
): Pick<AgentEnding, 'cost' | 'costIsPartial'> {
  if (usage === undefined) return {}
  const row = pricedRow(agent.model ?? '', usage, prices)
  const { model, ...rest } = entryOf(PROVIDER, [row], true)
  return {
    cost: model === '' ? rest : { ...rest, ...(model === undefined ? {} : { model }) },
    costIsPartial: true,
  }
}
