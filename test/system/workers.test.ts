/**
 * Tickets, runs and workers with the real command: real processes, files and sockets, and scripted workers. Titles of
 * table rows are those of the specification.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { WebSocket } from 'undici'
import { FLEET_REASONS } from '../../core/fleet/placement.ts'
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import { LOG_TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { routes } from '../../protocol/routes.ts'
import type { MemoriesResponse, Run, RunEvent, Ticket } from '../../protocol/run.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import { type CommandProcess, keepForFile, readLaunch, serve } from '../support/command-process.ts'
import {
  defaultScript,
  type ExecutionScript,
  ScriptedWorker,
  type ScriptedWorkerOptions,
  type ScriptStep,
  USAGE_PROJECT,
} from '../support/scripted-worker.ts'
import { connectSocket } from '../support/socket-client.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const workers: ScriptedWorker[] = []

afterEach(() => {
  for (const worker of workers.splice(0)) worker.stop()
})

// ---- a host with a folder of tickets -------------------------------------------------------------------------------

interface Place {
  readonly dataDir: string
  readonly tickets: string
  host: CommandProcess
}

function createPlace(more: object = {}): Place {
  const dataDir = tempFolder()
  const tickets = tempFolder()
  const config = {
    server: { port: 0 },
    fleet: { host: '127.0.0.1', port: 0 },
    tracker: { driver: 'local', path: tickets, pollSeconds: 1 },
    repos: { main: { remote: 'owner/name' } },
    worker: { local: false },
    ...more,
  }
  writeFileSync(join(dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
  return { dataDir, tickets, host: serve(dataDir) }
}

let shared: Place | undefined
/** A host for tests that look only at their own workers and tickets: each begins without workers. */
async function sharedPlace(): Promise<Place> {
  if (shared === undefined) {
    shared = createPlace()
    keepForFile(shared.host)
  }
  for (const { id } of await fleetOf(shared)) await requestStatus(shared, `DELETE /api/workers/${id}`)
  return shared
}

function writeTicket({ tickets }: Place, name: string, fields = 'state: Todo'): void {
  writeFileSync(join(tickets, `${name}.md`), `---\n${fields}\n---\nThe text of ${name}.\n`)
}

async function get<T>({ host }: Place, path: string): Promise<T> {
  const { status, body } = await host.request(path)
  if (status !== 200) throw new Error(`${path} was answered with ${status}: ${JSON.stringify(body)}`)
  // Other tests check responses against their schemas.
  return body as T
}

async function runOf(at: Place, ticket: string, status?: Run['status']): Promise<Run> {
  let found: Run | undefined
  const isThere = async () => {
    found = (await get<Run[]>(at, `/api/runs?ticket=${ticket}`))[0]
    return found !== undefined && (status === undefined || found.status === status)
  }
  await until(`a run of ${ticket} that is ${status ?? 'there'}`, isThere)
  if (found === undefined) throw new Error('no run')
  return found
}

/** The queue reason of a run is updated a moment after a change. */
async function waitForQueueReason(at: Place, ticket: string, reason: string): Promise<void> {
  let seen: string | undefined
  const hasReason = async () => {
    seen = (await runOf(at, ticket, 'queued')).queueReason
    return seen === reason
  }
  await until(`${ticket} to wait because of "${reason}"`, hasReason).catch((error) => {
    throw new Error(`${error.message}; it says "${seen}"`)
  })
}

const eventsOf = (at: Place, { id }: Run): Promise<RunEvent[]> => get(at, `/api/runs/${id}/events`)

const fleetOf = async (at: Place) => (await get<FleetResponse>(at, '/api/workers')).workers

/** Sends a request such as `POST /path` and returns its status. */
async function requestStatus({ host }: Place, asks: string, body?: unknown): Promise<number> {
  const [method = 'GET', path = ''] = asks.split(' ')
  const answer = await host.request(path, { method, ...(body === undefined ? {} : { body }) })
  if (answer.status >= 400) expect(Object.keys(Object(answer.body))).toEqual(['error'])
  return answer.status
}

type Listener = 'management' | 'fleet'

async function addressOf({ host }: Place, listener: Listener): Promise<string> {
  const { url, fleetUrl } = await host.waitForLaunch()
  return listener === 'fleet' ? (fleetUrl ?? '').replace('ws:', 'http:') : url
}

/** The address in launch.json; without the file, an address without a listener. */
function workerSocket({ dataDir }: Place, via: Listener): string {
  const launch = readLaunch(dataDir)
  const address = via === 'fleet' ? launch?.fleetUrl : launch?.url.replace('http:', 'ws:')
  return `${address ?? 'ws://127.0.0.1:1'}/ws/worker`
}

async function enrollWorker(
  at: Place,
  name: string,
  more: Partial<ScriptedWorkerOptions> & { readonly via?: Listener } = {},
): Promise<ScriptedWorker> {
  const { via = 'fleet', ...parts } = more
  const { token } = (await at.host.request('/api/workers/pairing-tokens', { method: 'POST' })).body as {
    token: string
  }
  const worker = new ScriptedWorker({
    name,
    token,
    seed: 1,
    heartbeatMs: 200,
    recordFrames: true,
    url: () => workerSocket(at, via),
    ...parts,
  })
  workers.push(worker)
  worker.start()
  await until(`${name} to register`, () => worker.isRegistered)
  return worker
}

/** A script that waits between its start and its end until the test releases it. */
function holdScript(script: ExecutionScript = defaultScript) {
  let release = () => {}
  const until = new Promise<void>((resolve) => {
    release = resolve
  })
  const first: ScriptStep = { does: 'wait', until }
  const holding: ExecutionScript = (job, random) => {
    const [start, ...rest] = script(job, random)
    return start === undefined ? [first] : [start, first, ...rest]
  }
  return { script: holding, release: () => release() }
}

async function fetchDemand(at: Place, worker: ScriptedWorker, via: Listener = 'fleet') {
  const answer = await requestAsSupervisor(
    at,
    via,
    `GET /api/worker/demand?workerId=${worker.workerId}`,
    worker,
  )
  expect(answer.status).toBe(200)
  return answer.body as FleetDemandResponse
}

async function requestAsSupervisor(
  at: Place,
  via: Listener,
  asks: string,
  as: ScriptedWorker | string | undefined,
) {
  const [method = 'GET', path = ''] = asks.split(' ')
  const secret = typeof as === 'object' ? as.credential?.secret : as
  const answer = await fetch(`${await addressOf(at, via)}${path}`, {
    method,
    headers: secret === undefined ? {} : { authorization: `Bearer ${secret}` },
  })
  return { status: answer.status, body: await answer.json() }
}

async function openDashboard({ host }: Place) {
  const { url, token } = await host.waitForLaunch()
  const client = connectSocket(Number(new URL(url).port), '/ws', { authorization: `Bearer ${token}` })
  await client.opened
  await client.firstFrames(1)
  return client
}

const logsOf = (events: readonly RunEvent[]) =>
  events.flatMap((event) => (event.type === 'log' && event.stream === 'stdout' ? [event.text] : []))

const linesOf = (steps: readonly ScriptStep[]) =>
  steps.flatMap((step) => (step.does === 'log' ? [step.text] : []))

const statusesOf = (events: readonly RunEvent[]) =>
  events.flatMap((event) => (event.type === 'status' ? [event.to] : []))

async function restartHost(at: Place, signal: NodeJS.Signals): Promise<void> {
  at.host.process.kill(signal)
  await at.host.exit
  at.host = serve(at.dataDir)
  await at.host.waitForLaunch()
}

// ---- from a ticket to its result -------------------------------------------------------------------------------------

describe('a ticket dropped into the folder', () => {
  test('becomes a run, is dispatched and completed, with everything the worker reported', async () => {
    const at = createPlace()
    const worker = await enrollWorker(at, 'one')
    writeTicket(at, 'ENG-1', 'title: Mend the gate\nstate: Todo\npriority: high')
    const run = await runOf(at, 'ENG-1', 'completed')

    expect(run).toMatchObject({
      ticket: { identifier: 'ENG-1', title: 'Mend the gate', priority: 2 },
      sandbox: { provider: 'bwrap', id: `sb-${run.id}`, workerId: worker.workerId },
      agentSessionId: `session-${run.id}`,
      result: { summary: 'done with ENG-1', artifacts: ['ENG-1.txt'] },
      costs: [{ label: 'run', model: run.id }],
      costTotals: { inputTokens: 10, outputTokens: 5 },
    })
    expect(run.queueReason).toBeUndefined()
    expect(Date.parse(run.sandbox.retainedUntil ?? '')).toBeGreaterThan(Date.now() + 23 * 3_600_000)

    const [execution] = worker.executions
    const events = await eventsOf(at, run)
    expect(events.map(({ index }) => index)).toEqual(events.map((_, place) => place))
    expect(statusesOf(events)).toEqual(['queued', 'preparing', 'running', 'finalizing', 'completed'])
    expect(logsOf(events)).toEqual(linesOf(execution?.steps ?? []))
    expect(await get<RunEvent[]>(at, `/api/runs/${run.id}/events?after=1&limit=2`)).toEqual(
      events.slice(2, 4),
    )
    expect(await get<RunEvent[]>(at, `/api/runs/${run.id}/events?tail=2`)).toEqual(events.slice(-2))

    await isLeft(at, run, execution?.steps ?? [])
    await until('the worker to receive the end of its lease', () => worker.claims.length === 0)
    expect(execution).toMatchObject({ ending: 'completed', acknowledgedAt: expect.any(Number) })
  })

  async function isLeft(at: Place, run: Run, steps: readonly ScriptStep[]): Promise<void> {
    for (const step of steps) {
      if (step.does === 'artifact') {
        const { url, token } = await at.host.waitForLaunch()
        const file = await fetch(`${url}/api/runs/${run.id}/artifacts/${step.name}`, {
          headers: { authorization: `Bearer ${token}` },
        })
        expect(file.headers.get('content-type')).toContain('text/plain')
        expect(Buffer.from(await file.arrayBuffer())).toEqual(Buffer.concat(step.parts))
      }
      if (step.does === 'memories') {
        const { repos } = await get<MemoriesResponse>(at, '/api/memories')
        expect(repos['owner/name']).toMatchObject([{ text: step.facts[0], hits: 1, ident: 'ENG-1' }])
      }
      if (step.does === 'usage') {
        const file = join(at.dataDir, 'usage', USAGE_PROJECT, `${step.sessionId}.json`)
        const place = { projectKey: USAGE_PROJECT, sessionId: step.sessionId }
        expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ ...place, entries: step.entries })
      }
    }
  }

  test('is broadcast to dashboards in order, each event once, the end last', async () => {
    const at = createPlace()
    const dashboard = await openDashboard(at)
    await enrollWorker(at, 'one')
    writeTicket(at, 'ENG-1')
    const run = await runOf(at, 'ENG-1', 'completed')
    const isEnd = (frame: object) => 'run' in frame && (frame.run as Run).status === 'completed'
    await until('the end to be pushed', () => dashboard.frames.some(isEnd))

    const pushed = dashboard.frames.flatMap((frame) =>
      frame.type === 'run-event' ? [frame.event as RunEvent] : [],
    )
    const events = await eventsOf(at, run)
    expect(pushed).toEqual(events)
    const seen = dashboard.frames.flatMap((frame) =>
      frame.type === 'run-updated' ? [(frame.run as Run).status] : [],
    )
    const order = ['queued', 'preparing', 'running', 'finalizing', 'completed']
    expect(seen).toEqual(seen.toSorted((a, b) => order.indexOf(a) - order.indexOf(b)))
    expect(seen.at(-1)).toBe('completed')
    const lastEvent = dashboard.frames.findLastIndex(({ type }) => type === 'run-event')
    expect(dashboard.frames.findIndex(isEnd)).toBeGreaterThan(lastEvent)
    expect(dashboard.frames[0]).toMatchObject({ type: 'hello', runs: [], workers: [] })
    const types = new Set(dashboard.frames.map(({ type }) => type))
    for (const type of ['tickets', 'workers']) expect(types).toContain(type)
  })

  test('is counted by demand while it waits, runs and is finished', async () => {
    const at = createPlace()
    const { script, release } = holdScript()
    const worker = await enrollWorker(at, 'one', { concurrency: 1, script })
    const idle = { queuedRuns: 0, activeRuns: 0, connectedWorkers: 1, spareCapacity: 1 }
    expect(await fetchDemand(at, worker)).toMatchObject(idle)
    writeTicket(at, 'ENG-1')
    writeTicket(at, 'ENG-2')
    await until('one to run, one to wait', async () => {
      const statuses = (await get<Run[]>(at, '/api/runs')).map(({ status }) => status)
      return statuses.sort().join() === 'queued,running'
    })
    for (const via of ['fleet', 'management'] as const)
      expect(await fetchDemand(at, worker, via)).toEqual({
        queuedRuns: 1,
        wanted: 1,
        activeRuns: 1,
        connectedWorkers: 1,
        spareCapacity: 0,
        worker: {
          id: worker.workerId,
          connected: true,
          state: 'active',
          activeRuns: 1,
          attachSessions: 0,
        },
      })
    release()
    await runOf(at, 'ENG-1', 'completed')
    await runOf(at, 'ENG-2', 'completed')
    expect(await fetchDemand(at, worker)).toMatchObject(idle)
  })

  test('gets one run, and another one only after it was moved', async () => {
    const at = createPlace()
    await enrollWorker(at, 'one')
    writeTicket(at, 'ENG-1')
    const first = await runOf(at, 'ENG-1', 'completed')
    writeTicket(at, 'ENG-1', 'state: Todo\ntitle: edited')
    await until('the edit to be seen', async () => {
      const [ticket] = await get<Ticket[]>(at, '/api/tickets')
      return ticket?.title === 'edited'
    })
    expect(await get<Run[]>(at, '/api/runs')).toHaveLength(1)
    writeTicket(at, 'ENG-1', 'state: Doing')
    await until('it to leave the queue', async () => (await get<Ticket[]>(at, '/api/tickets')).length === 0)
    writeTicket(at, 'ENG-1')
    await until('a second run', async () => (await get<Run[]>(at, '/api/runs')).length === 2)
    expect((await runOf(at, 'ENG-1', 'completed')).id).not.toBe(first.id)
  })

  test('a waiting run shows why: no worker, no free slot, only draining workers, or a blocker', async () => {
    const at = createPlace()
    writeTicket(at, 'ENG-1')
    await waitForQueueReason(at, 'ENG-1', FLEET_REASONS.away)
    const { script, release } = holdScript()
    const worker = await enrollWorker(at, 'one', { concurrency: 1, script })
    await runOf(at, 'ENG-1', 'running')
    writeTicket(at, 'ENG-2')
    await waitForQueueReason(at, 'ENG-2', FLEET_REASONS.full)
    await requestStatus(at, `POST /api/workers/${worker.workerId}/drain`)
    await waitForQueueReason(at, 'ENG-2', FLEET_REASONS.draining)
    writeTicket(at, 'ENG-3', 'state: Todo\nblockedBy: [ENG-1]')
    await waitForQueueReason(at, 'ENG-3', 'waiting for ENG-1')
    release()
  })
})

// ---- both listeners --------------------------------------------------------------------------------------------------

describe('the two listeners', () => {
  test('workers may connect to either', async () => {
    const at = createPlace()
    const { script, release } = holdScript()
    const near = await enrollWorker(at, 'near', { via: 'management', concurrency: 1, script })
    const far = await enrollWorker(at, 'far', { via: 'fleet', concurrency: 1, script })
    expect(await fleetOf(at)).toMatchObject([
      { id: near.workerId, name: 'near', connection: 'online', address: '127.0.0.1', activeRuns: 0 },
      { id: far.workerId, name: 'far', connection: 'online', address: '127.0.0.1', activeRuns: 0 },
    ])
    for (const name of ['A', 'B', 'C', 'D']) writeTicket(at, name)
    await until('both to have one', () => near.executing + far.executing === 2)
    expect([near.executing, far.executing]).toEqual([1, 1])
    release()
    for (const name of ['A', 'B', 'C', 'D']) await runOf(at, name, 'completed')
  })

  test('any request on the fleet listener other than the worker socket, demand and state: 404', async () => {
    const at = await sharedPlace()
    const { token } = await at.host.waitForLaunch()
    const base = await addressOf(at, 'fleet')
    const seen: string[] = []
    for (const { method, path, listeners } of Object.values(routes)) {
      if ((listeners as readonly string[]).includes('fleet')) continue
      const asked = path.replaceAll(/:\w+/g, 'x')
      const answer = await fetch(base + asked, { method, headers: { authorization: `Bearer ${token}` } })
      seen.push(`${method} ${asked} ${answer.status}`)
      expect(Object.keys(Object(await answer.json()))).toEqual(['error'])
    }
    expect(seen.length).toBeGreaterThan(40)
    expect(seen.filter((line) => !line.endsWith(' 404'))).toEqual([])
    const wrongMethods = ['POST /api/worker/demand', 'GET /api/worker/state', 'GET /', 'GET /nowhere']
    for (const asks of wrongMethods)
      expect(await requestAsSupervisor(at, 'fleet', asks, token)).toMatchObject({ status: 404 })

    const dashboard = new WebSocket(`${base.replace('http:', 'ws:')}/ws?token=${token}`)
    const opened = await new Promise((resolve) => {
      dashboard.addEventListener('open', () => resolve(true))
      dashboard.addEventListener('error', () => resolve(false))
    })
    expect(opened).toBe(false)
  })
})

// ---- workers ---------------------------------------------------------------------------------------------------------

describe('enrolment', () => {
  test('a pairing token is single-use; a known worker reconnects with its credential', async () => {
    const at = await sharedPlace()
    const { token } = (await at.host.request('/api/workers/pairing-tokens', { method: 'POST' })).body as {
      token: string
    }
    expect(token).toMatch(/^wp-[\w-]{43}$/)
    const first = await enrollWorker(at, 'one', { token })
    expect(first.credential).toMatchObject({
      workerId: expect.stringMatching(/^wk-[0-9a-f]{16}$/),
      secret: expect.stringMatching(/^wc-[\w-]{43}$/),
    })
    const second = new ScriptedWorker({
      name: 'two',
      token,
      seed: 2,
      url: () => workerSocket(at, 'fleet'),
    })
    workers.push(second)
    second.start()
    await until('the second to be turned away', () => second.rejections.length > 0)
    expect(second.rejections).toMatchObject([{ code: 'invalid-token' }])

    const before = first.connections
    first.dropConnection()
    await until('it to come back', () => first.connections > before && first.isRegistered)
    expect((await fleetOf(at)).map(({ name, connection }) => `${name} ${connection}`)).toEqual(['one online'])
    const secret = first.credential?.secret ?? ''
    const everything = JSON.stringify([await fleetOf(at), (await at.host.request('/api/config')).body])
    expect(everything).not.toContain(secret)
    expect(at.host.out() + at.host.err()).not.toContain(secret)
  })
})

describe('rename, drain, enable, revoke', () => {
  test('the statuses of their rows', async () => {
    const at = await sharedPlace()
    const { workerId } = await enrollWorker(at, 'one')
    const rows: readonly (readonly [string, unknown?])[] = [
      ['POST /api/workers/wk-0000000000000000/rename', { name: 'x' }],
      ['POST /api/workers/wk-0000000000000000/drain'],
      ['POST /api/workers/wk-0000000000000000/enable'],
      ['DELETE /api/workers/wk-0000000000000000'],
      [`POST /api/workers/${workerId}/rename`, { name: ' \u0000\n ' }],
      [`POST /api/workers/${workerId}/rename`, { name: '' }],
      [`POST /api/workers/${workerId}/rename`, {}],
      [`POST /api/workers/${workerId}/rename`, { name: 'two' }],
      [`POST /api/workers/${workerId}/drain`],
      [`POST /api/workers/${workerId}/drain`],
      [`POST /api/workers/${workerId}/enable`],
      [`DELETE /api/workers/${workerId}`],
      [`DELETE /api/workers/${workerId}`],
    ]
    const seen: string[] = []
    for (const [asks, body] of rows)
      seen.push(
        `${asks.replace(workerId, 'ID').replace('wk-0000000000000000', 'NOBODY')} ${await requestStatus(at, asks, body)}`,
      )
    expect(seen).toEqual([
      'POST /api/workers/NOBODY/rename 404',
      'POST /api/workers/NOBODY/drain 404',
      'POST /api/workers/NOBODY/enable 404',
      'DELETE /api/workers/NOBODY 404',
      'POST /api/workers/ID/rename 400',
      'POST /api/workers/ID/rename 400',
      'POST /api/workers/ID/rename 400',
      'POST /api/workers/ID/rename 200',
      'POST /api/workers/ID/drain 200',
      'POST /api/workers/ID/drain 200',
      'POST /api/workers/ID/enable 200',
      'DELETE /api/workers/ID 200',
      'DELETE /api/workers/ID 404',
    ])
  })

  test('a name is trimmed, loses its control characters and is capped at 60', async () => {
    const at = await sharedPlace()
    const worker = await enrollWorker(at, 'one')
    const name = `  big\u0007 box ${'x'.repeat(80)}  `
    const renamed = await at.host.request(`/api/workers/${worker.workerId}/rename`, {
      method: 'POST',
      body: { name },
    })
    expect(renamed.body).toMatchObject({ workers: [{ name: `big box ${'x'.repeat(52)}` }] })
    worker.dropConnection()
    await until('it to hear its name', () => worker.nameAtHost?.startsWith('big box') === true)
  })

  test('a draining worker finishes its runs and gets no new ones, across reconnects and restarts', async () => {
    const at = createPlace()
    const { script, release } = holdScript()
    const worker = await enrollWorker(at, 'one', { concurrency: 2, script })
    writeTicket(at, 'ENG-1')
    await runOf(at, 'ENG-1', 'running')
    const drained = await at.host.request(`/api/workers/${worker.workerId}/drain`, { method: 'POST' })
    expect(drained.body).toMatchObject({ workers: [{ state: 'draining', activeRuns: 1 }] })
    await until('the worker to receive its state', () =>
      worker.recordedFrames.some(({ frame }) => frame.type === 'worker-state'),
    )
    expect(worker.state).toBe('draining')
    writeTicket(at, 'ENG-2')
    await runOf(at, 'ENG-2', 'queued')
    await restartHost(at, 'SIGTERM')
    await until('the worker to be back', () => worker.isRegistered)
    expect(worker.state).toBe('draining')
    release()
    await runOf(at, 'ENG-1', 'completed')
    expect(worker.executions.map(({ ticket }) => ticket)).toEqual(['ENG-1'])
    await waitForQueueReason(at, 'ENG-2', FLEET_REASONS.draining)
    expect(await requestStatus(at, `POST /api/workers/${worker.workerId}/enable`)).toBe(200)
    await runOf(at, 'ENG-2', 'completed')
    expect(worker.refusals).toEqual([])
  })

  test('a revoked worker is notified, disconnected, and refused afterwards', async () => {
    const at = await sharedPlace()
    const worker = await enrollWorker(at, 'one')
    const { secret = '', workerId = '' } = worker.credential ?? {}
    expect(await requestStatus(at, `DELETE /api/workers/${workerId}`)).toBe(200)
    await until('the worker to receive the revocation', () => worker.isRevoked)
    expect(await fleetOf(at)).toEqual([])
    const asks = `GET /api/worker/demand?workerId=${workerId}`
    expect(await requestAsSupervisor(at, 'fleet', asks, secret)).toMatchObject({ status: 403 })

    const again = new ScriptedWorker({
      name: 'one',
      token: '',
      seed: 3,
      url: () => workerSocket(at, 'fleet'),
    })
    again.credential = { workerId, secret }
    workers.push(again)
    again.start()
    await until('it to be turned away', () => again.rejections.length > 0)
    expect(again.rejections).toMatchObject([{ code: 'unauthorized' }])
    expect(again.credential).toBeUndefined()
  })
})

describe('worker-authenticated routes', () => {
  test('403 for an unknown worker and for a missing or wrong credential, with the same message on both listeners', async () => {
    const at = await sharedPlace()
    const first = await enrollWorker(at, 'one')
    const second = await enrollWorker(at, 'two')
    const { token } = await at.host.waitForLaunch()
    const own = `workerId=${first.workerId}`
    const cases: readonly (readonly [string, string | undefined])[] = [
      [own, undefined],
      [own, 'wc-wrong'],
      [own, second.credential?.secret],
      [own, token],
      ['workerId=wk-0000000000000000', first.credential?.secret],
      ['workerId=', first.credential?.secret],
      [`${own}&workerId=${second.workerId}`, first.credential?.secret],
      ['', first.credential?.secret],
    ]
    const seen = new Set<string>()
    for (const via of ['management', 'fleet'] as const)
      for (const [query, secret] of cases)
        for (const asks of [
          `GET /api/worker/demand?${query}`,
          `POST /api/worker/state?${query}&state=draining`,
        ])
          seen.add(JSON.stringify(await requestAsSupervisor(at, via, asks, secret)))
    expect([...seen]).toHaveLength(1)
    expect(JSON.parse([...seen][0] ?? '')).toMatchObject({ status: 403, body: { error: expect.any(String) } })
    expect((await fleetOf(at)).map(({ state }) => state)).toEqual(['active', 'active'])
  })

  test('a drain by the state route is in force before its response; demand also works for an offline worker', async () => {
    const at = createPlace()
    const { script, release } = holdScript()
    const worker = await enrollWorker(at, 'one', { concurrency: 2, script })
    writeTicket(at, 'ENG-1')
    await runOf(at, 'ENG-1', 'running')
    const change = async (via: Listener, state: string) =>
      await requestAsSupervisor(
        at,
        via,
        `POST /api/worker/state?workerId=${worker.workerId}&state=${state}`,
        worker,
      )
    expect(await change('fleet', 'draining')).toMatchObject({
      status: 200,
      body: { activeRuns: 1, spareCapacity: 0, worker: { state: 'draining', activeRuns: 1 } },
    })
    writeTicket(at, 'ENG-2')
    await runOf(at, 'ENG-2', 'queued')
    expect(worker.executions).toHaveLength(1)
    expect(await change('management', 'asleep')).toMatchObject({ status: 400 })
    expect(await change('management', 'active')).toMatchObject({ body: { worker: { state: 'active' } } })
    await runOf(at, 'ENG-2', 'running')
    release()
    for (const name of ['ENG-1', 'ENG-2']) await runOf(at, name, 'completed')
    worker.stop()
    await until('it to be offline', async () => (await fetchDemand(at, worker)).worker?.connected === false)
    expect(await fetchDemand(at, worker)).toMatchObject({
      connectedWorkers: 0,
      spareCapacity: 0,
      worker: { connected: false, state: 'active', activeRuns: 0, attachSessions: 0 },
    })
  })
})

// ---- runs ------------------------------------------------------------------------------------------------------------

describe('tickets and runs', () => {
  test('the statuses of their rows', async () => {
    const at = createPlace()
    const { script, release } = holdScript()
    await enrollWorker(at, 'one', { script })
    // The host lists only eligible tickets; tickets before a listed one have been read, too.
    writeTicket(at, 'ENG-2', 'state: Backlog')
    writeTicket(at, 'ENG-1')
    const { id } = await runOf(at, 'ENG-1', 'running')
    const rows = [
      'POST /api/tickets/ENG-1/run',
      'POST /api/tickets/ENG-9/run',
      'POST /api/tickets/ENG-2/run',
      'POST /api/tickets/ENG-2/run',
      `GET /api/runs/${id}`,
      'GET /api/runs/run-nobody',
      'GET /api/runs/run-nobody/events',
      `GET /api/runs/${id}/events?after=x`,
      'GET /api/runs?limit=0',
      'GET /api/runs?limit=1001',
      'GET /api/runs?status=asleep',
      `GET /api/runs/${id}/artifacts/..%2Fevents.jsonl`,
      `GET /api/runs/${id}/artifacts/%2Fetc%2Fpasswd`,
      `GET /api/runs/${id}/artifacts/a%00b`,
      `GET /api/runs/${id}/artifacts/a%ZZ`,
      `GET /api/runs/${id}/artifacts/nothing.txt`,
      'GET /api/runs/run-nobody/artifacts/nothing.txt',
      'POST /api/runs/run-nobody/cancel',
      'POST /api/runs/run-nobody/retry',
      'POST /api/runs/run-nobody/discard',
      `POST /api/runs/${id}/retry`,
      `POST /api/runs/${id}/discard`,
    ]
    const seen: string[] = []
    for (const asks of rows) seen.push(`${asks.replace(id, 'ID')} ${await requestStatus(at, asks)}`)
    release()
    expect(seen).toEqual([
      'POST /api/tickets/ENG-1/run 409',
      'POST /api/tickets/ENG-9/run 404',
      'POST /api/tickets/ENG-2/run 200',
      'POST /api/tickets/ENG-2/run 409',
      'GET /api/runs/ID 200',
      'GET /api/runs/run-nobody 404',
      'GET /api/runs/run-nobody/events 404',
      'GET /api/runs/ID/events?after=x 400',
      'GET /api/runs?limit=0 400',
      'GET /api/runs?limit=1001 400',
      'GET /api/runs?status=asleep 400',
      'GET /api/runs/ID/artifacts/..%2Fevents.jsonl 400',
      'GET /api/runs/ID/artifacts/%2Fetc%2Fpasswd 400',
      'GET /api/runs/ID/artifacts/a%00b 400',
      'GET /api/runs/ID/artifacts/a%ZZ 400',
      'GET /api/runs/ID/artifacts/nothing.txt 404',
      'GET /api/runs/run-nobody/artifacts/nothing.txt 404',
      'POST /api/runs/run-nobody/cancel 404',
      'POST /api/runs/run-nobody/retry 404',
      'POST /api/runs/run-nobody/discard 404',
      'POST /api/runs/ID/retry 409',
      'POST /api/runs/ID/discard 409',
    ])
  })

  test('lists: newest first, by status and ticket, with a Link to the next page', async () => {
    const at = createPlace()
    for (const name of ['A', 'B', 'C']) {
      writeTicket(at, name)
      await runOf(at, name)
    }
    const tickets = async (query: string) =>
      (await get<Run[]>(at, `/api/runs${query}`)).map(({ ticket }) => ticket.id)
    expect(await tickets('')).toEqual(['C', 'B', 'A'])
    expect(await tickets('?ticket=B')).toEqual(['B'])
    expect(await tickets('?status=queued&status=running&limit=2')).toEqual(['C', 'B'])
    expect(await tickets('?status=completed')).toEqual([])
    const { url, token } = await at.host.waitForLaunch()
    const headers = { authorization: `Bearer ${token}` }
    const page = await fetch(`${url}/api/runs?limit=2`, { headers })
    const next = /^<(.*)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1] ?? ''
    expect(await tickets(next.replace('/api/runs', ''))).toEqual(['A'])
  })

  test('cancel: queued at once; active by the worker, which reports the end; finished unchanged', async () => {
    const at = createPlace()
    writeTicket(at, 'ENG-1')
    const waiting = await runOf(at, 'ENG-1', 'queued')
    const cancel = ({ id }: Run) => at.host.request(`/api/runs/${id}/cancel`, { method: 'POST' })
    expect((await cancel(waiting)).body).toMatchObject({ status: 'cancelled' })
    const { script } = holdScript()
    const worker = await enrollWorker(at, 'one', { script })
    writeTicket(at, 'ENG-2')
    const active = await runOf(at, 'ENG-2', 'running')
    expect((await cancel(active)).status).toBe(200)
    const ended = await runOf(at, 'ENG-2', 'cancelled')
    expect(ended.costs).toHaveLength(1)
    expect(worker.executions).toMatchObject([{ ticket: 'ENG-2', ending: 'cancelled' }])
    await until('the worker to receive the end of its lease', () => worker.claims.length === 0)
    expect((await cancel(ended)).body).toEqual(ended)

    expect((await at.host.request(`/api/runs/${waiting.id}/retry`, { method: 'POST' })).status).toBe(200)
    await runOf(at, 'ENG-1', 'running')
  })

  test('a worker with a breaking connection continues, and reports missed events once and in order', async () => {
    const at = createPlace()
    const worker = await enrollWorker(at, 'one', { concurrency: 1 })
    for (const name of ['A', 'B', 'C', 'D', 'E', 'F']) {
      const known = worker.executions.length
      writeTicket(at, name)
      await until('its dispatch', () => worker.executions.length > known)
      // Three breaks within one run: one frame waits for its file, another for the connection.
      for (let breaks = 0; breaks < 3; breaks++) {
        worker.dropConnection()
        await until('it to be back', () => worker.isRegistered)
      }
      const run = await runOf(at, name, 'completed')
      const events = await eventsOf(at, run)
      expect(logsOf(events)).toEqual(linesOf(worker.executions.at(-1)?.steps ?? []))
      expect(statusesOf(events)).toEqual(['queued', 'preparing', 'running', 'finalizing', 'completed'])
      expect(worker.executions).toHaveLength(known + 1)
    }
  })

  test('a run that finishes while the host is down is accepted later; dropped events are named as lost', async () => {
    const at = createPlace()
    const chatty: ExecutionScript = (job, random) => {
      const [start, ...rest] = defaultScript(job, random)
      const chatter = Array.from(
        { length: 100 },
        (_, n): ScriptStep => ({ does: 'log', text: `chatter ${n}` }),
      )
      return start === undefined ? [] : [start, ...chatter, ...rest]
    }
    const { script, release } = holdScript(chatty)
    const worker = await enrollWorker(at, 'one', { script, bufferFramesMax: 40, pauseMsMax: 1 })
    writeTicket(at, 'ENG-1')
    await runOf(at, 'ENG-1', 'running')
    at.host.process.kill('SIGTERM')
    expect(await at.host.exit).toBe(0)
    release()
    await until('it to be finished', () => worker.executions[0]?.endedAt !== undefined)
    at.host = serve(at.dataDir)
    const run = await runOf(at, 'ENG-1', 'completed')
    const events = await eventsOf(at, run)
    const lost = events.flatMap((event) => (event.type === 'gap' ? [event.to - event.from + 1] : []))
    expect(lost.length).toBeGreaterThan(0)
    const all = linesOf(worker.executions[0]?.steps ?? [])
    const kept = logsOf(events)
    expect(kept).toEqual(all.filter((line) => kept.includes(line)))
    expect(run).toMatchObject({ result: { summary: 'done with ENG-1' }, costs: [{ model: run.id }] })
    expect(worker.executions).toHaveLength(1)
  })

  test('a worker that does not split a long log line stays connected, and the line is whole', async () => {
    const at = await sharedPlace()
    const line = `${'ä😀'.repeat(150_000)}end`
    expect(line.length).toBeGreaterThan(LOG_TEXT_CHARS_MAX)
    const verbose: ExecutionScript = (job, random) => {
      const [start, ...rest] = defaultScript(job, random)
      return start === undefined ? [] : [start, { does: 'log', text: line }, ...rest]
    }
    const worker = await enrollWorker(at, 'one', { script: verbose })
    writeTicket(at, 'LONG-1')
    const events = await eventsOf(at, await runOf(at, 'LONG-1', 'completed'))
    const texts = logsOf(events)
    expect(Math.max(...texts.map(({ length }) => length))).toBeLessThanOrEqual(LOG_TEXT_CHARS_MAX)
    expect(texts.join('').startsWith(line)).toBe(true)
    expect(worker.executions).toHaveLength(1)
    expect(worker.recordedFrames.filter(({ frame }) => frame.type === 'registered')).toHaveLength(1)
  })

  test('a late frame of a completed lease is answered with run-complete-ack, after a restart too', async () => {
    const at = createPlace()
    const worker = await enrollWorker(at, 'one')
    writeTicket(at, 'ENG-1')
    const run = await runOf(at, 'ENG-1', 'completed')
    const [execution] = worker.executions
    await until('the acknowledgement', () => execution?.acknowledgedAt !== undefined)
    const leaseId = execution?.leaseId ?? ''
    const event = { type: 'log', at: run.createdAt, stream: 'stdout', text: 'late' } as const
    const answers = () =>
      worker.recordedFrames
        .filter(({ direction, frame }) => direction === 'received' && 'leaseId' in frame)
        .map(({ frame }) => frame.type)
    for (const restarts of [false, true]) {
      if (restarts) {
        at.host.process.kill('SIGKILL')
        await at.host.exit
        at.host = serve(at.dataDir)
        await until('the worker to be back', async () => worker.isRegistered)
      }
      worker.recordedFrames.length = 0
      worker.sendFrame({ type: 'run-event', leaseId, seq: 1, event })
      await until('an answer', () => answers().length > 0)
      expect(answers()).toEqual(['run-complete-ack'])
    }
    expect(logsOf(await eventsOf(at, run))).toEqual(linesOf(execution?.steps ?? []))
  })

  test('a discarded sandbox is deleted by its worker, even if the worker is offline meanwhile', async () => {
    const at = createPlace()
    const worker = await enrollWorker(at, 'one')
    writeTicket(at, 'ENG-1')
    const { id } = await runOf(at, 'ENG-1', 'completed')
    await restartHost(at, 'SIGTERM')
    const answer = await at.host.request(`/api/runs/${id}/discard`, { method: 'POST' })
    expect(answer.status).toBe(200)
    expect((answer.body as Run).sandbox.id).toBeUndefined()
    await until('the worker to receive the discard', () => worker.discarded.includes(id))
    expect(await requestStatus(at, `POST /api/runs/${id}/discard`)).toBe(410)
  })

  test('a worker that no longer claims its lease loses it: the run is queued again as interrupted', async () => {
    const at = createPlace()
    const { script } = holdScript()
    const lost = await enrollWorker(at, 'one', { script, concurrency: 1 })
    writeTicket(at, 'ENG-1')
    const { id } = await runOf(at, 'ENG-1', 'running')
    // The same machine, started again with only its credential.
    const credential = lost.credential
    lost.stop()
    const fresh = new ScriptedWorker({
      name: 'one',
      token: '',
      seed: 4,
      url: () => workerSocket(at, 'fleet'),
    })
    fresh.credential = credential
    workers.push(fresh)
    fresh.start()
    const run = await runOf(at, 'ENG-1', 'completed')
    expect(run.id).toBe(id)
    expect(run.costs).toMatchObject([{ label: 'attempt 2' }])
    const events = await eventsOf(at, run)
    const reasons = events.flatMap((event) => (event.type === 'status' ? [event.reason ?? ''] : []))
    expect(reasons.some((reason) => reason.startsWith('interrupted: '))).toBe(true)
  })
})

describe('metrics', () => {
  test('frames by kind, dispatches and ends of leases are in /metrics', async () => {
    const at = createPlace()
    await enrollWorker(at, 'anvil')
    writeTicket(at, 'ENG-1')
    await runOf(at, 'ENG-1', 'completed')
    const { url, token } = await at.host.waitForLaunch()
    const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })
    const lines = (await response.text()).split('\n')
    for (const line of [
      'switchyard_dispatches_total{outcome="sent"} 1',
      'switchyard_leases_ended_total{how="completed"} 1',
      'switchyard_queue_wait_seconds_count 1',
      'switchyard_leases 0',
      'switchyard_queue_depth 0',
      'switchyard_workers_connected 1',
    ])
      expect(lines).toContain(line)
    // A worker repeats a frame when the acknowledgement is late.
    expect(lines).toContainEqual(
      expect.stringMatching(/^switchyard_frames_total\{type="run-complete"\} [1-9]/),
    )
    expect(lines.filter((line) => line.startsWith('switchyard_invariant_violations_total{'))).toEqual([])
  })
})
