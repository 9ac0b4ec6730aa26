/**
 * Ticket intake evaluates what has changed. Whatever happens, it decides like an intake that evaluates every ticket
 * after each poll.
 */
import { expect, test } from '@jest/globals'
import { TICKETS_PER_TURN } from '../../../actors/tracker/ticket-backlog.ts'
import { TICKET_MOVE_VISIBLE_MS_MAX } from '../../../core/tickets/host-changes.ts'
import { HTTP_ANSWER_MS_MAX } from '../../../protocol/limits.ts'
import { sampleTicket } from '../../rules/tickets/samples.ts'
import { drawSeed, Random } from '../../support/random.ts'
import { DAMAGED, IntakeSystem } from './intake-system.ts'

const TICKETS = 500

async function createSystem(...ids: readonly string[]): Promise<IntakeSystem> {
  const system = new IntakeSystem()
  for (const id of ids) system.put(sampleTicket({ id }))
  await system.poll()
  await system.clock.advance(0)
  return system
}

test('one changed ticket among many costs the reads of one ticket', async () => {
  const ids = Array.from({ length: TICKETS }, (_, n) => `t-${n}`)
  const system = await createSystem(...ids)
  expect(system.runs.active.size).toBe(TICKETS)
  system.keyValues.reads = 0
  system.put(sampleTicket({ id: 't-7', title: 'Other' }))
  await system.poll()
  expect(system.keyValues.reads).toBeLessThan(10)
  expect(system.intake.shownTickets().find(({ id }) => id === 't-7')?.title).toBe('Other')
})

const MANY = Array.from({ length: 2 * TICKETS_PER_TURN + 1 }, (_, n) => `t-${n}`)

/** A system that has listed many tickets, the last ones first in the queue, and has judged none yet. */
async function createBusySystem(): Promise<IntakeSystem> {
  const system = new IntakeSystem()
  const createdAt = (n: number): string => new Date(Date.UTC(2026, 0, 1) - n * 60_000).toISOString()
  for (const [n, id] of MANY.entries()) system.put(sampleTicket({ id, createdAt: createdAt(n) }))
  await system.poll()
  return system
}

test('many new tickets become runs in several turns, in the order of the queue', async () => {
  const system = await createBusySystem()
  expect(system.runs.active.size).toBe(0)
  await system.clock.advance(0)
  expect([...system.runs.active.keys()]).toEqual(MANY.toReversed())
})

test('an edit in between is judged at once, and a poll waits until all tickets of the last one are judged', async () => {
  const system = await createBusySystem()
  system.intake.adoptTicket({ ticket: sampleTicket({ id: 'new' }), closed: false }, false)
  expect(system.runs.active.has('new')).toBe(true)
  expect(system.runs.active.has('t-0')).toBe(false)
  system.tickets.delete('t-0')
  await system.poll()
  expect(system.intake.find('t-0')).toBeDefined()
  await system.clock.advance(0)
  await system.settle()
  expect([system.intake.find('t-0'), system.runs.active.size]).toEqual([undefined, MANY.length + 1])
})

test('tickets that wait for their turn are judged as the newest listing has them', async () => {
  const system = await createBusySystem()
  system.setEligibleStates(['Elsewhere'])
  await system.clock.advance(0)
  const started = system.runs.events.filter((event) => event.startsWith('run'))
  expect([started, system.runs.active.size]).toEqual([[], 0])
})

test('a ticket with a run that leaves among many others is judged at once', async () => {
  const system = await createSystem('with-run')
  for (const id of MANY) system.put(sampleTicket({ id }))
  system.put(sampleTicket({ id: 'with-run', state: 'Backlog', createdAt: '2030-01-01T00:00:00.000Z' }))
  await system.poll()
  expect(system.runs.events).toContain('left with-run')
  expect(system.runs.active.size).toBe(0)
})

test('a run that a person starts while its ticket waits starts from what is seen of the ticket, and stays', async () => {
  const system = new IntakeSystem()
  const { activeMax } = system.runs
  system.runs.activeMax = 0
  system.put(sampleTicket({ id: 'by-hand' }))
  await system.poll()
  system.runs.activeMax = activeMax
  for (const id of MANY) system.put(sampleTicket({ id }))
  system.put(sampleTicket({ id: 'by-hand', state: 'Backlog', createdAt: '2030-01-01T00:00:00.000Z' }))
  await system.poll()
  const { ticket } = system.tickets.get('by-hand') ?? {}
  if (ticket === undefined) throw new Error('the ticket is not listed')
  system.runs.createRun(ticket)
  system.intake.onRunCreated('by-hand')
  expect(system.observations.get('by-hand')?.state).toBe('Backlog')
  await system.clock.advance(0)
  expect(system.runs.active.has('by-hand')).toBe(true)
  expect(system.runs.events).not.toContain('left by-hand')
})

test('a poll that a newer one has overtaken ends without a word', async () => {
  const system = await createBusySystem()
  let finished = 0
  system.onPollFinished = () => finished++
  system.intake.runEffect({ type: 'intake.poll' })
  system.intake.runEffect({ type: 'intake.poll' })
  await system.clock.advance(0)
  await system.settle()
  expect(finished).toBe(1)
})

test('a slice whose evaluation fails does not keep the others from being judged, and is judged at the next poll', async () => {
  const system = await createBusySystem()
  const get = system.observations.get.bind(system.observations)
  system.observations.get = () => {
    throw new Error('no read')
  }
  await expect(system.clock.advance(0)).rejects.toThrow('no read')
  system.observations.get = get
  await system.clock.advance(0)
  await system.poll()
  await system.clock.advance(0)
  expect(system.runs.active.size).toBe(MANY.length)
})

test('a stopped intake judges nothing more', async () => {
  const system = await createBusySystem()
  system.intake.stop()
  await system.clock.advance(0)
  expect(system.runs.active.size).toBe(0)
})

test('a poll that finds nothing new reads nothing and reports nothing', async () => {
  const system = await createSystem('a', 'b')
  const changes = system.changes.length
  system.keyValues.reads = 0
  system.tickets = new Map(structuredClone([...system.tickets]))
  await system.poll()
  expect([system.keyValues.reads, system.changes.length]).toEqual([0, changes])
})

test('the tickets that changed and those that wait for them are named', async () => {
  const system = await createSystem('a', 'b', 'c', 'd')
  system.put(sampleTicket({ id: 'b', blockedBy: ['a'] }))
  system.put(sampleTicket({ id: 'c', blockedBy: ['ENG-b'] }))
  await system.poll()
  system.put(sampleTicket({ id: 'a', state: 'Backlog' }))
  await system.poll()
  const names = ['ENG-a', 'ENG-b', 'ENG-c', 'a', 'b', 'c']
  expect([...(system.changes.at(-1)?.names ?? [])].sort()).toEqual(names)
  expect(system.changes.at(-1)?.isEligibleChanged).toBe(true)
})

test('a ticket for which the queue was full runs at a later poll', async () => {
  const system = new IntakeSystem()
  system.runs.activeMax = 1
  for (const id of ['a', 'b']) system.put(sampleTicket({ id }))
  await system.poll()
  expect(system.runs.events).toEqual(['run a The lamp flickers'])
  system.runs.activeMax = 2
  await system.poll()
  expect(system.runs.events).toEqual(['run a The lamp flickers', 'run b The lamp flickers'])
})

test('tickets whose evaluation failed because the store could not be read are evaluated at the next poll', async () => {
  const system = await createSystem('a')
  const { observations } = system
  const get = observations.get.bind(observations)
  observations.get = () => {
    throw new Error('the database is just being opened again')
  }
  const tracked = { ticket: sampleTicket({ id: 'b' }), closed: false }
  expect(() => system.intake.adoptTicket(tracked, true)).toThrow('opened again')
  observations.get = get
  system.put(tracked.ticket)
  await system.poll()
  expect(system.runs.events.filter((event) => event.startsWith('run b'))).toHaveLength(1)
})

test('a follow-up that fails gives back an earlier end, so a ticket that has changed since runs', async () => {
  const system = await createSystem('a')
  system.endRun('a')
  await system.clock.advance(1_000)
  system.startFollowUp('a')
  for (const state of ['Backlog', 'Todo']) {
    system.put(sampleTicket({ id: 'a', state }))
    await system.clock.advance(1_000)
    await system.poll()
  }
  system.endFollowUp('a')
  expect(system.runs.events.filter((event) => event.startsWith('run'))).toHaveLength(1)
  await system.poll()
  expect(system.runs.events.filter((event) => event.startsWith('run'))).toHaveLength(2)
})

test('a state that a tracker still shows after a move counts once the time for showing it has passed', async () => {
  const system = await createSystem('a')
  system.moveAnswer = 'late'
  system.startRun('a')
  await system.settle()
  await system.poll()
  expect(system.observations.get('a')?.state).toBe('In Progress')
  await system.clock.advance(TICKET_MOVE_VISIBLE_MS_MAX + 1)
  await system.poll()
  expect(system.observations.get('a')?.state).toBe('Todo')
})

test('a listing from before a move says nothing about its ticket, also while the next poll is under way', async () => {
  const system = await createSystem('a')
  system.startRun('a')
  await system.settle()
  await system.clock.advance(TICKET_MOVE_VISIBLE_MS_MAX + 1)
  await system.beginPoll()
  system.setEligibleStates(['Todo'])
  expect(system.observations.get('a')?.state).toBe('In Progress')
  await system.endPoll()
  system.endRun('a', 'Todo')
  await system.settle()
  await system.poll()
  expect(system.runs.events).toEqual(['run a The lamp flickers'])
})

test('a ticket that its run took and gave back at once does not run again when the tracker shows that late', async () => {
  const system = await createSystem('a')
  system.startRun('a')
  system.intake.moves.contribute()?.onCommitted()
  system.endRun('a', 'Todo')
  await system.settle()
  for (const state of ['In Progress', 'Todo']) {
    await system.clock.advance(1_000)
    system.put(sampleTicket({ id: 'a', state }))
    await system.poll()
  }
  expect(system.runs.events).toEqual(['run a The lamp flickers'])
})

// ---- against an intake that evaluates everything ------------------------------------------------------------------

const IDS = ['a', 'b']
const STATES = ['Todo', 'Todo', 'Backlog', 'In Progress', 'In Review']

type Step = (system: IntakeSystem) => unknown

const poll: Step = (system) => system.poll()

/** Draws a step that is the same in every system. */
function drawStep(random: Random): Step {
  const id = random.pick(IDS)
  const state = random.pick(STATES)
  const odd = { id, state, title: random.pick(['A', 'B']), priority: random.pick([0, 1] as const) }
  const ms = random.pick([1, 1_000, 30_000, TICKET_MOVE_VISIBLE_MS_MAX])
  const activeMax = random.pick([1, 2, 9])
  const moveAnswer = random.pick(['made', 'made', 'late', 'refused', 'unavailable'] as const)
  // These have every ticket evaluated, and would hide what was owed.
  const thoroughSteps: readonly Step[] = [
    (system) => system.setEligibleStates(state === 'Backlog' ? ['Todo', 'In Review'] : ['Todo']),
    (system) => system.restart(),
  ]
  return random.pick<Step>([
    ...(random.chance(0.1) ? thoroughSteps : []),
    (system) => system.put(sampleTicket(odd)),
    (system) => system.put(sampleTicket(odd)),
    (system) => system.tickets.delete(id),
    (system) => system.beginPoll(),
    (system) => system.endPoll(),
    (system) => system.clock.advance(ms),
    (system) => system.clock.advance(ms),
    (system) => system.startRun(id),
    (system) => system.startRun(id),
    (system) => system.endRun(id, state),
    (system) => system.endRun(id),
    (system) =>
      system.runs.activeRunOf(id) === 'follow-up' ? system.endFollowUp(id) : system.startFollowUp(id),
    (system) => system.intake.adoptTicket({ ticket: sampleTicket(odd), closed: false }, false),
    (system) => {
      system.runs.activeMax = activeMax
    },
    (system) => {
      system.moveAnswer = moveAnswer
    },
  ])
}

const describe = (system: IntakeSystem) => ({
  eligible: system.intake.shownTickets(),
  events: system.runs.events,
  active: [...system.runs.active.keys()].sort(),
  observations: IDS.map((id) => system.observations.get(id)),
  listed: [...system.intake.listed().keys()].sort(),
})

test('any history of listings, moves, runs and restarts ends like one in which every ticket is evaluated', async () => {
  const seed = drawSeed()
  for (let history = 0; history < 200; history++) {
    const random = new Random(seed + history)
    const system = new IntakeSystem()
    const thorough = new IntakeSystem()
    thorough.onPollFinished = () => thorough.intake.onConfigChange()
    for (let at = 0; at < 80; at++) {
      const step = random.chance(0.4) ? poll : drawStep(random)
      for (const each of [system, thorough]) {
        await step(each)
        await each.settle()
      }
      const seen = { seed: seed + history, at, ...describe(system) }
      expect(seen).toEqual({ seed: seed + history, at, ...describe(thorough) })
    }
  }
}, 120_000)

test('a ticket whose run has ended does not run again when what was seen of it is lost and the clock is behind', async () => {
  const system = await createSystem('t-1')
  system.endRun('t-1')
  await system.poll()
  system.keyValues.collection('ticket').delete('t-1')
  const later = new Date(system.clock.now() + 3_600_000).toISOString()
  system.put(sampleTicket({ id: 't-1', createdAt: later }))
  await system.clock.advance(1_000)
  await system.restart()
  expect(system.runs.events).toHaveLength(1)
})

test.each([
  ['began', 'In Progress'],
  ['was given up', 'Todo'],
])(
  'a ticket whose run %s is moved, and does not run again, when the record of the move is damaged',
  async (how, state) => {
    const system = await createSystem('t-1')
    system.startRun('t-1')
    if (how === 'was given up') await system.settle()
    system.moveAnswer = 'unavailable'
    system.endRun('t-1', state)
    await system.settle()
    system.moveAnswer = 'made'
    system.keyValues.collection('errand').set('tracker/t-1', DAMAGED)
    await system.restart()
    await system.clock.advance(HTTP_ANSWER_MS_MAX)
    await system.settle()
    await system.poll()
    expect(system.tickets.get('t-1')?.ticket.state).toBe(state)
    expect([...system.keyValues.collection('errand')]).toEqual([])
    expect(system.runs.events).toHaveLength(1)
  },
)
