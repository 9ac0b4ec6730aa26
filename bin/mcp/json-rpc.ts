/**
 * Parses one line as a JSON-RPC 2.0 message. The line is untrusted: its size is limited by the reader, its depth and its
 * keys here.
 */
import { isSafeJson } from '../../protocol/parse.ts'
import { isObject } from '../../protocol/schema-errors.ts'

export const PARSE_ERROR = -32_700
export const INVALID_REQUEST = -32_600
export const METHOD_NOT_FOUND = -32_601
export const INVALID_PARAMS = -32_602
/** An error code of the Model Context Protocol. */
export const UNSUPPORTED_VERSION = -32_022

export type RequestId = string | number
export type RpcParams = Readonly<Record<string, unknown>>

export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: object
}

export type RpcMessage =
  | { readonly kind: 'request'; readonly id: RequestId; readonly method: string; readonly params: RpcParams }
  | { readonly kind: 'notification'; readonly method: string; readonly params: RpcParams }
  /** The server asks its client nothing, so an answer is ignored. */
  | { readonly kind: 'answer' }
  | { readonly kind: 'invalid'; readonly id: RequestId | null; readonly error: RpcError }

export function parseMessage(line: string): RpcMessage {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return invalid(null, PARSE_ERROR, 'this line is not JSON')
  }
  if (Array.isArray(value))
    return invalid(null, INVALID_REQUEST, 'a batch is not supported: send one message in a line')
  if (!isObject(value)) return invalid(null, INVALID_REQUEST, 'a message must be an object')
  const id = isId(value.id) ? value.id : null
  if (!isSafeJson(value))
    return invalid(id, INVALID_REQUEST, 'the message is nested too deeply, or has too many keys')
  return messageOf(value, id)
}

function messageOf(value: Readonly<Record<string, unknown>>, id: RequestId | null): RpcMessage {
  const { jsonrpc, method, params = {} } = value
  if (jsonrpc !== '2.0') return invalid(id, INVALID_REQUEST, 'jsonrpc must be "2.0"')
  if (method === undefined && ('result' in value || 'error' in value)) return { kind: 'answer' }
  if (typeof method !== 'string') return invalid(id, INVALID_REQUEST, 'method must be a string')
  if ('id' in value && id === null)
    return invalid(null, INVALID_REQUEST, 'id must be a string or a whole number')
  if (!isObject(params)) return invalid(id, INVALID_PARAMS, 'params must be an object')
  return id === null ? { kind: 'notification', method, params } : { kind: 'request', id, method, params }
}

function invalid(id: RequestId | null, code: number, message: string): RpcMessage {
  return { kind: 'invalid', id, error: { code, message } }
}

export const isId = (value: unknown): value is RequestId =>
  typeof value === 'string' || Number.isSafeInteger(value)
