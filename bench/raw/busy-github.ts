/**
 * A code host with many repositories and pull requests and a realistic latency, in its own process.
 *
 * Responses come from the tests' GitHub, once per path: it builds each response from git, which would dominate the
 * measurement. Entity tags show whether a response changed. Arguments: the number of repositories, open pull
 * requests in each, and milliseconds per response. Prints its address; then, for each input line, a summary of the
 * requests since the last one.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { request as ask } from 'undici'
import { startGithub } from '../../test/support/github/github.ts'
import { depthOf, type RequestSpan } from './depth.ts'

export interface RequestSummary {
  readonly requests: number
  /** Requests that count against the hourly quota. */
  readonly charged: number
  /** The longest chain of requests in which each began after the previous one ended. */
  readonly depth: number
  readonly paths: readonly string[]
}

interface CachedResponse {
  readonly status: number
  readonly headers: Record<string, string | string[] | undefined>
  readonly body: Buffer
}

const TOKEN = 'ghp_bench'

const [repos = 0, pulls = 0, latencyMs = 0] = process.argv.slice(2).map(Number)
const github = await startGithub({ people: [{ login: 'mona', tokens: [TOKEN] }] })
const names = Array.from({ length: repos }, (_, at) => `acme/service-${at}`)
for (const fullName of names) {
  await github.addRepo({ fullName, members: { mona: 'push' } })
  await github.openPulls(fullName, pulls, 'mona')
}

const cachedResponses = new Map<string, Promise<CachedResponse>>()
let requests: (RequestSpan & { readonly path: string; readonly charged: boolean })[] = []

const server = createServer((request, response) => void respond(request, response))
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
// A listening TCP server has this kind of address.
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
console.log(JSON.stringify({ origin, apiUrl: `${origin}/api/v3`, token: TOKEN, names }))
for await (const _ of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(summarize()))
  requests = []
}
await github.close()
process.exit(0)

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const from = performance.now()
  const path = request.url ?? ''
  request.resume()
  const known = cachedResponses.get(path) ?? fetchFromGithub(path, request)
  cachedResponses.set(path, known)
  const [{ status, headers, body }] = await Promise.all([known, sleep(latencyMs)])
  const isUnchanged = headers.etag !== undefined && request.headers['if-none-match'] === headers.etag
  if (isUnchanged) response.writeHead(304, headers).end()
  else response.writeHead(status, { ...headers, 'content-length': body.length }).end(body)
  requests.push({ path, from, to: performance.now(), charged: !isUnchanged })
}

async function fetchFromGithub(path: string, { headers }: IncomingMessage): Promise<CachedResponse> {
  const { host = '', accept = '', authorization = '' } = headers
  const asking = { host, accept, authorization, 'user-agent': 'bench' }
  const reply = await ask(`${github.origin}${path}`, { headers: asking })
  const { connection, 'keep-alive': _, 'content-length': __, ...lasting } = reply.headers
  return { status: reply.statusCode, headers: lasting, body: Buffer.from(await reply.body.arrayBuffer()) }
}

function summarize(): RequestSummary {
  return {
    requests: requests.length,
    charged: requests.filter(({ charged }) => charged).length,
    depth: depthOf(requests),
    paths: requests.map(({ path }) => path),
  }
}
