/**
 * What a terminal shows, as text that is written down once: by the worker, for the host and for the view.
 *
 * The host passes on a terminal's output by the megabyte, and writing it down anew would be the dearest part of that.
 * So of a frame that is, letter by letter, the one that `attachDataText` makes, the data is taken over as it is written
 * there; it must be one JSON string by itself, within the bounds of the schema, so nothing else gets through with it.
 * Of any other frame nothing is said here: it is read as all frames are.
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

/** In front of the data of each frame of a session. */
export const attachDataPrefix = (sessionId: string): string => `${PREFIX}${sessionId}${DATA}`

/** `json`: the data of one frame, as JSON. */
export const attachDataText = (head: string, json: string): string => `${head}${json}}`

/** The frame that a view is sent. */
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
    // Two fields, or none: whoever reads it as any frame finds out.
    return undefined
  }
}

const isId = createChecker(Id)
