/**
 * What agentA says while it works.
 *
 * Each line of its stream is an event as it stands. Beside that the session's id is picked out, what is spent so far,
 * the last words, and its own account at the end; there may be several, when work in the background ends later.
 */
import type { PriceTable } from '../../core/run/price.ts'
import type { AgentListener, AgentObservation, AgentTask } from './agent.ts'
import { createReportedCost, readApiTokens } from './agent-a-reported-cost.ts'
import { type AgentAState, buildOutcome, PROVIDER, readResult } from './agent-a-result.ts'
import { toModelName } from './cost.ts'
import { toAgentEvent, toIsoInstant, toLogEvents, toReason } from './events.ts'
import {
  field,
  isObject,
  type JsonObject,
  listAt,
  numberAt,
  objectAt,
  parseObject,
  textAt,
} from './json-lines.ts'
import { createSpending } from './spending.ts'

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

// ---- listening ---------------------------------------------------------------------------------------------------

const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/

/** An account alone names a session that may never have begun; any other line is part of one. */
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

/** What it makes up itself, to tell of an error, is no answer of a model. */
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

/** One line has one block of an answer. */
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

/** Whatever is more: an account comes late, and answers tell of themselves before they are whole. */
function currentSpending({ spending: spent, reportedCost: bill, keySource }: AgentAState): AgentObservation {
  const known = [spent.costUsd(), bill.entry(keySource)?.costUsd].filter((usd) => usd !== undefined)
  const cost = known.length === 0 ? {} : { costUsd: Math.max(...known) }
  return { is: 'spent', turns: spent.turns(), ...cost }
}
