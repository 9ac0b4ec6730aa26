/** The scheduler's queue after tickets have changed: the runs that are reconsidered, and that none is forgotten. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { HostContext } from '../../../actors/host-context.ts'
import { Scheduler } from '../../../actors/workers/scheduler.ts'
import { WorkerRegistry } from '../../../actors/workers/worker-registry.ts'
import type { TrackedTicket } from '../../../core/ports/tracker.ts'
import { openBlockers, waitingCycle, waitingReason } from '../../../core/tickets/blockers.ts'
import { TicketListing } from '../../../core/tickets/ticket-listing.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { aRun } from '../../rules/run/runs.ts'
import { sampleTicket, tracked } from '../../rules/tickets/samples.ts'

const rules = { states: [], labels: [], projects: [], assignees: [] }

/** A scheduler without workers, whose runs wait for the blockers of their tickets only. */
function createQueue() {
  const listing = new TicketListing()
  const asked: string[] = []
  const currentTicket = (ticket: Ticket) => listing.byId.get(ticket.id)?.ticket ?? ticket
  let schedulings = 0
  const preparation = {
    needsOf: () => undefined,
    sandboxHolder: () => undefined,
    publishes: () => false,
    preferredHolder: () => undefined,
    waitingFor({ id, ticket }: { id: string; ticket: Ticket }) {
      asked.push(id)
      const current = currentTicket(ticket)
      const blockers = openBlockers(current, listing.byId)
      if (blockers.length === 0) return undefined
      return { gate: 'blockers', reason: waitingReason(blockers, waitingCycle(current, listing.byId)) }
    },
  }
  // The casts hold because the queue uses nothing else of the host, and no run is placed without a worker.
  const context = {
    timers: { now: () => 0 },
    clock: { now: () => 0 },
    store: { database: { state: () => ({ is: 'ready' }) } },
    isServing: () => true,
    config: () => ({ policy: { paused: false }, repos: {} }),
    requestCommit: () => {
      schedulings += 1
    },
  } as unknown as HostContext
  const modules = {
    workers: { registry: new WorkerRegistry() },
    runs: { lostLeaseOf: () => undefined },
    jobs: { preparation },
    tracker: { intake: { currentTicket } },
    trustedClock: { now: () => 0 },
  } as unknown as ConstructorParameters<typeof Scheduler>[1]
  const scheduler = new Scheduler(context, modules)
  return {
    scheduler,
    asked,
    schedulings: () => schedulings,
    add: (ticket: Ticket) => scheduler.add(aRun({ id: `r-${ticket.id}`, ticket })),
    list(tickets: readonly TrackedTicket[]) {
      scheduler.refreshRunsOf(listing.replace(tickets, rules).affectedNames)
    },
  }
}

test('one changed ticket among many has its own run and those behind it reconsidered, and no others', () => {
  const { scheduler, asked, add, list } = createQueue()
  const many = Array.from({ length: 200 }, (_, n) => tracked({ id: `${n}` }))
  const behind = [tracked({ id: 'x', blockedBy: ['ENG-7'] }), tracked({ id: 'y', blockedBy: ['x'] })]
  list([...many, ...behind])
  for (const { ticket } of [...many, ...behind]) add(ticket)
  expect(scheduler.queue.blockedBy('r-y')?.reason).toBe('waiting for ENG-x')
  asked.length = 0
  list([...many.filter(({ ticket }) => ticket.id !== '7'), tracked({ id: '7' }, true), ...behind])
  expect(asked.sort()).toEqual(['r-7', 'r-x', 'r-y'])
  expect(scheduler.queue.blockedBy('r-x')).toBeUndefined()
})

test('a changed title has nothing scheduled anew', () => {
  const { add, list, schedulings } = createQueue()
  list([tracked({ id: 'a' })])
  add(sampleTicket({ id: 'a' }))
  const before = schedulings()
  list([tracked({ id: 'a', title: 'Other' })])
  expect(schedulings()).toBe(before)
  list([tracked({ id: 'a', priority: 1 })])
  expect(schedulings()).toBe(before + 1)
})

test('a run that has left the queue is reconsidered no more', () => {
  const { scheduler, asked, add, list } = createQueue()
  list([tracked({ id: 'a' })])
  add(sampleTicket({ id: 'a' }))
  scheduler.remove('r-a')
  asked.length = 0
  list([tracked({ id: 'a', priority: 1 })])
  expect(asked).toEqual([])
})

const NAMES = ['a', 'b', 'c', 'd', 'e']
const anyTicket = fc.record({
  id: fc.constantFrom(...NAMES),
  identifier: fc.constantFrom('A', 'B', 'C', 'd'),
  priority: fc.constantFrom<0 | 1 | 2>(0, 1, 2),
  blockedBy: fc.uniqueArray(fc.constantFrom(...NAMES, 'A', 'B', 'C'), { maxLength: 2 }),
})
const anyListing = fc.uniqueArray(
  fc.tuple(anyTicket, fc.boolean()).map(([odd, closed]) => tracked(odd, closed)),
  { selector: ({ ticket }) => ticket.id },
)

test('after any listings the queue is that of a scheduler that has reconsidered every run', () => {
  const describe = ({ queue }: Scheduler) =>
    NAMES.map((name) => [queue.blockedBy(`r-${name}`)?.reason, queue.countBefore(`r-${name}`)])
  fc.assert(
    fc.property(fc.array(fc.tuple(anyListing, anyTicket), { maxLength: 6 }), (steps) => {
      const [changed, thorough] = [createQueue(), createQueue()]
      for (const [tickets, odd] of steps) {
        for (const { scheduler, add, list } of [changed, thorough]) {
          list(tickets)
          // The ticket of a run may have left the listing, or read otherwise there.
          if (scheduler.queue.has(`r-${odd.id}`)) scheduler.remove(`r-${odd.id}`)
          else add(sampleTicket(odd))
        }
        thorough.scheduler.refreshQueue()
        expect(describe(changed.scheduler)).toEqual(describe(thorough.scheduler))
      }
    }),
    { numRuns: 500 },
  )
})
