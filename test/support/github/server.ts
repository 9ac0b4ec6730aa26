/** HTTP server of the fake GitHub for REST, GraphQL, the device flow, git and web pages. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import {
  answerApiRequest,
  type GithubApiDependencies,
  type GithubApiRequest,
  htmlReply,
  readToken,
} from './api.ts'
import type { FakeDeviceFlow } from './device.ts'
import { type GitHttp, gitAddress } from './git-http.ts'
import { type GithubReply, RawBody } from './replies.ts'

const BODY_BYTES_MAX = 10 * 1024 * 1024
/** Longer than clients keep idle connections, so that none is closed while in use. */
const KEEP_ALIVE_MS = 300_000
const ROOTED = /^\/(user|users|repos|repositories|issues|rate_limit)(\/|$)/

export interface GithubServerDependencies extends GithubApiDependencies {
  readonly gitHttp: GitHttp
  readonly device: FakeDeviceFlow
}

export function serveGithub(parts: GithubServerDependencies): Server {
  return createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    receive(parts, request, response).catch((bug: unknown) => {
      parts.counters.bugs.push(bug instanceof Error ? (bug.stack ?? bug.message) : String(bug))
      if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' })
      response.end('the fake GitHub failed')
    })
  })
}

async function receive(
  parts: GithubServerDependencies,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const web = `http://${request.headers.host ?? '127.0.0.1'}`
  const url = new URL(request.url ?? '/', web)
  const repo = gitAddress(url.pathname)
  if (repo !== undefined) return parts.gitHttp.answer(request, response, url, repo)
  const text = await bodyOf(request)
  const method = request.method ?? 'GET'
  if (url.pathname.startsWith('/login/'))
    return send(response, parts.device.answer(method, url.pathname, text, request))
  const place = apiPlace(url.pathname, web)
  if (place === undefined) return send(response, page(url.pathname))
  await answerApi(parts, { request, method, url, text, web, ...place }, response)
}

function apiPlace(path: string, web: string): Pick<GithubApiRequest, 'api' | 'path'> | undefined {
  if (path === '/api/graphql') return { api: `${web}/api/v3`, path: undefined }
  if (path === '/graphql') return { api: web, path: undefined }
  if (path.startsWith('/api/v3/')) return { api: `${web}/api/v3`, path: path.slice('/api/v3'.length) }
  return ROOTED.test(path) ? { api: web, path } : undefined
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request) {
    size += part.length
    if (size <= BODY_BYTES_MAX) parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

async function answerApi(
  parts: GithubServerDependencies,
  asked: GithubApiRequest,
  response: ServerResponse,
): Promise<void> {
  const { counters, faults, quotas } = parts
  const hit = faults.matching?.test(`${asked.method} ${asked.path ?? '/graphql'}`) ?? true
  const token = readToken(asked.request)
  const viewer = token === undefined ? undefined : parts.world.viewerOf(token)
  const leave = quotas.enter(viewer?.person.login)
  try {
    if (hit && faults.latencyMs > 0) await new Promise((resolve) => setTimeout(resolve, faults.latencyMs))
    if (hit && faults.reset) return resetConnection(parts, asked, response)
    const reply = await answerApiRequest(parts, asked, { isFaultTarget: hit, token, viewer })
    counters.count(reply.route, reply.status, reply.charged === true)
    if (hit && faults.loseReplies) response.socket?.resetAndDestroy()
    else send(response, reply, asked.method === 'HEAD')
  } finally {
    leave()
  }
}

function resetConnection(
  { counters }: GithubServerDependencies,
  { method }: GithubApiRequest,
  response: ServerResponse,
): void {
  counters.count(`${method} reset`, 0, false)
  response.socket?.resetAndDestroy()
}

function page(path: string): GithubReply {
  const known = /^\/[^/]+\/[^/]+(\/(pull|issues)\/\d+)?$/.test(path)
  return htmlReply(known ? 200 : 404, `<!doctype html><title>${known ? 'A page' : 'Not found'}</title>`)
}

function send(response: ServerResponse, { status, body, headers }: GithubReply, headOnly = false): void {
  const text = body instanceof RawBody ? body.text : body === undefined ? '' : JSON.stringify(body)
  const type: Record<string, string> =
    text === '' ? {} : { 'content-type': 'application/json; charset=utf-8' }
  const length: Record<string, string> =
    status === 204 || status === 304 ? {} : { 'content-length': String(Buffer.byteLength(text)) }
  response.writeHead(status, { ...type, ...length, ...headers }).end(headOnly ? '' : text)
}
