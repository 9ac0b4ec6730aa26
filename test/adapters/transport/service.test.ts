/** The routes of service and configuration over a real socket. */
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import { no } from '../../../core/result.ts'
import { connectSocket } from '../../support/socket-client.ts'
import { openTestServer, TOKEN } from '../../support/test-resources.ts'

const authorization = `Bearer ${TOKEN}`

test('health needs no token', async () => {
  const { url, hostApi } = await openTestServer()
  const reply = await fetch(`${url}/api/health`)
  expect(reply.status).toBe(200)
  expect(await reply.json()).toEqual(hostApi.healthAnswer)
  expect(reply.headers.get('content-type')).toBe('application/json')
  expect(reply.headers.get('cache-control')).toBe('no-store')
  expect(reply.headers.get('x-content-type-options')).toBe('nosniff')
  expect(reply.headers.get('uwebsockets')).toBeNull()
})

test.each([
  ['ready', 200],
  ['degraded', 200],
  ['broken', 503],
] as const)('health of a host whose store is %s answers %s', async (is, status) => {
  const { url, hostApi } = await openTestServer()
  Object.assign(hostApi, { storeState: () => ({ is, reason: '/secret/path is gone' }) })
  const reply = await fetch(`${url}/api/health`)
  expect(reply.status).toBe(status)
  expect(await reply.text()).not.toContain('/secret/path')
})

test('a host whose data directory was taken over answers nothing of what it knows', async () => {
  const { url, port, hostApi } = await openTestServer()
  const state = { is: 'broken', takenOver: true, reason: 'forge owns it' }
  Object.assign(hostApi, { storeState: () => state })
  for (const path of ['/api/health', '/api/runs', '/api/config'])
    expect((await fetch(`${url}${path}`, { headers: { authorization } })).status).toBe(503)
  await expect(connectSocket(port).opened).rejects.toThrow('not opened')
})

test('a cached reply is replaced when its value changes', async () => {
  const { url, hostApi } = await openTestServer()
  await fetch(`${url}/api/health`)
  hostApi.healthAnswer = { ...hostApi.healthAnswer, version: '9.9.9' }
  const reply = await fetch(`${url}/api/health`)
  expect(await reply.json()).toMatchObject({ version: '9.9.9' })
})

test('the configuration needs the token', async () => {
  const { url, hostApi } = await openTestServer()
  const reply = await fetch(`${url}/api/config`, { headers: { authorization } })
  expect(await reply.json()).toEqual(hostApi.config())
  expect((await fetch(`${url}/api/config`)).status).toBe(401)
})

test('a settings patch reaches the host API unchanged, and its answer is returned', async () => {
  const { url, hostApi } = await openTestServer()
  const body = JSON.stringify({ patch: { sandbox: { concurrency: 3 } } })
  const headers = { authorization, 'content-type': 'application/json' }
  const reply = await fetch(`${url}/api/settings`, { method: 'PUT', headers, body })
  expect(reply.status).toBe(200)
  expect(await reply.json()).toMatchObject({ applied: 'live' })
  expect(hostApi.patches).toEqual([{ sandbox: { concurrency: 3 } }])
})

test('a refusal becomes a status and a message', async () => {
  const { url, hostApi } = await openTestServer()
  hostApi.changed = () => no('invalid', '/sandbox/concurrency: must be at most 64')
  const headers = { authorization, 'content-type': 'application/json' }
  const reply = await fetch(`${url}/api/settings`, { method: 'PUT', headers, body: '{"patch":{}}' })
  expect(reply.status).toBe(400)
  expect(await reply.json()).toEqual({ error: '/sandbox/concurrency: must be at most 64' })
})

test('the OpenAPI document is served', async () => {
  const { url } = await openTestServer()
  const reply = await fetch(`${url}/api/openapi.json`, { headers: { authorization } })
  expect(await reply.json()).toMatchObject({ openapi: '3.1.0', info: { version: '0.1.0' } })
})

test('metrics are Prometheus text, and count requests and actors before they are printed', async () => {
  const { url, meters } = await openTestServer()
  await fetch(`${url}/api/health`)
  await fetch(`${url}/api/no-such-thing`, { headers: { authorization } })
  const reply = await fetch(`${url}/metrics`, { headers: { authorization } })
  expect(reply.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  expect(await reply.text()).toBe('switchyard_test 1\n')
  expect(meters.counts.get('http_requests_total health 2xx')).toBe(1)
  expect(meters.counts.get('http_requests_total unknown 4xx')).toBe(1)
  expect(meters.counts.get('actors run')).toBe(3)
})
