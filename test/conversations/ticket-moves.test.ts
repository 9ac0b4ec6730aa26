/** How the host moves tickets: in order, once, and without treating its own moves as changes. */
import { expect, test } from '@jest/globals'
import { no, yes } from '../../core/result.ts'
import { manualPullUrl } from '../support/manual-code-host.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  acceptRun,
  configWith,
  type HostConversation,
  reconnect,
  startHost,
  ticket,
} from './host-conversation.ts'

const movingConfig = configWith({
  tracker: { driver: 'local', path: '/nowhere', startedState: 'In Progress', reviewState: 'In Review' },
})
const reviewingConfig = configWith({
  tracker: { driver: 'local', path: '/nowhere', reviewState: 'In Review' },
})

/** The outcome of a run that has opened a pull request. */
const OPENED = { prUrl: manualPullUrl('owner/name', 1), prState: 'open' } as const

/** Records the requested moves, such as `ENG-1 → In Review`. */
function movesOf(host: HostConversation): string[] {
  const moves: string[] = []
  host.tracker.moveTicket = async (ticketId: string, state: string) => {
    moves.push(`${ticketId} → ${state}`)
    return yes(undefined)
  }
  return moves
}

test('starting work does not move a ticket that a person has just withdrawn', async () => {
  const host = await startHost(movingConfig)
  const asked: (readonly string[] | undefined)[] = []
  host.tracker.moveTicket = async (_, state, from) => {
    asked.push(from)
    return state === 'In Progress' ? no('gone', 'it was put in Backlog meanwhile') : yes(undefined)
  }
  const { connection, work } = await acceptRun(host)
  await host.advance(5)
  await connection.send(work.complete(OPENED))
  await host.advance(5)
  // At the end of a run the ticket goes to review from any state but a closed one, so that a person sees the result.
  expect(asked).toEqual([['Todo', 'In Progress', 'In Review', 'Todo'], undefined])
  expect(host.allRuns()).toHaveLength(1)
})

test('a ticket that a person closes during its run stays closed, and reopened it runs again', async () => {
  const host = await startHost(movingConfig)
  const asked: string[] = []
  host.tracker.moveTicket = async (_, state) => {
    asked.push(state)
    return state === 'In Review' ? no('gone', 'it was put in Done meanwhile') : yes(undefined)
  }
  const { connection, work } = await acceptRun(host)
  host.tracker.close(ticket('ENG-1', { state: 'Done' }))
  await host.settle()
  await connection.send(work.complete(OPENED))
  await host.advanceWithHeartbeats(300, [connection])
  expect(asked).toEqual(['In Progress', 'In Review'])
  expect(host.allRuns().map(({ status }) => status)).toEqual(['completed'])
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.allRuns()).toHaveLength(2)
})

test('a ticket that a person moves back runs again, also when the wall clock was set back since its run', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.advance(5)
  host.clock.jumpWallClock(-3_600_000)
  host.tracker.close(ticket('ENG-1', { state: 'Done' }))
  await host.settle()
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.allRuns()).toHaveLength(2)
})

test('setting the wall clock back during a run does not run its ticket again', async () => {
  const host = await startHost()
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
  await host.advance(5)
  const { connection, work } = await acceptRun(host)
  host.clock.jumpWallClock(-3_600_000)
  await connection.send(work.complete(OPENED))
  await host.advanceWithHeartbeats(60, [connection])
  expect(host.allRuns().map(({ status }) => status)).toEqual(['completed'])
  await host.restart()
  await host.advance(60)
  expect(host.allRuns()).toHaveLength(1)
})

test('a state that the tracker does not know does not run the ticket again', async () => {
  const host = await startHost(reviewingConfig)
  const answers: (() => void)[] = []
  host.tracker.moveTicket = async () => {
    await new Promise<void>((resolve) => answers.push(resolve))
    return no('invalid', 'there is no state In Review')
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.advance(1)
  for (const answer of answers) answer()
  await host.advanceWithHeartbeats(120, [connection])
  expect(host.allRuns()).toHaveLength(1)
  await host.restart()
  await host.advance(120)
  expect(host.allRuns()).toHaveLength(1)
})

test('the same when the host restarts before it polls', async () => {
  const host = await startHost(reviewingConfig)
  host.tracker.moveTicket = async () => no('invalid', 'there is no state In Review')
  const { connection, work } = await acceptRun(host)
  host.tracker.answer = no('unavailable', 'no route to it')
  await connection.send(work.complete(OPENED))
  await host.restart()
  host.tracker.answer = undefined
  await host.advance(120)
  expect(host.allRuns()).toHaveLength(1)
})

test('a run that ends before the first poll after a restart still moves its ticket', async () => {
  const host = await startHost(reviewingConfig)
  const moves = movesOf(host)
  const { worker, work } = await acceptRun(host)
  host.tracker.answer = no('unavailable', 'no route to it')
  await host.restart()
  const connection = await reconnect(host, worker, work)
  await connection.send(work.complete(OPENED))
  host.tracker.answer = undefined
  await host.advance(120)
  expect(moves).toEqual(['ENG-1 → In Review'])
})

test('a ticket is moved by one move at a time: a slow one does not overtake the next', async () => {
  const host = await startHost(movingConfig)
  const moves: string[] = []
  const answers: (() => void)[] = []
  host.tracker.moveTicket = async (_, state: string) => {
    moves.push(`asked for ${state}`)
    await new Promise<void>((resolve) => answers.push(resolve))
    moves.push(`is ${state}`)
    return yes(undefined)
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.advance(1)
  for (let at = 0; at < 3; at++) {
    answers.shift()?.()
    await host.settle()
  }
  expectRecorded(moves)
})

test('the next move waits for one that the tracker owes to a host that died', async () => {
  const host = await startHost(movingConfig)
  let state = 'Todo'
  const late: (() => void)[] = []
  const moveTo = (to: string) => {
    state = to
    return yes(undefined)
  }
  // A request that was sent has its effect, but a host that died gets no answer.
  host.tracker.moveTicket = (_, to: string) =>
    to === 'In Progress' ? new Promise(() => late.push(() => void moveTo(to))) : Promise.resolve(moveTo(to))
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.crash()
  await host.advance(20)
  expect(state).toBe('Todo')
  for (const arrives of late) arrives()
  await host.settle()
  expect(state).toBe('In Progress')
  await host.advance(20)
  expect(state).toBe('In Review')
})

test('also where the host has sent the same move again since', async () => {
  const host = await startHost(movingConfig)
  const made: string[] = []
  let arriveLate = () => {}
  host.tracker.moveTicket = (_, to: string) =>
    new Promise(() => {
      arriveLate = () => made.push(to)
    })
  const { worker, work } = await acceptRun(host)
  await host.settle()
  host.tracker.moveTicket = async (_, to: string) => yes(void made.push(to))
  await host.crash()
  const connection = await reconnect(host, worker, work)
  await connection.send(work.complete(OPENED))
  await host.advance(20)
  arriveLate()
  await host.advance(20)
  expect(made.at(-1)).toBe('In Review')
})

test('a move whose request timed out, and that the tracker carries out later, does not overtake the next', async () => {
  const host = await startHost(movingConfig)
  const made: string[] = []
  let arriveLate = () => {}
  host.tracker.moveTicket = async (_, state: string) => {
    if (state !== 'In Progress') return yes(void made.push(state))
    arriveLate = () => made.push(state)
    return no('unavailable', 'no answer within 30 s')
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.advance(20)
  arriveLate()
  await host.advance(20)
  expect(made).toEqual(['In Progress', 'In Review'])
})

test('a newer move replaces one that waits for a retry', async () => {
  const host = await startHost(movingConfig)
  const asked: string[] = []
  host.tracker.moveTicket = async (_, state: string) => {
    asked.push(state)
    return state === 'In Progress' ? no('unavailable', 'no route to it') : yes(undefined)
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.advance(300)
  expect(asked).toEqual(['In Progress', 'In Review'])
})

test('a move that the account may not make is not retried', async () => {
  const host = await startHost(movingConfig)
  const asked: string[] = []
  host.tracker.moveTicket = async (_, state: string) => {
    asked.push(state)
    return no('forbidden', 'the key may only read')
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.advance(3_600)
  expect(asked).toEqual(['In Progress', 'In Review'])
  expect(host.allRuns()).toHaveLength(1)
})

test('a tracker that shows a move only a while later gets no second run of the ticket', async () => {
  const host = await startHost(reviewingConfig)
  let moved = 0
  host.tracker.moveTicket = async () => {
    moved += 1
    await new Promise<void>((resolve) => host.clock.after(500, resolve))
    return yes(undefined)
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.advanceWithHeartbeats(60, [connection])
  host.tracker.put(ticket('ENG-1', { state: 'In Review' }))
  await host.advanceWithHeartbeats(240, [connection])
  expect([moved, host.allRuns().length]).toEqual([1, 1])
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.allRuns()).toHaveLength(2)
})

test('nor does one that shows neither of two moves, when the work between them was quick', async () => {
  const host = await startHost(movingConfig)
  host.tracker.moveTicket = async () => {
    await new Promise<void>((resolve) => host.clock.after(500, resolve))
    return yes(undefined)
  }
  const { connection, work } = await acceptRun(host)
  await host.advanceWithHeartbeats(5, [connection, work])
  await connection.send(work.complete(OPENED))
  await host.advanceWithHeartbeats(60, [connection])
  expect(host.allRuns()).toHaveLength(1)
  host.tracker.put(ticket('ENG-1', { state: 'In Review' }))
  await host.advanceWithHeartbeats(240, [connection])
  expect(host.allRuns()).toHaveLength(1)
  host.tracker.put(ticket('ENG-1'))
  await host.settle()
  expect(host.allRuns()).toHaveLength(2)
})

test('a ticket that a person moves back right after the host’s move runs again a little later', async () => {
  const host = await startHost(reviewingConfig)
  host.tracker.moveTicket = async () => {
    await new Promise<void>((resolve) => host.clock.after(500, resolve))
    return yes(undefined)
  }
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete(OPENED))
  await host.advanceWithHeartbeats(180, [connection])
  expect(host.allRuns()).toHaveLength(2)
})
