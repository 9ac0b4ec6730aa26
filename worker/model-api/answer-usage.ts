/**
 * Reads the usage that a vendor names in a model's answer: one value of a stream of events, or a whole answer.
 * `createAnswerReader` finds these values in the bytes of an answer.
 *
 * The figures of an answer grow with the stream, so the latest count. Vendors word the same figures differently: some
 * count cached tokens among the input, some do not.
 */

import { createLineReader, type LineReader } from '../../core/line-reader.ts'
import type { TokenUse } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { readApiTokens } from '../agents/agent-a/reported-cost.ts'
import { countAt, field, isObject, type JsonObject, listAt, objectAt, textAt } from '../agents/json-lines.ts'

export interface AnswerUsage {
  /** Absent until an event names the model. */
  readonly model?: string
  /** Absent until an event names figures. */
  readonly use?: TokenUse
  /** If the answer is whole, its figures are these. */
  readonly isFinal: boolean
  /** The answer has no more to come, even if its end was not seen. */
  readonly isLast?: boolean
}

/** Returns undefined when the value names neither usage nor a model. */
export type ReadAnswerUsage = (value: JsonObject, before: AnswerUsage | undefined) => AnswerUsage | undefined

export const USAGE_READERS: Readonly<Record<AgentProvider, ReadAnswerUsage>> = {
  agentA: readAnthropicUsage,
  agentB: readOpenAiUsage,
  agentC: readGoogleUsage,
}

/** `message_start` names the input, each `message_delta` the output so far; a whole answer is the message itself. */
function readAnthropicUsage(value: JsonObject, before: AnswerUsage | undefined): AnswerUsage | undefined {
  const isStart = textAt(value, 'type') === 'message_start'
  const message = isStart ? objectAt(value, 'message') : value
  const usage = field(message, 'usage')
  if (!isObject(usage)) return undefined
  const use = readApiTokens(usage)
  const known = before?.use
  return {
    ...modelOf(message, 'model', before),
    // A delta may leave out what has not changed.
    use: known === undefined ? use : highest(known, use),
    isFinal: !isStart,
    isLast: !isStart,
  }
}

/** The last event of a response repeats the response, with its usage. Chunks of a chat name it beside the choices. */
function readOpenAiUsage(value: JsonObject, before: AnswerUsage | undefined): AnswerUsage | undefined {
  const inner = field(value, 'response')
  const response = isObject(inner) ? inner : value
  const usage = field(response, 'usage')
  // The first event of a response has the model, and null for the usage.
  if (!isObject(usage)) return { ...before, ...modelOf(response, 'model', before), isFinal: false }
  const isChat = Object.hasOwn(usage, 'prompt_tokens')
  const input = countAt(usage, isChat ? 'prompt_tokens' : 'input_tokens')
  const details = objectAt(usage, isChat ? 'prompt_tokens_details' : 'input_tokens_details')
  const cacheReadTokens = Math.min(countAt(details, 'cached_tokens'), input)
  const cacheWriteTokens = Math.min(countAt(details, 'cache_write_tokens'), input - cacheReadTokens)
  const use = {
    inputTokens: input - cacheReadTokens - cacheWriteTokens,
    outputTokens: countAt(usage, isChat ? 'completion_tokens' : 'output_tokens'),
    cacheReadTokens,
    cacheWriteTokens,
  }
  return { ...modelOf(response, 'model', before), use, isFinal: true, isLast: true }
}

/** Each chunk names the figures so far. Thoughts are billed as output, results of tools as input. */
function readGoogleUsage(value: JsonObject, before: AnswerUsage | undefined): AnswerUsage | undefined {
  const usage = field(value, 'usageMetadata')
  if (!isObject(usage)) return undefined
  const prompt = countAt(usage, 'promptTokenCount') + countAt(usage, 'toolUsePromptTokenCount')
  const cacheReadTokens = Math.min(countAt(usage, 'cachedContentTokenCount'), prompt)
  const use = {
    inputTokens: prompt - cacheReadTokens,
    outputTokens: countAt(usage, 'candidatesTokenCount') + countAt(usage, 'thoughtsTokenCount'),
    cacheReadTokens,
    cacheWriteTokens: 0,
  }
  const isLast = listAt(value, 'candidates').some(
    (each) => isObject(each) && Object.hasOwn(each, 'finishReason'),
  )
  return { ...modelOf(value, 'modelVersion', before), use, isFinal: true, isLast }
}

function modelOf(
  value: JsonObject,
  name: string,
  before: AnswerUsage | undefined,
): { readonly model?: string } {
  const model = textAt(value, name) ?? before?.model
  return model === undefined ? {} : { model }
}

function highest(a: TokenUse, b: TokenUse): TokenUse {
  return {
    inputTokens: Math.max(a.inputTokens, b.inputTokens),
    outputTokens: Math.max(a.outputTokens, b.outputTokens),
    cacheReadTokens: Math.max(a.cacheReadTokens, b.cacheReadTokens),
    cacheWriteTokens: Math.max(a.cacheWriteTokens, b.cacheWriteTokens),
    cacheWriteHourTokens: Math.max(a.cacheWriteHourTokens ?? 0, b.cacheWriteHourTokens ?? 0),
  }
}

// ---- the values of an answer ---------------------------------------------------------------------------------------

const USAGE_KEY = '"usage'
const USAGE = Buffer.from(USAGE_KEY)

/** An answer that comes as one piece; the usage of a larger one is estimated. */
export const MODEL_ANSWER_BYTES_MAX = 16 * 1024 * 1024

/**
 * Finds the JSON values that may name usage in a passing answer.
 *
 * A stream of events has one value on each `data:` line; only lines that mention usage are parsed. Any other answer is
 * one value, or a list of values, that is complete at its end. Memory is bounded: longer lines and answers are
 * ignored.
 */
export interface AnswerReader {
  push(bytes: Uint8Array): readonly JsonObject[]
  /** Returns the values of the unfinished rest. */
  flush(): readonly JsonObject[]
}

export function createAnswerReader(contentType: string | undefined): AnswerReader {
  return /^text\/event-stream\b/i.test(contentType ?? '')
    ? readEvents(createLineReader({ marker: USAGE }))
    : readWhole()
}

function readEvents(lines: LineReader): AnswerReader {
  return {
    push: (bytes) => lines.push(bytes).flatMap(readEventLine),
    flush: () => lines.flush().flatMap(readEventLine),
  }
}

function readEventLine(line: string): readonly JsonObject[] {
  if (!line.startsWith('data:') || !line.includes(USAGE_KEY)) return []
  return valuesOf(line.slice('data:'.length))
}

function readWhole(): AnswerReader {
  let parts: Buffer[] = []
  let length = 0
  return {
    push(bytes) {
      length += bytes.length
      // Copy the bytes: the caller may reuse its buffer.
      if (length <= MODEL_ANSWER_BYTES_MAX) parts.push(Buffer.from(bytes))
      else parts = []
      return []
    },
    flush: () => valuesOf(Buffer.concat(parts).toString('utf8')),
  }
}

function valuesOf(text: string): readonly JsonObject[] {
  try {
    const value: unknown = JSON.parse(text)
    return (Array.isArray(value) ? value : [value]).filter(isObject)
  } catch {
    return []
  }
}
