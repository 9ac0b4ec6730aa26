/** How the host moves tickets: in order, once, and without taking its own moves for news. */
import { expect, test } from '@jest/globals'
import { no, yes } from '../../core/result.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { back, busy, configWith, ticket, type Yarn, yarn } from './host-conversation.ts'

const moving = configWith({
  tracker: { driver: 'local', path: '/nowhere', startedState: 'In Progress', reviewState: 'In Review' },
})
const reviewing = configWith({ tracker: { driver: 'local', path: '/nowhere', reviewState: 'In Review' } })

/** The states to which tickets were asked to be moved, `ENG-1 → In Review`. */
function movesOf(y: Yarn): string[] {
  const moves: string[] = []
  y.tracker.moveTicket = async (ticketId: string, state: string) => {
    moves.push(`${ticketId} → ${state}`)
    return yes(undefined)
  }
  return moves
}

test('work that begins does not bring back a ticket that somebody has just taken away', async () => {
  const y = await yarn(moving)
  const asked: (readonly string[] | undefined)[] = []
  y.tracker.moveTicket = async (_, state, from) => {
    asked.push(from)
    return state === 'In Progress' ? no('gone', 'it was put in Backlog meanwhile') : yes(undefined)
  }
  const { wire, work } = await busy(y)
  await y.pass(5)
  await wire.say(work.complete())
  await y.pass(5)
  // At its end the ticket goes to review wherever it was, unless it is closed: a person has to see what came of it.
  expect(asked).toEqual([['Todo', 'In Progress', 'In Review', 'Todo'], undefined])
  expect(y.allRuns()).toHaveLength(1)
})

test('a ticket that somebody closes while its run works stays closed, and opened again it is run again', async () => {
  const y = await yarn(moving)
  const asked: string[] = []
  y.tracker.moveTicket = async (_, state) => {
    asked.push(state)
    return state === 'In Review' ? no('gone', 'it was put in Done meanwhile') : yes(undefined)
  }
  const { wire, work } = await busy(y)
  y.tracker.close(ticket('ENG-1', { state: 'Done' }))
  await y.settle()
  await wire.say(work.complete())
  await y.beating(300, [wire])
  expect(asked).toEqual(['In Progress', 'In Review'])
  expect(y.allRuns().map(({ status }) => status)).toEqual(['completed'])
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.allRuns()).toHaveLength(2)
})

test('a ticket that somebody puts back is run again, also when the wall clock was set back since its run', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  await y.pass(5)
  y.clock.jump(-3_600_000)
  y.tracker.close(ticket('ENG-1', { state: 'Done' }))
  await y.settle()
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.allRuns()).toHaveLength(2)
})

test('a wall clock that is set back during a run is no reason to run its ticket again and again', async () => {
  const y = await yarn()
  y.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await y.pass(5)
  const { wire, work } = await busy(y)
  y.clock.jump(-3_600_000)
  await wire.say(work.complete())
  await y.beating(60, [wire])
  expect(y.allRuns().map(({ status }) => status)).toEqual(['completed'])
  await y.restart()
  await y.pass(60)
  expect(y.allRuns()).toHaveLength(1)
})

test('a state that the tracker does not know is no reason to run the ticket again and again', async () => {
  const y = await yarn(reviewing)
  const answers: (() => void)[] = []
  y.tracker.moveTicket = async () => {
    await new Promise<void>((resolve) => answers.push(resolve))
    return no('invalid', 'there is no state In Review')
  }
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  await y.pass(1)
  for (const answer of answers) answer()
  await y.beating(120, [wire])
  expect(y.allRuns()).toHaveLength(1)
  await y.restart()
  await y.pass(120)
  expect(y.allRuns()).toHaveLength(1)
})

test('the same when the host is started again before it looks', async () => {
  const y = await yarn(reviewing)
  y.tracker.moveTicket = async () => no('invalid', 'there is no state In Review')
  const { wire, work } = await busy(y)
  y.tracker.answer = no('unavailable', 'no route to it')
  await wire.say(work.complete())
  await y.restart()
  y.tracker.answer = undefined
  await y.pass(120)
  expect(y.allRuns()).toHaveLength(1)
})

test('a run that ends before the tracker was looked at after a restart moves its ticket all the same', async () => {
  const y = await yarn(reviewing)
  const moves = movesOf(y)
  const { worker, work } = await busy(y)
  y.tracker.answer = no('unavailable', 'no route to it')
  await y.restart()
  const wire = await back(y, worker, work)
  await wire.say(work.complete())
  y.tracker.answer = undefined
  await y.pass(120)
  expect(moves).toEqual(['ENG-1 → In Review'])
})

test('a ticket is moved by one move at a time: a slow one does not overtake the next', async () => {
  const y = await yarn(moving)
  const said: string[] = []
  const answers: (() => void)[] = []
  y.tracker.moveTicket = async (_, state: string) => {
    said.push(`asked for ${state}`)
    await new Promise<void>((resolve) => answers.push(resolve))
    said.push(`is ${state}`)
    return yes(undefined)
  }
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  await y.pass(1)
  for (let at = 0; at < 3; at++) {
    answers.shift()?.()
    await y.settle()
  }
  expectRecorded(said)
})

test('a move that waits to be tried again gives way to the next', async () => {
  const y = await yarn(moving)
  const asked: string[] = []
  y.tracker.moveTicket = async (_, state: string) => {
    asked.push(state)
    return state === 'In Progress' ? no('unavailable', 'no route to it') : yes(undefined)
  }
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  await y.pass(300)
  expect(asked).toEqual(['In Progress', 'In Review'])
})

test('a ticket that the account may not move is not asked for again and again', async () => {
  const y = await yarn(moving)
  const asked: string[] = []
  y.tracker.moveTicket = async (_, state: string) => {
    asked.push(state)
    return no('forbidden', 'the key may only read')
  }
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  await y.pass(3_600)
  expect(asked).toEqual(['In Progress', 'In Review'])
  expect(y.allRuns()).toHaveLength(1)
})

test('a tracker that shows a move only a while later gets no second run of the ticket', async () => {
  const y = await yarn(reviewing)
  let moved = 0
  y.tracker.moveTicket = async () => {
    moved += 1
    await new Promise<void>((resolve) => y.clock.after(500, resolve))
    return yes(undefined)
  }
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  await y.beating(60, [wire])
  y.tracker.put(ticket('ENG-1', { state: 'In Review' }))
  await y.beating(240, [wire])
  expect([moved, y.allRuns().length]).toEqual([1, 1])
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.allRuns()).toHaveLength(2)
})

test('nor does one that shows neither of two moves, when the work between them was quick', async () => {
  const y = await yarn(moving)
  y.tracker.moveTicket = async () => {
    await new Promise<void>((resolve) => y.clock.after(500, resolve))
    return yes(undefined)
  }
  const { wire, work } = await busy(y)
  await y.beating(5, [wire, work])
  await wire.say(work.complete())
  await y.beating(60, [wire])
  expect(y.allRuns()).toHaveLength(1)
  y.tracker.put(ticket('ENG-1', { state: 'In Review' }))
  await y.beating(240, [wire])
  expect(y.allRuns()).toHaveLength(1)
  y.tracker.put(ticket('ENG-1'))
  await y.settle()
  expect(y.allRuns()).toHaveLength(2)
})

test('a ticket that somebody puts back right after it was moved is run again, a little later', async () => {
  const y = await yarn(reviewing)
  y.tracker.moveTicket = async () => {
    await new Promise<void>((resolve) => y.clock.after(500, resolve))
    return yes(undefined)
  }
  const { wire, work } = await busy(y)
  await wire.say(work.complete())
  await y.beating(180, [wire])
  expect(y.allRuns()).toHaveLength(2)
})
