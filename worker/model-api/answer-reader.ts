/**
 * `AnswerReader` finds the JSON values that may name usage in a passing answer.
 *
 * A stream of events has one value on each `data:` line; only lines that mention usage are parsed. Any other answer is
 * one value, or a list of values, that is complete at its end. Memory is bounded: longer lines and answers are ignored.
 */
import { MODEL_ANSWER_BYTES_MAX } from '../../protocol/limits.ts'
import { isObject, type JsonObject } from '../agents/json-lines.ts'
import { createLineReader, type LineReader } from '../agents/line-reader.ts'

const USAGE_KEY = '"usage'
const USAGE = Buffer.from(USAGE_KEY)

export interface AnswerReader {
  push(bytes: Uint8Array): readonly JsonObject[]
  /** Returns the values of the unfinished rest. */
  flush(): readonly JsonObject[]
}

export function createAnswerReader(contentType: string | undefined): AnswerReader {
  return /^text\/event-stream\b/i.test(contentType ?? '') ? readEvents(createLineReader(USAGE)) : readWhole()
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
