/** Parses a body into a value of the route's schema, or returns the reply that refuses it. */
import { parseJson } from '../protocol/parse.ts'
import { type Reply, refusal } from './reply.ts'
import type { ServedRoute } from './routes/route-table.ts'

export type JsonBody =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly reply: Reply }

const NEEDS_BODY = refusal(400, 'this route needs a JSON body, and the body is empty')
const NEEDS_JSON = refusal(400, 'the body must be JSON: send the header "Content-Type: application/json"')
const NOT_UTF8 = refusal(400, 'the body is not valid UTF-8')
const IGNORED: JsonBody = { ok: true, value: undefined }

const JSON_CONTENT = /^application\/(?:json|[\w.!#$&^-]+\+json) *(?:;|$)/i

/** A form of a foreign web page can send any text, but not with this content type without a preflight. */
export function isJsonContent(contentType: string): boolean {
  return JSON_CONTENT.test(contentType)
}

export function readJsonBody(row: ServedRoute, isJson: boolean, bytes: Uint8Array): JsonBody {
  if (!row.takesBody) return IGNORED
  if (bytes.byteLength === 0) return row.isBodyOptional ? IGNORED : { ok: false, reply: NEEDS_BODY }
  if (!isJson) return { ok: false, reply: NEEDS_JSON }
  const text = decodeUtf8(bytes)
  if (text === undefined) return { ok: false, reply: NOT_UTF8 }
  const parsed = parseJson(text)
  const checked = parsed.ok ? row.readBody(parsed.value) : parsed
  if (checked.ok) return checked
  return { ok: false, reply: refusal(400, checked.error.replace(/^\/: /, 'the body ')) }
}

const decoder = new TextDecoder('utf-8', { fatal: true })

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}
