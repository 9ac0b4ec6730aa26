/**
 * Listens to agentA's output stream.
 *
 * Each JSON line is reported as an event. The listener also extracts the session id, the usage so far, the last text,
 * and the final result. Several results can occur when background work ends later.
 */
import type { PriceTable } from '../../../core/run/price.ts'
import type { AgentListener, AgentObservation, AgentTask } from '../agent.ts'
import { toModelName } from '../cost.ts'
import { toAgentEvent, toIsoInstant, toLogEvents, toReason } from '../events.ts'
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
import { createSpending } from '../spending.ts'
import { createReportedCost, readApiTokens } from './reported-cost.ts'
import { type AgentAState, buildOutcome, PROVIDER, readResult } from './result.ts'

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
