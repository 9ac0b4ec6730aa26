/**
 * Decides what passes between a sandbox and a vendor: which requests, which answers, and the headers of both; every
 * header that is not listed stays behind.
 *
 * A list of what is forbidden would miss the spellings of gateways (`x_api_key`), fields that change what a request is
 * (`x-http-method-override`), and whatever a vendor invents next. The account behind an answer is nobody's concern
 * inside.
 */
import type { IncomingMessage } from 'node:http'
import { no, type Result, yes } from '../../core/result.ts'
import type { UpstreamResponse } from './dialed-upstream.ts'
import type { ModelAccess } from './model-access.ts'

interface PassingFields {
  readonly names: ReadonlySet<string>
  readonly beginnings: readonly string[]
  readonly limits?: RegExp
}

const REQUEST_FIELDS: PassingFields = {
  names: new Set([
    'accept',
    'accept-language',
    'user-agent',
    'x-app',
    'x-client-request-id',
    // Claude Code
    'anthropic-beta',
    'anthropic-dangerous-direct-browser-access',
    'anthropic-version',
    // Codex: one session's requests reach the same cache.
    'conversation_id',
    'openai-beta',
    'originator',
    'session-id',
    'session_id',
    'thread-id',
    'version',
    'x-codex-beta-features',
    'x-codex-parent-thread-id',
    'x-codex-turn-metadata',
    'x-codex-turn-state',
    'x-codex-window-id',
    'x-openai-subagent',
    'x-responsesapi-include-timing-metrics',
    // Gemini CLI
    'x-goog-api-client',
  ]),
  beginnings: ['x-stainless-'],
}

const ANSWER_FIELDS: PassingFields = {
  names: new Set([
    'content-length',
    'content-type',
    'date',
    // Codex compares the list of models with `x-models-etag`.
    'etag',
    'retry-after',
    'retry-after-ms',
    'x-should-retry',
    // People name it when they ask the vendor about a request.
    'cf-ray',
    'request-id',
    'x-request-id',
    'openai-model',
    'openai-processing-ms',
    'openai-version',
    'x-codex-active-limit',
    'x-codex-turn-state',
    'x-models-etag',
    'x-reasoning-included',
  ]),
  // Agents say by these when a limit ends.
  beginnings: [
    'anthropic-ratelimit-',
    'x-codex-credits-',
    'x-codex-primary-',
    'x-codex-secondary-',
    'x-ratelimit-',
  ],
  /** The limits of single models bear their names. */
  limits: /^x-codex-[a-z0-9-]+-(?:primary|secondary)-[a-z0-9-]+$/,
}

export const mayLeave = (name: string): boolean => passes(REQUEST_FIELDS, name)
export const mayReturn = (name: string): boolean => passes(ANSWER_FIELDS, name)

function passes({ names, beginnings, limits }: PassingFields, name: string): boolean {
  return (
    names.has(name) ||
    limits?.test(name) === true ||
    (/^[a-z0-9-]+$/.test(name) && beginnings.some((beginning) => name.startsWith(beginning)))
  )
}

// ---- requests ------------------------------------------------------------------------------------------------------

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

/**
 * Decides whether a request from a sandbox may be sent on, and with which headers.
 *
 * Any process of the agent can write to the proxy. Only the vendor's model routes pass, as plain paths, with the headers
 * of a list, so that nobody inside can spend or read with another account. The proxy itself writes the host, the
 * credential and the fields of the body.
 */
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

// ---- answers -------------------------------------------------------------------------------------------------------

/**
 * Returns the headers of a vendor's answer that an agent receives: nothing of the account, and nothing of the
 * connection.
 */
export function headersToPass(
  headers: UpstreamResponse['headers'],
  mask: (text: string) => string,
): Record<string, string> {
  const passed: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || !mayReturn(name)) continue
    passed[name] = mask(typeof value === 'string' ? value : value.join(', '))
  }
  return passed
}

/** Why an answer cannot be passed on; undefined: it can. */
export function findAnswerProblem({ status, headers }: UpstreamResponse): string | undefined {
  if (status >= 300 && status < 400) return `it answered with the redirect ${status}, and none is followed`
  const encoding = String(headers['content-encoding'] ?? 'identity')
  return encoding === 'identity' ? undefined : 'its answer is compressed, although the request forbids that'
}

/** Error codes of connections. Messages of libraries could repeat parts of a request. */
export function explainBrokenAnswer(error: unknown): string {
  const cause: unknown = Object(error).cause
  const codes = [Object(error).code, Object(cause).code].filter((code) => typeof code === 'string')
  return codes.length === 0 ? 'the connection broke' : codes.join(', ')
}
