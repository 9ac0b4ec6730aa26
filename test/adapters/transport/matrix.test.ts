/**
 * Admission: every route, socket and unknown path, with every presentation of a secret, every kind of Host and every kind
 * of Origin. A small oracle computes the expected status, without sharing code with the server.
 */
import { expect, test } from '@jest/globals'
import { type Route, routes } from '../../../protocol/routes.ts'
import { CREDENTIAL, LISTED_ORIGIN, WORKER_ID } from '../../support/fake-host-api.ts'
import { createRawClient, type RawReply } from '../../support/raw-client.ts'
import { isStrictNative, testListener } from '../../support/test-listener.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'

const CLIENTS = 8

// ---- requests ------------------------------------------------------------------------------------------------------

interface SecretPresentation {
  readonly name: string
  readonly headers: readonly string[]
  readonly query?: string
  readonly opens?: 'launch' | 'sockets' | 'worker'
}

const ways: readonly SecretPresentation[] = [
  { name: 'nothing', headers: [] },
  { name: 'the token', headers: [`Authorization: Bearer ${TOKEN}`], opens: 'launch' },
  { name: 'another token', headers: [`Authorization: Bearer ${TOKEN.slice(1)}x`] },
  { name: 'a longer token', headers: [`Authorization: Bearer ${TOKEN}x`] },
  { name: 'an empty token', headers: ['Authorization: Bearer '] },
  { name: 'the token without a scheme', headers: [`Authorization: ${TOKEN}`] },
  { name: 'the token as Basic', headers: [`Authorization: Basic ${TOKEN}`] },
  { name: 'the token twice', headers: [`Authorization: Bearer ${TOKEN}`, `Authorization: Bearer ${TOKEN}`] },
  { name: 'the token as a cookie', headers: [`Cookie: token=${TOKEN}`] },
  { name: 'the token in a header of its own', headers: [`X-Token: ${TOKEN}`] },
  { name: 'the token in the query', headers: [], query: `token=${TOKEN}`, opens: 'sockets' },
  { name: 'the token twice in the query', headers: [], query: `token=${TOKEN}&token=${TOKEN}` },
  {
    name: 'another token and the token in the query',
    headers: ['Authorization: Bearer x'],
    query: `token=${TOKEN}`,
  },
  { name: "the worker's credential", headers: [`Authorization: Bearer ${CREDENTIAL}`], opens: 'worker' },
  { name: "the worker's credential in the query", headers: [], query: `token=${CREDENTIAL}` },
]

const hosts: readonly { readonly headers: readonly string[]; readonly status?: number }[] = [
  { headers: ['Host: 127.0.0.1'] },
  { headers: ['Host: LOCALHOST:4400'] },
  { headers: ['Host: [::1]:4400'] },
  // The parser itself answers, because HTTP/1.1 requires a Host.
  { headers: [], status: 400 },
  { headers: ['Host: '], status: 403 },
  { headers: ['Host: localhost', 'Host: localhost'], status: isStrictNative() ? 400 : 403 },
  { headers: ['Host: evil.example'], status: 403 },
  { headers: ['Host: 127.0.0.1.evil.example:4400'], status: 403 },
  { headers: ['Host: localhost.'], status: 403 },
]

const origins: readonly { readonly origin?: string; readonly trusted?: boolean; readonly twice?: boolean }[] =
  [
    { trusted: true },
    { origin: 'http://localhost:5173', trusted: true },
    { origin: 'http://[::1]', trusted: true },
    { origin: 'file://', trusted: true },
    { origin: 'app://switchyard', trusted: true },
    { origin: LISTED_ORIGIN, trusted: true },
    { origin: 'null' },
    { origin: '' },
    { origin: 'https://evil.example' },
    { origin: 'http://localhost.evil.example' },
    { origin: 'https://localhost' },
    { origin: 'http://localhost', twice: true },
  ]

const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PREFLIGHT', 'UPGRADE', 'PATCH'] as const

interface MatrixRequest {
  readonly path: string
  readonly method: string
  readonly presentation: SecretPresentation
  readonly host: (typeof hosts)[number]
  readonly origin: (typeof origins)[number]
}

const table: readonly Route[] = Object.values(routes)
const values: Readonly<Record<string, string>> = { number: '7', provider: 'tracker' }
const filled = (path: string): string => path.replaceAll(/:(\w+)/g, (_, name: string) => values[name] ?? 'x')
const known = [...new Set(table.map((route) => filled(route.path)))]
const paths = [...known, '/', '/api', '/api/health/', '/api/nothing', '/ws/', '/ws/nothing', '/api/%68ealth']
/** Parameters that a path takes; every other path takes none. */
const PARAMETERS: Readonly<Record<string, string>> = {
  '/api/worker/demand': `workerId=${WORKER_ID}`,
  '/api/worker/state': `workerId=${WORKER_ID}&state=active`,
  '/api/connect/tracker/callback': 'code=c0de',
}

function textOf({ path, method, presentation, host, origin }: MatrixRequest): string {
  const verb = method === 'PREFLIGHT' ? 'OPTIONS' : method === 'UPGRADE' ? 'GET' : method
  const query = [PARAMETERS[path] ?? [], presentation.query ?? []].flat().join('&')
  const ofOrigin = origin.origin === undefined ? [] : [`Origin: ${origin.origin}`]
  const extra = {
    PREFLIGHT: ['Access-Control-Request-Method: GET'],
    UPGRADE: [
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      'Sec-WebSocket-Version: 13',
    ],
  }[method]
  const lines = [
    'Accept: */*',
    ...host.headers,
    ...ofOrigin,
    ...(origin.twice ? ofOrigin : []),
    ...presentation.headers,
    ...(extra ?? []),
  ]
  return `${verb} ${path}${query === '' ? '' : `?${query}`} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
}

// ---- expected replies ----------------------------------------------------------------------------------------------

const routeAt = (path: string, method: string): Route | undefined =>
  table.find((route) => filled(route.path) === path && route.method === method)

/** The status of each route for the id x and without a body. The others answer 400 for the missing body. */
const WORKS: Readonly<Record<string, number>> = {
  'GET /api/health': 200,
  'GET /api/status': 200,
  'GET /api/config': 200,
  'GET /api/openapi.json': 200,
  'GET /metrics': 200,
  'POST /api/pause': 200,
  'POST /api/resume': 200,
  'GET /api/tracker/status': 200,
  'GET /api/tickets': 200,
  'GET /api/tickets/runs': 200,
  'GET /api/tickets/summary': 200,
  'POST /api/tickets/x/run': 404,
  'GET /api/runs': 200,
  'GET /api/runs/summary': 200,
  'GET /api/runs/x': 404,
  'GET /api/runs/x/events': 404,
  'GET /api/runs/x/placement': 404,
  'GET /api/attention': 200,
  'GET /api/tickets/x/explain': 404,
  'GET /api/runs/x/explain': 404,
  'GET /api/runs/x/artifacts/x': 404,
  'POST /api/runs/x/cancel': 404,
  'POST /api/runs/x/retry': 404,
  'POST /api/runs/x/publish': 404,
  'POST /api/runs/x/discard': 404,
  'POST /api/runs/x/resume': 400,
  'POST /api/runs/x/release': 400,
  'POST /api/runs/x/followup': 400,
  'GET /api/workers': 200,
  'POST /api/workers/pairing-tokens': 200,
  'GET /api/workers/join-keys': 200,
  'DELETE /api/workers/join-keys/x': 404,
  'POST /api/workers/x/drain': 404,
  'POST /api/workers/x/enable': 404,
  'DELETE /api/workers/x': 404,
  'GET /api/worker/demand': 200,
  'POST /api/worker/state': 200,
  'GET /api/memories': 200,
  'POST /api/memories/x/clear': 404,
  'GET /api/runs/x/pr': 400,
  'POST /api/connect/tracker': 400,
  'POST /api/connect/codehost/poll': 200,
  'GET /api/connect/storage': 200,
  'POST /api/connect/storage': 400,
  'GET /api/connect/tracker/callback': 400,
  'GET /api/codehost/repos': 400,
  'GET /api/pulls': 400,
  'GET /api/pulls/x/7': 400,
  'POST /api/pulls/x/7/close': 400,
  'POST /api/pulls/x/7/reopen': 400,
  'POST /api/pulls/x/7/ready': 400,
  'GET /api/tracker/projects': 400,
}
const SOCKETS = ['/ws', '/ws/inspect', '/ws/worker', '/ws/runs/x/attach']

function statusOf(asked: MatrixRequest): number {
  const { path, method, presentation, host, origin } = asked
  if (host.status !== undefined) return host.status
  if (origin.trusted !== true) return 403
  if (method === 'PREFLIGHT' && origin.origin !== undefined) return known.includes(path) ? 204 : 404
  const route = routeAt(path, method === 'UPGRADE' ? 'GET' : method)
  const closed = authenticationStatus(route, presentation)
  if (closed !== undefined) return closed
  if (!known.includes(path)) return 404
  if (route === undefined) return 405
  return isTokenUnknown(path, presentation) ? 400 : servedStatus(route, path, method)
}

/** The token is a parameter of two sockets; the callback takes any parameter. */
const TAKES_TOKEN = ['/ws', '/ws/inspect', '/ws/runs/x/attach', '/api/connect/tracker/callback']
const isTokenUnknown = (path: string, { query }: SecretPresentation): boolean =>
  query !== undefined && !TAKES_TOKEN.includes(path)

function authenticationStatus(
  route: Route | undefined,
  presentation: SecretPresentation,
): number | undefined {
  if (route?.access === 'anyone' || route?.access === 'first-frame') return undefined
  if (route?.access === 'worker' || route?.access === 'worker-or-join-key')
    return presentation.opens === 'worker' ? undefined : 403
  if (presentation.opens === 'launch' || (presentation.opens === 'sockets' && route?.socket === true))
    return undefined
  return 401
}

function servedStatus(route: Route, path: string, method: string): number {
  if (SOCKETS.includes(path)) return method === 'UPGRADE' ? 101 : 426
  return WORKS[`${route.method} ${path}`] ?? 400
}

function statusAtFleet({ path, method, presentation, host, origin }: MatrixRequest): number {
  if (host.status === 400) return 400
  if (origin.origin !== undefined) return 403
  const route = routeAt(path, method === 'UPGRADE' ? 'GET' : method)
  if (route === undefined || !route.listeners.includes('fleet')) return 404
  const closed = authenticationStatus(route, presentation)
  if (closed !== undefined) return closed
  return isTokenUnknown(path, presentation) ? 400 : servedStatus(route, path, method)
}

interface ExpectedReply {
  readonly status: number
  /** The origin that may read the reply. */
  readonly sharedWith: string | undefined
  /** The reply comes from this server, not from the parser. */
  readonly ours: boolean
}

/** This route answers with a web page, also for refusals. */
const CALLBACK = '/api/connect/tracker/callback'

type Oracle = (asked: MatrixRequest) => ExpectedReply

const expected: Oracle = (asked) => {
  const status = statusOf(asked)
  const trusted = asked.host.status === undefined && asked.origin.trusted === true && status !== 101
  return {
    status,
    sharedWith: trusted ? asked.origin.origin : undefined,
    ours: asked.host.status !== 400 && asked.path !== CALLBACK,
  }
}

const expectedAtFleet: Oracle = (asked) => ({
  status: statusAtFleet(asked),
  sharedWith: undefined,
  ours: asked.host.status !== 400,
})

// ---- sending -------------------------------------------------------------------------------------------------------

function* product(
  methodsOf: (path: string) => readonly string[],
  few: readonly SecretPresentation[],
): Generator<MatrixRequest> {
  for (const path of paths)
    for (const method of methodsOf(path))
      for (const presentation of few)
        for (const host of hosts)
          for (const origin of origins) yield { path, method, presentation, host, origin }
}

function* allMethodsAndPresentations(): Generator<MatrixRequest> {
  const host = { headers: ['Host: localhost'] }
  for (const path of paths)
    for (const method of METHODS)
      for (const presentation of ways)
        for (const origin of origins.slice(0, 2)) yield { path, method, presentation, host, origin }
}

async function ask(port: number, all: Iterable<MatrixRequest>, oracle: Oracle) {
  const statuses = new Map<number, number>()
  const wrong: string[] = []
  const left = everyNth(all, testListener().name === 'node' ? NODE_SHARE : 1)
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      const client = createRawClient(port)
      closeAfterTest(() => client.close())
      for (let next = left.next(); !next.done; next = left.next()) {
        const reply = await client.ask(textOf(next.value))
        statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1)
        const faults = differences(reply, oracle(next.value))
        if (faults !== '') wrong.push(`${faults}: ${textOf(next.value)}`)
      }
    }),
  )
  return { statuses, wrong: wrong.slice(0, 5) }
}

/** The rules are the same on every listener; Node's takes three times as long for all of these requests. */
const NODE_SHARE = 7

function* everyNth<T>(all: Iterable<T>, n: number): Generator<T> {
  let at = 0
  for (const element of all) if (at++ % n === 0) yield element
}

function differences(reply: RawReply, { status, sharedWith, ours }: ExpectedReply): string {
  if (reply.status !== status) return `${reply.status} instead of ${status}`
  const shared = reply.headers.get('access-control-allow-origin')
  if (shared !== sharedWith) return `shared with ${shared} instead of ${sharedWith}`
  if (status < 400 || !ours || reply.body === '') return ''
  return Object.keys(JSON.parse(reply.body)).join() === 'error' ? '' : `a strange body ${reply.body}`
}

const describeStatuses = (statuses: ReadonlyMap<number, number>): string =>
  [...statuses]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${status}: ${count}`)
    .join(', ')

/** The time limit for tens of thousands of requests on a busy machine. */
const MATRIX_MS_MAX = 180_000

test(
  'the management listener lets in whom it should, and nobody else',
  async () => {
    const { port } = await openTestServer()
    const own = (path: string): string[] => [
      ...new Set(table.filter((route) => filled(route.path) === path).map((route) => route.method)),
      ...(path.startsWith('/ws') ? ['UPGRADE'] : []),
    ]
    const few = ways.filter(({ name }) =>
      ['nothing', 'the token', 'another token', 'the token in the query', "the worker's credential"].includes(
        name,
      ),
    )
    const fences = await ask(
      port,
      product((path) => (known.includes(path) ? own(path) : ['GET']), few),
      expected,
    )
    const places = await ask(port, allMethodsAndPresentations(), expected)
    process.stdout.write(
      `fences: ${describeStatuses(fences.statuses)}\nplaces: ${describeStatuses(places.statuses)}\n`,
    )
    expect(fences.wrong).toEqual([])
    expect(places.wrong).toEqual([])
  },
  MATRIX_MS_MAX,
)

test(
  'the fleet listener serves its rows, refuses pages, and knows nothing else',
  async () => {
    const { fleetPort } = await openTestServer()
    const all = await ask(
      fleetPort,
      product(() => ['GET', 'POST', 'OPTIONS', 'UPGRADE'], ways.slice(0, 2)),
      expectedAtFleet,
    )
    const places = await ask(fleetPort, allMethodsAndPresentations(), expectedAtFleet)
    process.stdout.write(
      `fleet: ${describeStatuses(all.statuses)}\nfleet places: ${describeStatuses(places.statuses)}\n`,
    )
    expect(all.wrong).toEqual([])
    expect(places.wrong).toEqual([])
  },
  MATRIX_MS_MAX,
)

test('the fleet listener’s refusal of an unknown path names no path that it does not serve', async () => {
  const { fleetPort } = await openTestServer()
  for (const path of ['/api/nothing', '/api/openapi.json', '/api/runs']) {
    const reply = await fetch(`http://127.0.0.1:${fleetPort}${path}`)
    expect([path, reply.status, await reply.json()]).toEqual([
      path,
      404,
      { error: expect.stringMatching(/^[^/]+$/) },
    ])
  }
})
