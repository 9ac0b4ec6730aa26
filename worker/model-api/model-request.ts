/**
 * `checkModelRequest` decides whether a request from a sandbox may be sent on, and with which headers.
 *
 * Any process of the agent can write to the proxy. Only the vendor's model routes pass, as plain paths, with the headers
 * of a list, so that nobody inside can spend or read with another account. The proxy itself writes the host, the
 * credential and the fields of the body.
 */
import type { IncomingMessage } from 'node:http'
import { no, type Result, yes } from '../../core/result.ts'
import type { ModelAccess } from './model-access.ts'
import { mayLeave } from './passing-headers.ts'

export interface ModelRequest {
  readonly method: 'GET' | 'POST'
  /** Path and query for the vendor. */
  readonly path: string
  /** Without the credential. */
  readonly headers: Readonly<Record<string, string>>
}

/** No percent signs and no dots alone, so that no two programs read the path differently. */
const PLAIN_PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.:-]+)+$/
const QUERY_NAMES = new Set(['alt', 'beta', 'client_version', 'limit', 'pageSize'])
const QUERY_VALUE = /^[\w.:-]{0,100}$/

export function checkModelRequest(
  {
    method,
    url = '',
    headers,
    rawHeaders,
  }: Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders'>,
  { routes }: Pick<ModelAccess, 'routes'>,
): Result<ModelRequest> {
  const [path = '', query = ''] = splitOnce(url, '?')
  const route = PLAIN_PATH.test(path) ? routes.find((known) => known.path.test(path)) : undefined
  if (route === undefined || method !== route.method)
    return no('forbidden', 'this is no request to a model, and the worker sends nothing else on')
  const search = plainQuery(query)
  return yes({
    method: route.method,
    path: search === '' ? path : `${path}?${search}`,
    headers: headersToSend(rawHeaders, String(headers.connection ?? '')),
  })
}

/** Keeps the known parameters; some vendors also take a key in the query. */
function plainQuery(query: string): string {
  const kept = [...new URLSearchParams(query)].filter(
    ([name, value]) => QUERY_NAMES.has(name) && QUERY_VALUE.test(value),
  )
  return new URLSearchParams(kept).toString()
}

/** The first value of each field, because parsers disagree about repeated ones. */
function headersToSend(rawHeaders: readonly string[], connection: string): Record<string, string> {
  const hopFields = new Set(connection.toLowerCase().split(/[\s,]+/))
  const kept: Record<string, string> = {}
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase()
    const value = rawHeaders[at + 1] ?? ''
    if (Object.hasOwn(kept, name) || hopFields.has(name) || !mayLeave(name) || !isPrintable(value)) continue
    kept[name] = value
  }
  return kept
}

const isPrintable = (value: string): boolean => /^[\t -~\x80-\xff]*$/.test(value)

function splitOnce(text: string, by: string): string[] {
  const at = text.indexOf(by)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}
