/**
 * A host API in memory: some runs, workers and memories, and answers that a test can set.
 *
 * The fake fulfils the contract that the listeners rely on, and nothing else of the real host.
 */
import type { ArtifactFile, HostApi } from '../../actors/api/host-api.ts'
import type { OutgoingPush, WorkerReceiver, WorkerSender } from '../../core/ports/connections.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { planEventPage } from '../../core/run/event-page.ts'
import { configDefaults } from '../../protocol/config.ts'
import type { DashboardPush, HelloFrame } from '../../protocol/dashboard.ts'
import type { Gate } from '../../protocol/explain.ts'
import type { JoinKey } from '../../protocol/join-key.ts'
import { WORKER_FRAME_BYTES_MAX, WORKER_UNREGISTERED_FRAME_BYTES_MAX } from '../../protocol/limits.ts'
import type { SettingsUpdateResponse } from '../../protocol/routes.ts'
import type { RepoMemory, Run, RunEvent, Ticket } from '../../protocol/run.ts'
import type { HealthResponse, WorkerState, WorkerView } from '../../protocol/worker.ts'
import { outgoingPush } from './dashboard-pushes.ts'
import { batchesOf } from './event-batches.ts'
import { createFakeProviderApi, type ProviderAnswers } from './fake-provider-api.ts'

export const WORKER_ID = 'wk-0123456789abcdef'
export const JOIN_KEY = 'wj-test-key-0123456789abcdefghijklmn'
export const CREDENTIAL = 'wc-test-credential-0123456789abcdefghijklmn'
export const LISTED_ORIGIN = 'https://dash.example'

type PushListener = (push: OutgoingPush) => void

/** A connected worker, and everything that its socket has reported. */
export interface FakeWorkerReceiver extends WorkerReceiver {
  readonly link: WorkerSender
  readonly frames: string[]
  readonly unreadableReasons: string[]
  isClosed: boolean
  /** Registers the worker, which may then send frames of full length. */
  register(): void
}

/** A host API whose answers a test sets, and through which it pushes. */
export interface FakeHostApi extends HostApi, ProviderAnswers {
  healthAnswer: HealthResponse
  helloAnswer: HelloFrame
  changed(
    patch: Record<string, unknown>,
    confirm?: readonly string[],
  ): Promise<Result<SettingsUpdateResponse>> | Result<SettingsUpdateResponse>
  push(push: DashboardPush): void
  /** The refusal of the next worker connection; undefined: it is accepted. */
  workerRefusal: string | undefined
  /** Whether a connection without proof is accepted. */
  hasSeat: boolean
  proofOf(workerId: string | undefined, secret: string): string | undefined
  /** The proof of each worker connection. */
  readonly proofs: (string | undefined)[]
  acceptsWork: boolean
  /** The queries about runs. */
  readonly runQueries: unknown[]
  /** The options of each start and retry. */
  readonly runOptions: unknown[]
  readonly patches: Record<string, unknown>[]
  readonly listeners: Set<PushListener>
  readonly runsById: Map<string, Run>
  readonly eventsById: Map<string, RunEvent[]>
  readonly artifacts: Map<string, ArtifactFile>
  readonly memoriesByRepo: Map<string, RepoMemory[]>
  readonly workersById: Map<string, WorkerView>
  readonly workerConnections: FakeWorkerReceiver[]
  readonly storedJoinKeys: JoinKey[]
  inspected: HostApi['inspect']
}

export function createFakeHostApi(): FakeHostApi {
  const hostApi: FakeHostApi = {
    inspected: () => no('conflict', 'nothing is to be seen here'),
    healthAnswer: {
      ok: true,
      version: '0.1.0',
      sandboxProvider: 'bwrap',
      hostExecution: { kind: 'local-worker' },
    },
    helloAnswer: {
      type: 'hello',
      runs: [],
      tickets: [],
      config: configDefaults,
      linearStatus: { state: 'disconnected' },
      workers: [],
    },
    attention: () => ({ items: [] }),
    acknowledgeAttention: async () => yes({ items: [] }),
    changed: () => yes({ config: configDefaults, applied: 'live' }),
    workerRefusal: undefined,
    hasSeat: true,
    proofOf: (workerId, secret) =>
      secret === CREDENTIAL && workerId === WORKER_ID ? `worker ${workerId}` : undefined,
    proofs: [],
    acceptsWork: true,
    runQueries: [],
    runOptions: [],
    patches: [],
    listeners: new Set(),
    runsById: new Map(),
    eventsById: new Map(),
    artifacts: new Map(),
    memoriesByRepo: new Map(),
    answers: new Map(),
    providerCalls: [],
    workersById: new Map([[WORKER_ID, fakeWorker(WORKER_ID)]]),
    workerConnections: [],
    storedJoinKeys: [],
    push: (push) => {
      for (const listener of hostApi.listeners) listener(outgoingPush(push))
    },
    health: () => hostApi.healthAnswer,
    config: () => configDefaults,
    changeSettings: async (patch, confirm) => {
      hostApi.patches.push(patch)
      return hostApi.changed(patch, confirm)
    },
    setPaused: async (paused) => {
      hostApi.patches.push({ policy: { paused } })
      return yes({ paused })
    },
    trackerStatus: () => hostApi.helloAnswer.linearStatus,
    hello: () => hostApi.helloAnswer,
    changesHello: () => {
      const { runs: _, tickets: __, ...hello } = hostApi.helloAnswer
      return hello
    },
    onPush: (listener) => {
      hostApi.listeners.add(listener)
      return () => void hostApi.listeners.delete(listener)
    },
    allowedOrigins: () => [LISTED_ORIGIN],
    admitWorker: (workerId, secret) =>
      workerId === WORKER_ID && secret === CREDENTIAL ? yes({ workerId }) : no('forbidden', 'no'),
    admitJoinKey: (key) => (key === JOIN_KEY ? yes({ id: 'jk-1' }) : no('forbidden', 'no')),
    inspect: (receiver) => hostApi.inspected(receiver),
    isOpen: () => hostApi.acceptsWork,
    storeState: () => ({ is: 'ready' }),
    updateGauges: () => {},
    actorsByKind: () => new Map([['run', 3]]),
    ...createRunApi(() => hostApi),
    ...createMemoryApi(() => hostApi),
    ...createWorkerApi(() => hostApi),
    ...createFakeProviderApi(() => hostApi),
  }
  return hostApi
}

type HostApiPart<N extends keyof HostApi> = Pick<HostApi, N>

// ---- runs --------------------------------------------------------------------------------------------------------

type RunMethod =
  | 'tickets'
  | 'activeTicketRun'
  | 'ticketRun'
  | 'createTicket'
  | 'runTicket'
  | 'runs'
  | 'run'
  | 'listedRun'
  | 'runEvents'
  | 'nextEventIndex'
  | 'artifact'
  | 'cancelRun'
  | 'retryRun'
  | 'publishRun'
  | 'discardRun'
  | 'placement'
  | 'explainTicket'
  | 'explainRun'

const at = '2026-03-01T08:30:00.000Z'

export function fakeTicket(identifier: string): Ticket {
  return {
    id: `t-${identifier}`,
    identifier,
    title: 'The lamp flickers',
    description: '',
    url: '',
    state: 'Todo',
    priority: 2,
    labels: [],
    blockedBy: [],
    createdAt: at,
    updatedAt: at,
  }
}

export function fakeRun(id: string, status: Run['status'] = 'queued', identifier = 'ENG-1'): Run {
  return { id, ticket: fakeTicket(identifier), status, sandbox: {}, createdAt: at, costs: [] }
}

export const FAKE_GATE: Gate = { id: 'capacity', status: 'wait', message: 'attic 2 of 2 slots' }

const TERMINAL = ['completed', 'failed', 'cancelled']

function createRunApi(hostApi: () => FakeHostApi): HostApiPart<RunMethod> {
  const found = (id: string): Result<Run> => {
    const run = hostApi().runsById.get(id)
    return run === undefined ? no('unknown', `there is no run ${id}`) : yes(run)
  }
  const moved = (id: string, to: Run['status'], when: (run: Run) => boolean): Result<Run> => {
    const run = found(id)
    if (!run.ok) return run
    if (!when(run.value)) return no('conflict', `the run is ${run.value.status}`)
    const next = { ...run.value, status: to }
    hostApi().runsById.set(id, next)
    return yes(next)
  }
  return {
    tickets: () => [fakeTicket('ENG-1'), fakeTicket('ENG-2')],
    activeTicketRun: (ticketId) =>
      [...hostApi().runsById.values()].find(
        ({ ticket, status }) => ticket.id === ticketId && !TERMINAL.includes(status),
      ),
    ticketRun: (ticketId) => {
      const runs = [...hostApi().runsById.values()].filter(({ ticket }) => ticket.id === ticketId)
      return (
        runs.find(({ status }) => !TERMINAL.includes(status)) ??
        runs.toSorted((a, b) => (a.id < b.id ? 1 : -1))[0]
      )
    },
    createTicket: async ({ title, start = true }) => {
      const ticket = { ...fakeTicket('ENG-3'), title }
      if (!start) return yes({ ticket })
      const run = fakeRun(`run-${hostApi().runsById.size}`, 'queued', 'ENG-3')
      hostApi().runsById.set(run.id, run)
      return yes({ ticket, run })
    },
    runTicket: async (ticket, options) => {
      hostApi().runOptions.push(options)
      if (!['t-ENG-1', 'ENG-1', 'ENG-2'].includes(ticket)) return no('unknown', `no ticket ${ticket}`)
      const active = [...hostApi().runsById.values()].some(
        (run) => !TERMINAL.includes(run.status) && [run.ticket.id, run.ticket.identifier].includes(ticket),
      )
      if (active) return no('conflict', 'the ticket has an active run')
      const run = fakeRun(`run-${hostApi().runsById.size}`, 'queued', ticket.replace('t-', ''))
      hostApi().runsById.set(run.id, run)
      return yes(run)
    },
    runs: (query) => {
      hostApi().runQueries.push(query)
      const { before, limit, status, ticket } = query
      const runs = [...hostApi().runsById.values()]
        .sort((a, b) => (a.id < b.id ? 1 : -1))
        .filter((run) => before === undefined || run.id < before)
        .filter((run) => status === undefined || status.includes(run.status))
        .filter((run) => ticket === undefined || run.ticket.identifier === ticket)
      if (before !== undefined && !hostApi().runsById.has(before)) return no('invalid', `no run ${before}`)
      return yes({ runs: runs.slice(0, limit), more: limit !== undefined && runs.length > limit })
    },
    run: found,
    listedRun: found,
    runEvents: (id, query) => {
      const run = found(id)
      if (!run.ok) return run
      const events = hostApi().eventsById.get(id) ?? []
      const planned = planEventPage(query, events.length)
      if (!planned.ok) return planned
      const { read, ...neighbors } = planned.value
      const { after = -1, before = Number.POSITIVE_INFINITY, limit } = read
      const asked = events.filter(({ index }) => index > after && index < before)
      return yes({ events: batchesOf(asked.slice(0, limit)), ...neighbors })
    },
    nextEventIndex: (id) => hostApi().eventsById.get(id)?.length ?? 0,
    artifact: async (id, name) => {
      const run = found(id)
      if (!run.ok) return run
      if (/[/\\\0]|^\.\.?$/.test(name)) return no('invalid', 'the name is not that of a file')
      const file = hostApi().artifacts.get(name)
      return file === undefined ? no('unknown', `the run has no artifact ${name}`) : yes(file)
    },
    cancelRun: async (id) => {
      const run = found(id)
      return run.ok && TERMINAL.includes(run.value.status) ? run : moved(id, 'cancelled', () => true)
    },
    retryRun: async (id, options) => {
      hostApi().runOptions.push(options)
      return moved(id, 'queued', (run) => TERMINAL.includes(run.status))
    },
    publishRun: async (id) => moved(id, 'queued', (run) => TERMINAL.includes(run.status)),
    discardRun: async (id) => {
      const run = found(id)
      if (!run.ok || TERMINAL.includes(run.value.status)) return run
      return no('conflict', 'the run has not ended')
    },
    explainTicket: (asked) => {
      const { runsById, tickets } = hostApi()
      const known = [...tickets(), ...[...runsById.values()].map(({ ticket }) => ticket), fakeTicket('ENG-1')]
      const ticket = known.find(({ id, identifier }) => [id, identifier].includes(asked))
      return ticket === undefined ? no('unknown', 'no ticket') : yes({ ticket, gates: [FAKE_GATE] })
    },
    explainRun: (id) => {
      const run = found(id)
      return run.ok ? yes({ ticket: run.value.ticket, run: run.value, gates: [FAKE_GATE] }) : run
    },
    placement: (id) => {
      const run = found(id)
      if (!run.ok) return run
      return yes({
        runId: id,
        reason: 'fleet at capacity',
        workers: [{ id: WORKER_ID, name: 'attic', free: 0, reason: 'busy' }],
      })
    },
  }
}

// ---- memories ----------------------------------------------------------------------------------------------------

export const fakeMemory = (id: string): RepoMemory => ({
  id,
  text: 'Tests need a database.',
  createdAt: at,
  updatedAt: at,
  hits: 1,
})

function createMemoryApi(
  hostApi: () => FakeHostApi,
): HostApiPart<'memories' | 'keepMemory' | 'forgetMemory' | 'clearMemories'> {
  const memories = () => ({ repos: Object.fromEntries(hostApi().memoriesByRepo) })
  return {
    memories,
    keepMemory: async (repo, id) => {
      const known = hostApi().memoriesByRepo.get(repo) ?? []
      if (!known.some((memory) => memory.id === id)) return no('unknown', `no memory ${id}`)
      hostApi().memoriesByRepo.set(
        repo,
        known.map((memory) => (memory.id === id ? { ...memory, state: 'kept' } : memory)),
      )
      return yes(memories())
    },
    forgetMemory: async (repo, id) => {
      const kept = hostApi().memoriesByRepo.get(repo) ?? []
      if (!kept.some((memory) => memory.id === id)) return no('unknown', `nothing to drop in ${repo}`)
      hostApi().memoriesByRepo.set(
        repo,
        kept.filter((memory) => memory.id !== id),
      )
      return yes(memories())
    },
    clearMemories: async (repo) =>
      hostApi().memoriesByRepo.delete(repo) ? yes(memories()) : no('unknown', `nothing to drop in ${repo}`),
  }
}

// ---- workers -----------------------------------------------------------------------------------------------------

type WorkerMethod =
  | 'fleet'
  | 'renameWorker'
  | 'drainWorker'
  | 'enableWorker'
  | 'revokeWorker'
  | 'mintPairingToken'
  | 'provisionWorker'
  | 'joinKeys'
  | 'createJoinKey'
  | 'deleteJoinKey'
  | 'demand'
  | 'changeWorkerState'
  | 'connectWorker'
  | 'proveWorker'
  | 'hasWorkerSeat'

export const fakeWorker = (id: string): WorkerView => ({
  id,
  name: 'attic',
  state: 'active',
  connection: 'offline',
  activeRuns: 0,
  enrolledAt: at,
})

function createWorkerApi(hostApi: () => FakeHostApi): HostApiPart<WorkerMethod> {
  const fleet = () => ({ workers: [...hostApi().workersById.values()] })
  const change = (id: string, made: (worker: WorkerView) => Result<WorkerView>) => {
    const worker = hostApi().workersById.get(id)
    const next = worker === undefined ? no('unknown', `no worker ${id} is enrolled`) : made(worker)
    if (!next.ok) return next
    hostApi().workersById.set(id, next.value)
    return yes(fleet())
  }
  const turned = (id: string, state: WorkerState) => change(id, (worker) => yes({ ...worker, state }))
  const demand: HostApi['demand'] = (id) => {
    const fleet = { queuedRuns: 1, wanted: 1, activeRuns: 2, connectedWorkers: 0, spareCapacity: 0 }
    if (id === undefined) return yes(fleet)
    const worker = hostApi().workersById.get(id)
    if (worker === undefined) return no('forbidden', 'no')
    const { state, drainedBy } = worker
    const holders = drainedBy === undefined ? {} : { drainedBy }
    const own = { id, connected: false, state, ...holders, activeRuns: 0, attachSessions: 0 }
    return yes({ ...fleet, worker: own })
  }
  return {
    fleet,
    renameWorker: async (id, name) =>
      change(id, (worker) => {
        if (worker.local === true) return no('invalid', 'the local worker cannot be renamed')
        return name.trim() === '' ? no('invalid', 'the name is empty') : yes({ ...worker, name: name.trim() })
      }),
    drainWorker: async (id) => turned(id, 'draining'),
    enableWorker: async (id) => turned(id, 'active'),
    revokeWorker: async (id) => {
      const worker = hostApi().workersById.get(id)
      if (worker === undefined) return no('unknown', `no worker ${id} is enrolled`)
      if (worker.local === true) return no('invalid', 'the local worker cannot be revoked')
      hostApi().workersById.delete(id)
      return yes(fleet())
    },
    provisionWorker: async () => yes({ ok: true, output: '' }),
    mintPairingToken: () => yes({ token: 'wp-test', expiresAt: at }),
    joinKeys: () => ({ joinKeys: hostApi().storedJoinKeys }),
    createJoinKey: async ({ ephemeral = false, ...more }) => {
      const terms = { id: 'jk-test', ...more, ephemeral }
      hostApi().storedJoinKeys.push({ ...terms, createdAt: at, workers: 2 })
      return yes({ ...terms, key: JOIN_KEY })
    },
    deleteJoinKey: async (id, withWorkers) => {
      const keys = hostApi().storedJoinKeys
      if (withWorkers) hostApi().workersById.clear()
      const index = keys.findIndex((joinKey) => joinKey.id === id)
      return keys.splice(index, index < 0 ? 0 : 1).length === 0
        ? no('unknown', 'no such key')
        : yes({ ok: true })
    },
    demand,
    changeWorkerState: async (id, state) => {
      turned(id, state)
      return demand(id)
    },
    proveWorker: (workerId, secret) => hostApi().proofOf(workerId, secret),
    hasWorkerSeat: (address) => hostApi().hasSeat && address !== '',
    connectWorker: (link, proof) => {
      const { workerRefusal } = hostApi()
      if (workerRefusal !== undefined) return no('unavailable', workerRefusal)
      const line = createFakeConnection(link)
      hostApi().workerConnections.push(line)
      hostApi().proofs.push(proof)
      return yes(line)
    },
  }
}

function createFakeConnection(link: WorkerSender): FakeWorkerReceiver {
  let bytesMax = WORKER_UNREGISTERED_FRAME_BYTES_MAX
  const line: FakeWorkerReceiver = {
    link,
    frames: [],
    unreadableReasons: [],
    isClosed: false,
    register: () => {
      bytesMax = WORKER_FRAME_BYTES_MAX
    },
    onText: (text) => void line.frames.push(text),
    onUnreadable: (reason) => {
      line.unreadableReasons.push(reason)
      link.send(JSON.stringify({ type: 'rejected', code: 'malformed', reason }))
      link.close(1008, reason)
    },
    onClosed: () => {
      line.isClosed = true
    },
    frameBytesMax: () => bytesMax,
  }
  return line
}
