/** The trail of actions at the listeners: what is recorded, before the answer, and what never is. */
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import { TRAIL_KEYS_MAX } from '../../../core/audit-paths.ts'
import { type AuditAction, SOURCE_HEADER } from '../../../protocol/audit.ts'
import { CREDENTIAL, fakeRun, WORKER_ID } from '../../support/fake-host-api.ts'
import { connectSocket } from '../../support/socket-client.ts'
import { openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

async function open(record: (action: AuditAction) => Promise<void> = async () => {}) {
  const actions: AuditAction[] = []
  const server = await openTestServer({
    trail: {
      record: async (action) => {
        actions.push(action)
        await record(action)
      },
    },
  })
  const ask = async (line: string, body?: unknown, source?: string, token = TOKEN) => {
    const [method = 'GET', path = ''] = line.split(' ')
    const reply = await fetch(server.url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        ...(source === undefined ? {} : { [SOURCE_HEADER]: source }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    await reply.text()
    return reply.status
  }
  return { ...server, actions, ask }
}

test.each([
  ['command', 'command'],
  ['page', 'page'],
  ['mcp', 'mcp'],
  [undefined, 'api'],
  // Only the host says so.
  ['worker', 'api'],
  ['file', 'api'],
  ['x\ty', 'api'],
])('a request that names its source %p came from %s', async (named, source) => {
  const { ask, actions } = await open()
  await ask('POST /api/pause', undefined, named)
  expect(actions).toEqual([{ source, action: 'pauseDispatch', status: 200 }])
})

test('an action is recorded with what it was about and how it was answered, also when it was refused', async () => {
  const { ask, actions, hostApi } = await open()
  hostApi.runsById.set('run-1', fakeRun('run-1'))
  await ask('POST /api/runs/run-1/cancel')
  await ask('POST /api/runs/run-9/cancel')
  await ask('DELETE /api/workers/join-keys/nope?workers=1')
  expect(actions).toMatchObject([
    { action: 'cancelRun', on: { id: 'run-1' }, status: 200 },
    { action: 'cancelRun', on: { id: 'run-9' }, status: 404 },
    { action: 'deleteJoinKey', on: { id: 'nope', workers: '1' }, status: 404 },
  ])
})

test('reading, asking again and what was refused before its handler are not recorded', async () => {
  const { ask, actions } = await open()
  await ask('GET /api/runs')
  await ask('POST /api/connect/codehost/poll')
  expect(await ask('POST /api/pause', undefined, undefined, 'wrong')).toBe(401)
  expect(await ask('POST /api/nothing')).toBe(404)
  expect(await ask('PUT /api/settings', 'no patch')).toBe(400)
  expect(actions).toEqual([])
})

test('of a body only the paths stand in the trail, and a bounded number of them', async () => {
  const { ask, actions } = await open()
  await ask('PUT /api/settings', {
    patch: { policy: { paused: true }, repos: { web: { setup: 'echo hunter2' } } },
    confirm: ['repos.web.setup'],
  })
  const many = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`k${n}`, { remote: `a/${n}` }]))
  await ask('PUT /api/settings', { patch: { repos: many } })
  await ask('POST /api/runs/run-9/retry', { instructions: 'hunter2' })
  const [first, second, third] = actions
  expect(first?.keys).toEqual(['policy.paused', 'repos.web.setup'])
  expect(second?.keys).toHaveLength(TRAIL_KEYS_MAX)
  expect(third?.keys).toEqual(['instructions'])
  expect(JSON.stringify(actions)).not.toContain('hunter2')
})

test('nothing is answered before it is recorded', async () => {
  const order: string[] = []
  let write: (() => void) | undefined
  const { ask } = await open(
    () =>
      new Promise<void>((resolve) => {
        write = () => {
          order.push('recorded')
          resolve()
        }
      }),
  )
  const answered = ask('POST /api/pause').then(() => order.push('answered'))
  await until('the handler has run', () => write !== undefined)
  await ask('GET /api/health')
  write?.()
  await answered
  expect(order).toEqual(['recorded', 'answered'])
})

test('a worker is named by its credential, and a terminal that a person opens by its run', async () => {
  const { ask, actions, port, hostApi } = await open()
  await ask(`POST /api/worker/state?workerId=${WORKER_ID}&state=draining`, undefined, 'page', CREDENTIAL)
  expect(actions).toMatchObject([
    { source: 'worker', by: WORKER_ID, action: 'changeWorkerState', on: { state: 'draining' } },
  ])
  hostApi.runsById.set('run-1', fakeRun('run-1'))
  const socket = connectSocket(port, '/ws/runs/run-1/attach', { [SOURCE_HEADER]: 'page' })
  await until('the terminal is recorded', () => actions.length === 2)
  expect(actions[1]).toEqual({ source: 'page', action: 'attachTerminal', on: { id: 'run-1' } })
  socket.close()
})
