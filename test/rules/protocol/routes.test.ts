import { describe, expect, test } from '@jest/globals'
import { createChecker } from '../../../protocol/parse.ts'
import {
  type BodyOf,
  helperRoutes,
  type ParamsOf,
  type QueryOf,
  type ResponseOf,
  type Route,
  routes,
} from '../../../protocol/routes.ts'
import type { Run } from '../../../protocol/run.ts'
import { asShape } from '../../../protocol/schema-errors.ts'

/** Compares the route table with a hand-written list. */
const documented = `
GET /api/health
GET /api/config
PUT /api/settings
PUT /api/settings/credentials
GET /ws
GET /ws/inspect
GET /api/tickets
POST /api/tickets/:id/run
GET /api/runs
GET /api/runs/:id
GET /api/runs/:id/events
GET /api/runs/:id/artifacts/:name
POST /api/runs/:id/cancel
POST /api/runs/:id/retry
POST /api/runs/:id/followup
GET /api/runs/:id/pr
POST /api/runs/:id/resume
POST /api/runs/:id/release
GET /ws/runs/:id/attach
GET /api/workers
POST /api/workers/provision
POST /api/workers/:id/rename
POST /api/workers/:id/drain
POST /api/workers/:id/enable
DELETE /api/workers/:id
GET /api/worker/demand
POST /api/worker/state
GET /ws/worker
POST /api/connect/:provider
POST /api/connect/codehost/poll
GET /api/connect/storage
POST /api/connect/storage
GET /api/connect/tracker/callback
GET /api/codehost/repos
GET /api/pulls
GET /api/pulls/:repo/:number
POST /api/pulls/:repo/:number/merge
POST /api/pulls/:repo/:number/close
POST /api/pulls/:repo/:number/reopen
POST /api/pulls/:repo/:number/ready
POST /api/pulls/:repo/:number/comment
POST /api/pulls/:repo/:number/review
POST /api/pulls/:repo/:number/reply
POST /api/pulls/:repo/:number/resolve-thread
GET /api/tracker/projects
GET /api/memories
POST /api/memories/:repo/forget
POST /api/memories/:repo/clear`
const extra = `
POST /api/tickets
GET /api/openapi.json
POST /api/memories/:repo/keep
POST /api/pause
POST /api/resume
GET /api/tracker/status
GET /api/workers/join-keys
POST /api/workers/join-keys
DELETE /api/workers/join-keys/:id
GET /metrics
GET /api/runs/summary
GET /api/tickets/runs
GET /api/tickets/summary
GET /api/runs/:id/placement
GET /api/attention
GET /api/status
POST /api/attention/acknowledge
GET /api/tickets/:id/explain
GET /api/runs/:id/explain
POST /api/workers/pairing-tokens
POST /api/runs/:id/discard
POST /api/runs/:id/publish
POST /api/connect/tracker/paste`
const helper = `
GET /
GET /health
POST /oauth/codehost/device/code
POST /oauth/codehost/device/token
GET /oauth/tracker/authorize
POST /oauth/tracker/token
POST /oauth/tracker/refresh`

const lines = (text: string) => text.trim().split('\n').sort()
const rows = Object.entries<Route>(routes)
const addresses = (table: Record<string, Route>) =>
  Object.values(table)
    .map(({ method, path }) => `${method} ${path}`)
    .sort()
const named = (test: (route: Route) => boolean) =>
  rows
    .filter(([, route]) => test(route))
    .map(([name]) => name)
    .sort()

describe('the table', () => {
  test('has every documented route, the extras, and nothing else', () => {
    expect(addresses(routes)).toEqual(lines(`${documented.trim()}\n${extra.trim()}`))
    expect(addresses(helperRoutes)).toEqual(lines(helper))
  })

  test('two routes need no launch token, two need a worker or its join key, one checks the first frame', () => {
    expect(named(({ access }) => access === 'anyone')).toEqual(['health', 'trackerCallback'])
    expect(named(({ access }) => access === 'worker')).toEqual(['changeWorkerState'])
    expect(named(({ access }) => access === 'worker-or-join-key')).toEqual(['readDemand'])
    expect(named(({ access }) => access === 'first-frame')).toEqual(['workerSocket'])
  })

  test('the fleet listener serves three routes, the management listener all', () => {
    expect(named(({ listeners }) => listeners.includes('fleet'))).toEqual([
      'changeWorkerState',
      'readDemand',
      'workerSocket',
    ])
    expect(named(({ listeners }) => listeners.includes('management'))).toHaveLength(rows.length)
  })

  test('sockets are GETs with frames both ways', () => {
    expect(named(({ socket }) => socket === true)).toEqual([
      'attachSocket',
      'dashboardSocket',
      'inspectSocket',
      'workerSocket',
    ])
    for (const [, route] of rows) {
      expect(route.frames !== undefined).toBe(route.socket === true)
      expect(route.response === 'frames').toBe(route.socket === true)
    }
  })

  test.each([...rows, ...Object.entries<Route>(helperRoutes)])(
    '%s is complete',
    (_, { path, params, method, body, errorStatuses, summary }) => {
      const inPath = [...path.matchAll(/:([a-z]+)/g)].map(([, name]) => name)
      expect(Object.keys(params?.properties ?? {})).toEqual(inPath)
      expect(asShape(params ?? {}).required ?? []).toEqual(inPath)
      if (method === 'GET' || method === 'DELETE') expect(body).toBeUndefined()
      if (body !== undefined) expect(asShape(body).additionalProperties).toBe(false)
      if (body !== undefined) expect(errorStatuses).toContain(400)
      expect(errorStatuses).toEqual([...errorStatuses].sort((a, b) => a - b))
      expect(summary).toMatch(/^[A-Z].{15,110}\.$/)
    },
  )

  test('a fixed path comes before a pattern that would match it', () => {
    const names = Object.keys(routes)
    for (const [index, [name, { path, method }]] of rows.entries()) {
      const pattern = new RegExp(`^${path.replace(/:[a-z]+/g, '[^/]+')}$`)
      const swallowed = rows
        .slice(index + 1)
        .filter(([, later]) => later.method === method && pattern.test(later.path))
      expect({ name, swallows: swallowed.map(([later]) => names.indexOf(later)) }).toEqual({
        name,
        swallows: [],
      })
    }
  })
})

describe('types and checks of a row', () => {
  test('bodies', () => {
    const body: BodyOf<'mergePull'> = { method: 'squash' }
    expect(createChecker(routes.mergePull.body)(body)).toEqual({ ok: true, value: body })
    const none: BodyOf<'cancelRun'> = undefined
    expect(none).toBeUndefined()
  })

  test('responses, queries and parameters have the types of their schemas', () => {
    const answer = (run: Run): ResponseOf<'cancelRun'> => run
    const bytes: ResponseOf<'readArtifact'> = 'bytes'
    const query: QueryOf<'listRuns'> = { limit: 1, status: ['queued'] }
    const params: ParamsOf<'readPull'> = { repo: 'lamps', number: 7 }
    expect([
      typeof answer,
      bytes,
      createChecker(routes.listRuns.query)(query).ok,
      createChecker(routes.readPull.params)(params).ok,
    ]).toEqual(['function', 'bytes', true, true])
  })

  test('the helper requires a valid port and a state of limited length', () => {
    const check = createChecker(helperRoutes.authorizeTracker.query)
    expect(check({ state: 's', port: 4400 }).ok).toBe(true)
    expect(check({ state: '', port: 4400 })).toEqual({ ok: false, error: '/state: must not be empty' })
    expect(check({ state: 's'.repeat(513), port: 4400 }).ok).toBe(false)
    expect(check({ state: 's', port: 0 })).toEqual({ ok: false, error: '/port: must be at least 1, not 0' })
  })
})
