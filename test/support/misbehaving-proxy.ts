/**
 * A proxy that forwards requests to a service, or misbehaves as the test says.
 *
 * Most misbehaviours echo the request with its credentials, like error pages of proxies and debugging services do. The
 * proxy also lengthens every token that the service issues by characters that differ in a URL, in JSON and in a form.
 * Code that redacts a secret in only one of these encodings therefore fails a test.
 */
import { once } from 'node:events'
import {
  request as ask,
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

export type Misbehaviour =
  /** An HTML error page that contains the request. */
  | { readonly kind: 'page'; readonly status: number }
  /** JSON whose every message field contains the request; GraphQL uses `status` 200. */
  | { readonly kind: 'complaint'; readonly status: number }
  /** An OAuth error; without `error` that field contains the request too. */
  | { readonly kind: 'oauth'; readonly status: number; readonly error?: string }
  | { readonly kind: 'broken JSON' }
  /** The response's headers contain the request. */
  | { readonly kind: 'headers'; readonly status: number }
  | { readonly kind: 'redirect'; readonly status: number; readonly to: string }
  | { readonly kind: 'reset' }
  | { readonly kind: 'slow'; readonly ms: number }
  /** Links to further pages and to the service lead to another origin. */
  | { readonly kind: 'links'; readonly to: string }

export interface ProxiedRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** Characters that differ in a URL, in JSON, in a form and in HTML. */
export const TOKEN_SUFFIX = '/+%7E"\\=&p'
const TOKEN = /\b(?:lin_(?:api|oauth|refresh)|gho)_[0-9a-f]{20,}/g
/** Long enough that the proxy never closes a connection that a client is about to reuse. */
const KEEP_ALIVE_MS = 300_000
/** Messages are truncated, so the padding moves the secret across the point of truncation. */
const PADDING_STEP = 61
const PADDING_MAX = 480

export async function startMisbehavingProxy(target: string): Promise<MisbehavingProxy> {
  const proxy = new MisbehavingProxy(new URL(target))
  await proxy.listen()
  return proxy
}

export class MisbehavingProxy {
  /** When undefined, the proxy forwards every request. */
  misbehaviour: Misbehaviour | undefined
  /** The misbehaviour applies only to requests that match, such as `POST /graphql`. */
  appliesTo: RegExp = /./
  readonly requests: ProxiedRequest[] = []
  misbehavedCount = 0
  readonly #target: URL
  readonly #server: Server

  constructor(target: URL) {
    this.#target = target
    this.#server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
      this.#serve(request, response).catch(() => response.destroy())
    })
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo // a TCP server that listens
    return `http://127.0.0.1:${port}`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const asked = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      body: body.toString('utf8'),
    }
    this.requests.push(asked)
    const trick = this.appliesTo.test(`${asked.method} ${asked.path}`) ? this.misbehaviour : undefined
    if (trick !== undefined) this.misbehavedCount += 1
    if (trick?.kind === 'slow') await pause(trick.ms)
    else if (trick !== undefined && trick.kind !== 'links')
      return void this.#misbehave(trick, asked, response)
    await this.#forward(asked, body, response, trick?.kind === 'links' ? trick.to : this.url)
  }

  #misbehave(trick: Misbehaviour, asked: ProxiedRequest, response: ServerResponse): unknown {
    const echo = 'x'.repeat((this.misbehavedCount * PADDING_STEP) % PADDING_MAX) + echoOf(asked)
    const answer = (status: number, type: string, text: string, headers: Record<string, string> = {}) =>
      response.writeHead(status, { 'content-type': type, ...headers }).end(text)
    const json = (status: number, value: object) => answer(status, 'application/json', JSON.stringify(value))
    switch (trick.kind) {
      case 'page':
        return answer(trick.status, 'text/html', `<html><pre>${echo}</pre></html>`)
      case 'complaint':
        return json(trick.status, complaint(echo))
      case 'oauth':
        return json(trick.status, { error: trick.error ?? echo, error_description: echo, message: echo })
      case 'broken JSON':
        return answer(200, 'application/json', `{"data": {"viewer": "${echo}`)
      case 'headers':
        return answer(trick.status, 'application/json', '{}', headersOf(echo))
      case 'redirect':
        return answer(trick.status, 'text/plain', '', { location: `${trick.to}${asked.path}` })
      default:
        return response.socket?.resetAndDestroy()
    }
  }

  // ---- forwarding --------------------------------------------------------------------------------------------------

  async #forward(asked: ProxiedRequest, body: Buffer, response: ServerResponse, own: string): Promise<void> {
    const { method, path, headers } = asked
    const isGit = /^git\//.test(headers['user-agent'] ?? '')
    const sent = isGit ? body : Buffer.from(restoreTokens(asked.body))
    const inner = ask(new URL(path, this.#target), {
      method,
      headers: { ...restoreTokenHeaders(headers), 'content-length': String(sent.length) },
    })
    inner.end(sent)
    const [reply] = (await once(inner, 'response')) as [IncomingMessage]
    const chunks: Buffer[] = []
    for await (const chunk of reply) chunks.push(chunk)
    const got = Buffer.concat(chunks)
    const isText = /json|x-www-form|html/.test(reply.headers['content-type'] ?? '')
    const moved = (text: string) => text.replaceAll(this.#target.origin, own)
    const payload = isText ? Buffer.from(moved(lengthenTokens(got.toString('utf8')))) : got
    const replyHeaders = Object.entries(reply.headers).map(([name, value]) => [
      name,
      typeof value === 'string' ? moved(value) : value,
    ])
    const { 'transfer-encoding': _, ...rest } = Object.fromEntries(replyHeaders)
    const length = payload.length > 0 || method !== 'HEAD' ? { 'content-length': String(payload.length) } : {}
    response.writeHead(reply.statusCode ?? 500, reply.statusCode === 304 ? rest : { ...rest, ...length })
    response.end(reply.statusCode === 304 ? undefined : payload)
  }
}

/** Returns the request like a server that logs parsed values: raw, and each secret separately. */
function echoOf({ headers, body, path }: ProxiedRequest): string {
  const login = /^basic +(.+)$/i.exec(headers.authorization ?? '')?.[1] ?? ''
  const all = [headers.authorization, headers['x-api-key'], headers['x-goog-api-key']]
  const words = [...all, Buffer.from(login, 'base64').toString('utf8'), ...fieldsOf(body), body]
  return `${words.filter((word) => word !== undefined && word !== '').join(' ')} ${path}`
}

function fieldsOf(body: string): string[] {
  if (!body.startsWith('{')) return [...new URLSearchParams(body).values()]
  try {
    return Object.values(JSON.parse(body)).filter((value) => typeof value === 'string')
  } catch {
    return []
  }
}

function complaint(echo: string): object {
  const error = { message: echo, type: 'FORBIDDEN', field: echo, code: echo }
  const extensions = { code: 'INPUT_ERROR', type: 'invalid input', userPresentableMessage: echo }
  return { message: echo, error: { message: echo }, errors: [{ ...error, extensions }], data: null }
}

function headersOf(echo: string): Record<string, string> {
  const line = echo.replace(/[^ -~]/g, ' ').slice(0, 4_000)
  const names = [
    'x-accepted-github-permissions',
    'x-ratelimit-resource',
    'github-authentication-token-expiration',
  ]
  return Object.fromEntries(
    [...names, 'retry-after', 'www-authenticate', 'etag', 'x-oauth-scopes'].map((name) => [name, line]),
  )
}

// ---- token suffix ---------------------------------------------------------------------------------------------------

export const lengthenTokens = (text: string): string =>
  text.replace(TOKEN, (token) => token + jsonForm(TOKEN_SUFFIX))

const jsonForm = (text: string): string => JSON.stringify(text).slice(1, -1)
const formForm = (text: string): string => new URLSearchParams({ t: text }).toString().slice(2)
const FORMS = [formForm(TOKEN_SUFFIX), jsonForm(TOKEN_SUFFIX), TOKEN_SUFFIX]

function restoreTokens(text: string): string {
  return FORMS.reduce((left, form) => left.replaceAll(form, ''), text)
}

function restoreTokenHeaders({
  authorization,
  ...rest
}: IncomingMessage['headers']): IncomingMessage['headers'] {
  const { 'transfer-encoding': _, ...kept } = rest
  if (authorization === undefined) return kept
  const [scheme = '', value = ''] = authorization.split(' ')
  if (!/^basic$/i.test(scheme)) return { ...kept, authorization: restoreTokens(authorization) }
  const login = restoreTokens(Buffer.from(value, 'base64').toString('utf8'))
  return { ...kept, authorization: `Basic ${Buffer.from(login).toString('base64')}` }
}

// ---- a server that no request may reach --------------------------------------------------------------------------------

/** Accepts and records every request, and asks git for a password. */
export async function startRequestSink(): Promise<RequestSink> {
  const seen: string[] = []
  const server = createServer((request, response) => {
    let text = `${request.method} ${request.url}\n${request.rawHeaders.join('\n')}\n`
    request.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    request.on('end', () => {
      seen.push(text)
      const asks = /^git\//.test(request.headers['user-agent'] ?? '') && !request.headers.authorization
      if (asks) response.writeHead(401, { 'www-authenticate': 'Basic realm="GitHub"' }).end()
      else response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a TCP server that listens
  return {
    // `localhost` differs from 127.0.0.1, so git and HTTP clients see another origin.
    url: `http://localhost:${port}`,
    requests: seen,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export interface RequestSink {
  readonly url: string
  readonly requests: readonly string[]
  close(): Promise<void>
}
