/**
 * Forwards terminal output as text that is serialized only once, by the worker.
 *
 * The host forwards megabytes of terminal output, and serializing it again would be the largest cost. When a frame
 * has exactly the form that `attachDataText` produces, its `data` is copied as it stands; it must be a single JSON
 * string within the schema's limits, so nothing else can pass. Other frames are parsed like any frame.
 */
import { ATTACH_DATA_CHARS_MAX } from './limits.ts'
import { createChecker } from './parse.ts'
import { Id } from './schema-helpers.ts'

export interface AttachData {
  readonly sessionId: string
  readonly data: string
  /** `data` as JSON. */
  readonly json: string
}

const PREFIX = '{"type":"attach-data","sessionId":"'
const DATA = '","data":'

/** The text before the data in each frame of a session. */
export const attachDataPrefix = (sessionId: string): string => `${PREFIX}${sessionId}${DATA}`

/** Builds a worker frame. `json`: the data as JSON. */
export const attachDataText = (head: string, json: string): string => `${head}${json}}`

/** Builds the frame for a view. `json`: the data as JSON. */
export const viewDataText = (json: string): string => `{"type":"data","data":${json}}`

export function readAttachData(text: string): AttachData | undefined {
  if (!text.startsWith(PREFIX) || !text.endsWith('"}')) return undefined
  const idEnd = text.indexOf('"', PREFIX.length)
  if (!text.startsWith(`${DATA}"`, idEnd)) return undefined
  const sessionId = text.slice(PREFIX.length, idEnd)
  const json = text.slice(idEnd + DATA.length, -1)
  const data = parseData(json)
  return data === undefined || !isId(sessionId).ok ? undefined : { sessionId, data, json }
}

function parseData(json: string): string | undefined {
  try {
    const data: unknown = JSON.parse(json)
    return typeof data === 'string' && data.length <= ATTACH_DATA_CHARS_MAX ? data : undefined
  } catch {
    // Not a single JSON string; the ordinary parser reports what is wrong.
    return undefined
  }
}

const isId = createChecker(Id)
