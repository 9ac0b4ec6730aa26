/**
 * What agentA says while it works.
 *
 * Each line of its stream is an event as it stands. Beside that the session's id is picked out, what is spent so far,
 * the last words, and its own account at the end; there may be several, when work in the background ends later.
 */
import type { PriceTable } from '../../core/run/price.ts'
import type { AgentListener, AgentTask, Heard } from './agent.ts'
import { apiTokens, bill } from './agent-a-reported-cost.ts'
import { accountOf, endingOf, PROVIDER, type Seen } from './agent-a-result.ts'
import { modelName } from './cost.ts'
import { agentEvent, instantAt, logEvents, reasonFrom } from './events.ts'
import {
  field,
  isObject,
  type JsonObject,
  listAt,
  numberAt,
  objectAt,
  objectIn,
  textAt,
} from './json-lines.ts'
import { spending } from './spending.ts'

export function agentAListener(task: AgentTask, prices: PriceTable): AgentListener {
  const payer = {
    isResumed: task.resume !== undefined,
    ...(task.credential === undefined ? {} : { credential: task.credential }),
  }
  const seen: Seen = { spent: spending(prices), bill: bill(payer, prices), wentOn: false }
  return {
    line(text, at) {
      const message = objectIn(text)
      if (message === undefined) return logEvents('stdout', text, at)
      return [agentEvent(PROVIDER, message, at), ...sessionIn(seen, message), ...noted(seen, message)]
    },
    complaint(text, at) {
      const events = logEvents('stderr', text, at)
      if (events.length > 0) seen.complaint = reasonFrom(text)
      return events
    },
    ended: (exit, at) => endingOf(seen, exit, at),
  }
}

// ---- listening ---------------------------------------------------------------------------------------------------

const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/

/** An account alone names a session that may never have begun; any other line is part of one. */
function sessionIn(seen: Seen, message: JsonObject): Heard[] {
  const id = textAt(message, 'session_id')
  if (id === undefined || id === seen.session || !SESSION_ID.test(id)) return []
  if (textAt(message, 'type') === 'result') return []
  seen.session = id
  return [{ is: 'session', id }]
}

function noted(seen: Seen, message: JsonObject): Heard[] {
  switch (textAt(message, 'type')) {
    case 'assistant':
      return notedAnswer(seen, message, objectAt(message, 'message'))
    case 'result':
      return notedAccount(seen, message)
    case 'rate_limit_event':
      return notedLimit(seen, objectAt(message, 'rate_limit_info'))
    case 'system':
      return notedStart(seen, message)
    default:
      return []
  }
}

function notedStart(seen: Seen, message: JsonObject): Heard[] {
  if (textAt(message, 'subtype') !== 'init') return []
  const keySource = textAt(message, 'apiKeySource')
  if (keySource !== undefined) seen.keySource = keySource
  seen.model = modelName(textAt(message, 'model'))
  return []
}

function notedLimit(seen: Seen, info: JsonObject): Heard[] {
  if (textAt(info, 'status') !== 'rejected') return []
  const resetsAt = instantAt((numberAt(info, 'resetsAt') ?? Number.NaN) * 1000)
  const what = (textAt(info, 'rateLimitType') ?? 'unknown').replaceAll('_', ' ')
  seen.rejection = {
    what: reasonFrom(`the agent's usage limit is reached (${what})`),
    ...(resetsAt === undefined ? {} : { resetsAt }),
  }
  return []
}

/** What it makes up itself, to tell of an error, is no answer of a model. */
const MADE_UP = '<synthetic>'

function notedAnswer(seen: Seen, line: JsonObject, answer: JsonObject): Heard[] {
  const model = textAt(answer, 'model')
  if (model === MADE_UP) return []
  const isTurn = typeof field(line, 'parent_tool_use_id') !== 'string'
  const words = isTurn ? wordsOf(answer) : ''
  if (words !== '') seen.words = words
  seen.wentOn = true
  const id = textAt(answer, 'id') ?? textAt(line, 'uuid') ?? ''
  const use = apiTokens(objectAt(answer, 'usage'))
  return seen.spent.add({ id, model: modelName(model), use, isTurn }) ? [spentSoFar(seen)] : []
}

/** One line has one block of an answer. */
function wordsOf(answer: JsonObject): string {
  return listAt(answer, 'content')
    .flatMap((block) =>
      isObject(block) && textAt(block, 'type') === 'text' ? [textAt(block, 'text') ?? ''] : [],
    )
    .join('')
}

function notedAccount(seen: Seen, message: JsonObject): Heard[] {
  seen.bill.add(message, seen.model)
  seen.account = accountOf(message)
  seen.wentOn = false
  return [spentSoFar(seen)]
}

/** Whatever is more: an account comes late, and answers tell of themselves before they are whole. */
function spentSoFar({ spent, bill, keySource }: Seen): Heard {
  const known = [spent.costUsd(), bill.entry(keySource)?.costUsd].filter((usd) => usd !== undefined)
  const cost = known.length === 0 ? {} : { costUsd: Math.max(...known) }
  return { is: 'spent', turns: spent.turns(), ...cost }
}
