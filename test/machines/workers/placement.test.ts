/** The scheduler places runs in order, as if each were offered to every worker, and examines few of those that must wait. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { HostContext } from '../../../actors/host-context.ts'
import { GRANTS_PER_COMMIT_MAX, Scheduler } from '../../../actors/workers/scheduler.ts'
import { WorkerRegistry } from '../../../actors/workers/worker-registry.ts'
import { placeRun } from '../../../core/fleet/placement.ts'
import { sandboxHolder } from '../../../core/run/follow-up.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import { compareTickets } from '../../../protocol/ticket-order.ts'
import { aRun, T0 } from '../../rules/run/runs.ts'
import { sampleTicket } from '../../rules/tickets/samples.ts'

const AGENTS = ['agentA', 'agentB'] as const
type Agent = (typeof AGENTS)[number]
const RETAINED_UNTIL = '2030-01-01T00:00:00.000Z'

interface FleetWorker {
  readonly slots: number
  readonly isOnline: boolean
  readonly agents: readonly Agent[]
}

const workerId = (n: number): string => `wk-${n}`

function addWorker(registry: WorkerRegistry, n: number, { slots, isOnline, agents }: FleetWorker): void {
  const found = { found: true }
  const capabilities = {
    os: 'linux',
    arch: 'x64',
    provider: 'bwrap',
    version: '0.1.0',
    maxConcurrency: slots,
    agents: Object.fromEntries(
      AGENTS.map((name) => [name, agents.includes(name) ? found : { found: false }]),
    ),
  }
  const stored = { id: workerId(n), name: workerId(n), hash: '0'.repeat(64), enrolledAt: T0, local: false }
  registry.updateWorker({ ...stored, capabilities, lastSeenAt: null, proven: true } as never, 'active')
  if (isOnline) registry.setConnection(workerId(n), { number: n + 1, since: T0, address: '' })
}

/** A scheduler whose grants are recorded as `run on worker`. @param isRefused grants have no effect */
function createFleet(workers: readonly FleetWorker[], isRefused = false) {
  const registry = new WorkerRegistry()
  workers.forEach((worker, n) => {
    addWorker(registry, n, worker)
  })
  const grants: string[] = []
  const postponed: (() => void)[] = []
  const seen = { wallNow: 0, examined: 0 }
  const preparation = {
    needsOf: ({ agent }: Run) => needsOf(agent?.provider as Agent),
    waitingFor: () => undefined,
    publishes: () => false,
    sandboxHolder(run: Run) {
      seen.examined += 1
      if (isInterrupted(run.id)) return undefined
      const holder = sandboxHolder(run, seen.wallNow)
      if (holder === undefined || registry.get(holder) === undefined) return undefined
      return { workerId: holder, until: Date.parse(run.sandbox.retainedUntil ?? '') }
    },
    preferredHolder: ({ id, sandbox }: Run) => (isInterrupted(id) ? sandbox.workerId : undefined),
    readiness: () => 'ready',
  }
  const manager = {
    grantLease({ id }: Run, worker: { readonly id: string }) {
      grants.push(`${id} on ${worker.id}`)
      if (isRefused) return
      registry.updateLease({ id: `ls-${id}`, runId: id, workerId: worker.id } as never)
      scheduler.remove(id)
    },
  }
  // The casts hold because the scheduler uses nothing else of the host.
  const context = {
    timers: { now: () => 0 },
    clock: { now: () => seen.wallNow, endOfTick: (run: () => void) => void postponed.push(run) },
    store: { database: { state: () => ({ is: 'ready' }) } },
    isServing: () => true,
    config: () => ({ policy: { paused: false }, repos: {} }),
    requestCommit: () => {},
  } as unknown as HostContext
  const modules = {
    workers: { registry },
    runs: { lostLeaseOf: () => undefined },
    jobs: { preparation },
    tracker: { intake: { currentTicket: (ticket: Ticket) => ticket } },
    leases: { manager },
    trustedClock: { now: () => seen.wallNow },
  } as unknown as ConstructorParameters<typeof Scheduler>[1]
  const scheduler = new Scheduler(context, modules)
  return { scheduler, registry, grants, postponed, seen }
}

const needsOf = (agent: Agent) => ({ key: agent, agent, subjects: [] })

interface QueuedRun {
  readonly agent: Agent
  readonly priority: Ticket['priority']
  /** The worker that holds its sandbox. */
  readonly heldBy?: number | undefined
  /** The run prefers that worker, and does not wait for it. */
  readonly wasInterrupted?: boolean
}

const INTERRUPTED = '-interrupted'
const isInterrupted = (runId: string): boolean => runId.endsWith(INTERRUPTED)

function runOf({ agent, priority, heldBy, wasInterrupted }: QueuedRun, n: number): Run {
  const ticket = sampleTicket({
    id: `${n}`,
    priority,
    createdAt: `2026-01-01T00:00:${String(n % 7).padStart(2, '0')}.000Z`,
  })
  const held = { id: `box-${n}`, workerId: workerId(heldBy ?? 0), retainedUntil: RETAINED_UNTIL }
  return aRun({
    id: `run-${String(n).padStart(3, '0')}${wasInterrupted === true ? INTERRUPTED : ''}`,
    ticket,
    agent: { provider: agent },
    ...(heldBy === undefined ? {} : { sandbox: held }),
  } as Partial<Run>)
}

const anyWorker = fc.record({
  slots: fc.integer({ min: 0, max: 3 }),
  isOnline: fc.boolean(),
  agents: fc.subarray([...AGENTS]),
})
const anyRun = fc.record({
  agent: fc.constantFrom(...AGENTS),
  priority: fc.constantFrom<Ticket['priority']>(0, 1, 2),
  heldBy: fc.option(fc.nat(5), { nil: undefined }),
  wasInterrupted: fc.boolean(),
})

const byAge = (a: Run, b: Run): number =>
  a.ticket.createdAt.localeCompare(b.ticket.createdAt) || (a.id < b.id ? -1 : 1)

test('runs that can not be granted are each tried once', () => {
  const { scheduler, grants, postponed } = createFleet([{ slots: 1, isOnline: true, agents: AGENTS }], true)
  const runs = Array.from({ length: GRANTS_PER_COMMIT_MAX + 10 }, (_, n) =>
    runOf({ agent: 'agentA', priority: 1 }, n),
  )
  for (const run of runs) scheduler.add(run)
  scheduler.placeRuns()
  expect([new Set(grants).size, grants.length, postponed]).toEqual([runs.length, runs.length, []])
})

test('a fleet that arrives at once gets its runs with several commits, in order', () => {
  const count = GRANTS_PER_COMMIT_MAX + 10
  const worker = { slots: 1, isOnline: true, agents: AGENTS }
  const { scheduler, grants, postponed } = createFleet(Array.from({ length: count }, () => worker))
  const runs = Array.from({ length: count }, (_, n) => runOf({ agent: 'agentA', priority: 1 }, n))
  for (const run of runs) scheduler.add(run)
  scheduler.placeRuns()
  expect(grants).toHaveLength(GRANTS_PER_COMMIT_MAX)
  scheduler.placeRuns()
  expect(grants).toHaveLength(GRANTS_PER_COMMIT_MAX)
  expect(postponed).toHaveLength(1)
  postponed[0]?.()
  scheduler.placeRuns()
  const granted = grants.map((grant) => grant.split(' ', 1)[0])
  expect(granted).toEqual([...runs].sort(byAge).map(({ id }) => id))
  expect(postponed).toHaveLength(1)
})

test('the grants are those of offering every run, in order, to every worker', () => {
  fc.assert(
    fc.property(
      fc.array(anyWorker, { minLength: 1, maxLength: 5 }),
      fc.array(anyRun, { maxLength: 25 }),
      (workers, queued) => {
        const fleet = createFleet(workers)
        const plain = createFleet(workers)
        const runs = queued.map(runOf)
        for (const { scheduler } of [fleet, plain]) for (const run of runs) scheduler.add(run)
        fleet.scheduler.placeRuns()
        const inOrder = [...runs].sort((a, b) => compareTickets(a.ticket, b.ticket) || (a.id < b.id ? -1 : 1))
        const expected: string[] = []
        for (const run of inOrder) {
          const placed = placeRun(plain.scheduler.placementRequest(run), plain.registry.all(), 0)
          if (placed.is === 'waits') continue
          expected.push(`${run.id} on ${placed.worker}`)
          plain.registry.updateLease({ id: run.id, runId: run.id, workerId: placed.worker } as never)
        }
        expect(fleet.grants).toEqual(expected)
      },
    ),
    { numRuns: 500 },
  )
})

test('runs that none of the free workers can take are passed over as a whole', () => {
  const both: FleetWorker = { slots: 1, isOnline: true, agents: ['agentA'] }
  const { scheduler, grants, seen } = createFleet([{ ...both, slots: 0 }, both])
  for (let n = 0; n < 500; n++) scheduler.add(runOf({ agent: 'agentA', priority: 1, heldBy: 0 }, n))
  for (let n = 500; n < 900; n++) scheduler.add(runOf({ agent: 'agentB', priority: 1 }, n))
  scheduler.add(runOf({ agent: 'agentA', priority: 2 }, 999))
  seen.examined = 0
  scheduler.placeRuns()
  expect(grants).toEqual(['run-999 on wk-1'])
  expect(seen.examined).toBeLessThan(10)
})

test('a follow-up that was queued before its worker was known holds up nobody, and waits for its worker', () => {
  const worker: FleetWorker = { slots: 1, isOnline: true, agents: ['agentA'] }
  const { scheduler, registry, grants } = createFleet([])
  const [followUp, firstWork] = [
    runOf({ agent: 'agentA', priority: 1, heldBy: 0 }, 0),
    runOf({ agent: 'agentA', priority: 2 }, 1),
  ] as [Run, Run]
  for (const run of [followUp, firstWork]) scheduler.add(run)
  addWorker(registry, 0, { ...worker, isOnline: false })
  addWorker(registry, 1, worker)
  scheduler.requestScheduling()
  scheduler.placeRuns()
  expect(grants).toEqual(['run-001 on wk-1'])
  registry.setConnection(workerId(0), { number: 9, since: T0, address: '' })
  scheduler.refreshQueue()
  scheduler.placeRuns()
  expect(grants).toEqual(['run-001 on wk-1', 'run-000 on wk-0'])
})

test('follow-ups go to any worker once their sandboxes are retained no more, or their worker is not enrolled', () => {
  const worker: FleetWorker = { slots: 5, isOnline: true, agents: ['agentA'] }
  const queued = [0, 1, 2].map((n) => runOf({ agent: 'agentA', priority: 1, heldBy: 0 }, n))
  for (const ends of ['retention', 'enrollment']) {
    const { scheduler, registry, grants, seen } = createFleet([{ ...worker, isOnline: false }, worker])
    for (const run of queued) scheduler.add(run)
    scheduler.placeRuns()
    expect(grants).toEqual([])
    if (ends === 'retention') seen.wallNow = Date.parse(RETAINED_UNTIL)
    else registry.removeWorker(workerId(0))
    scheduler.requestScheduling()
    scheduler.placeRuns()
    expect(grants).toEqual(['run-000 on wk-1', 'run-001 on wk-1', 'run-002 on wk-1'])
  }
})

test('a run that is retained longer keeps waiting for its worker when others are released', () => {
  const worker: FleetWorker = { slots: 5, isOnline: true, agents: ['agentA'] }
  const { scheduler, grants, seen } = createFleet([{ ...worker, isOnline: false }, worker])
  const [short, long] = [0, 1].map((n) => runOf({ agent: 'agentA', priority: 1, heldBy: 0 }, n)) as [Run, Run]
  scheduler.add({ ...short, sandbox: { ...short.sandbox, retainedUntil: '2029-01-01T00:00:00.000Z' } })
  scheduler.add(long)
  seen.wallNow = Date.parse('2029-06-01T00:00:00.000Z')
  scheduler.placeRuns()
  expect(grants).toEqual(['run-000 on wk-1'])
  seen.examined = 0
  scheduler.requestScheduling()
  scheduler.placeRuns()
  expect([grants.length, seen.examined]).toEqual([1, 1])
})
