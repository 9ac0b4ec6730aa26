/** The host releases the ticket of a run that left nothing to review, and moves the ticket of a merged pull request. */
import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../core/result.ts'
import { isSameName } from '../../core/tickets/names.ts'
import { unchangedRunComment, unchangedRunText } from '../../core/tickets/run-progress.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { ManualPullRequests, manualPullUrl } from '../support/manual-code-host.ts'
import {
  acceptRun,
  configWith,
  HostConversation,
  reconnect,
  type ScriptedConnection,
  ticket,
  Work,
} from './host-conversation.ts'

const URL = manualPullUrl('owner/name', 1)
const OPENED: Partial<RunOutcome> = { prUrl: URL, prState: 'open' }
const states = { startedState: 'In Progress', reviewState: 'In Review' }
const HOURS = 3 * 3_600

async function acceptDispatch(connection: ScriptedConnection): Promise<Work> {
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept())
  await connection.sendHeartbeat(work)
  return work
}

/** Starts a host whose tracker carries moves out, and records them, such as `ENG-1 → In Review`. */
async function startMovingHost(more: object = {}) {
  const tracker = { driver: 'local', path: '/nowhere', ...states, ...more }
  const host = new HostConversation(configWith({ tracker }))
  const pulls = new ManualPullRequests()
  host.overrides = { pulls: () => yes(pulls) }
  await host.start()
  await host.clock.advance(1000)
  pulls.pulls.set(URL, 'open')
  const moves: string[] = []
  host.tracker.moveTicket = async (id, state, from) => {
    const current = host.tracker.tickets.get(id)?.ticket
    if (current === undefined) return no('unknown', `there is no ${id}`)
    if (current.state === state) return yes(undefined)
    if (from !== undefined && !from.some((name) => isSameName(name, current.state)))
      return no('gone', `${id} was moved to ${current.state} meanwhile`)
    moves.push(`${id} → ${state}`)
    host.tracker.put({ ...current, state })
    return yes(undefined)
  }
  const stateOf = (id = 'ENG-1') => host.tracker.tickets.get(id)?.ticket.state
  const statuses = () => host.allRuns().map(({ status }) => status)
  return { host, pulls, moves, stateOf, statuses }
}

test('a comment on the ticket says that its run changed nothing, also after an outage and a restart, once', async () => {
  const { host } = await startMovingHost()
  const { connection, work, runId } = await acceptRun(host)
  const { comment } = host.tracker
  host.tracker.comment = async () => no('unavailable', 'no route to it')
  await connection.send(work.complete({ result: { summary: 'nothing to do', artifacts: [] } }))
  await host.advance(10)
  await host.crash()
  host.tracker.comment = comment
  await host.advance(600)
  expect(host.tracker.comments).toEqual([`ENG-1: ${unchangedRunComment(runId)}`])
  await host.crash()
  await host.advance(600)
  expect(host.tracker.comments).toHaveLength(1)
})

describe('a ticket goes back to where it came from', () => {
  test('when its run is cancelled, and is not started again by itself', async () => {
    const { host, stateOf, statuses } = await startMovingHost()
    const { connection, work, runId } = await acceptRun(host)
    await host.settle()
    expect(stateOf()).toBe('In Progress')
    await host.succeeded(host.hostApi.cancelRun(runId))
    await connection.send(work.complete({ status: 'cancelled' }))
    await host.settle()
    expect([stateOf(), statuses()]).toEqual(['Todo', ['cancelled']])
    await host.advanceWithHeartbeats(HOURS, [connection])
    await host.restart()
    await host.advance(600)
    expect([stateOf(), statuses()]).toEqual(['Todo', ['cancelled']])
  })

  test('when its run has failed, until a person moves it away and back', async () => {
    const { host, stateOf, statuses } = await startMovingHost()
    const { connection, work } = await acceptRun(host)
    await connection.send(work.complete({ status: 'failed', error: 'it broke' }))
    await host.advanceWithHeartbeats(HOURS, [connection])
    expect([stateOf(), statuses()]).toEqual(['Todo', ['failed']])
    host.tracker.put(ticket('ENG-1', { state: 'Backlog' }))
    await host.settle()
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    expect(statuses()).toEqual(['queued', 'failed'])
  })

  test('when its workers are lost three times', async () => {
    const { host, moves, stateOf, statuses } = await startMovingHost()
    const { connection, worker } = await acceptRun(host)
    await connection.drop()
    for (const _ of [1, 2]) {
      await host.advance(200)
      const again = await reconnect(host, worker)
      await acceptDispatch(again)
      await again.drop()
    }
    await host.advance(200)
    expect([stateOf(), statuses()]).toEqual(['Todo', ['failed']])
    expect(moves).toEqual(['ENG-1 → In Progress', 'ENG-1 → Todo'])
  })

  test.each(['Todo', 'Next'])('after a person put it into %s and its run started again', async (state) => {
    const { host, moves, stateOf, statuses } = await startMovingHost({
      eligible: { states: ['Todo', 'Next'] },
    })
    const { connection, worker } = await acceptRun(host)
    await host.advanceWithHeartbeats(30, [connection])
    host.tracker.put(ticket('ENG-1', { state }))
    await host.settle()
    await connection.drop()
    await host.advance(200)
    const { moveTicket } = host.tracker
    // The run fails before the tracker has confirmed the second move.
    let confirm = () => {}
    host.tracker.moveTicket = async (id, state, from) => {
      const moved = await moveTicket(id, state, from)
      await new Promise<void>((resolve) => {
        confirm = resolve
      })
      return moved
    }
    const again = await reconnect(host, worker)
    const work = await acceptDispatch(again)
    host.tracker.moveTicket = moveTicket
    await again.send(work.complete({ status: 'failed', error: 'it broke' }))
    confirm()
    await host.advanceWithHeartbeats(600, [again])
    expect([stateOf(), statuses()]).toEqual([state, ['failed']])
    expect(moves).toEqual(['ENG-1 → In Progress', 'ENG-1 → In Progress', `ENG-1 → ${state}`])
  })

  test('also when the host was restarted meanwhile', async () => {
    const { host, stateOf } = await startMovingHost()
    const { runId } = await acceptRun(host)
    await host.settle()
    await host.crash()
    await host.succeeded(host.hostApi.cancelRun(runId))
    await host.advance(20)
    expect([stateOf(), host.run(runId).status]).toEqual(['Todo', 'cancelled'])
  })

  test('when its run changed nothing, and the run’s log says so', async () => {
    const { host, moves, stateOf, statuses } = await startMovingHost()
    const { connection, work, runId } = await acceptRun(host)
    await connection.send(work.complete({ result: { summary: 'nothing to do', artifacts: [] } }))
    await host.advanceWithHeartbeats(HOURS, [connection])
    expect([stateOf(), statuses()]).toEqual(['Todo', ['completed']])
    expect(moves).toEqual(['ENG-1 → In Progress', 'ENG-1 → Todo'])
    expect(await host.events(runId)).toContain(`system ${unchangedRunText('ENG-1', 'Todo')}`)
  })

  test('when the first move was never made', async () => {
    const { host, moves, stateOf } = await startMovingHost()
    const { moveTicket } = host.tracker
    host.tracker.moveTicket = async () => no('unavailable', 'no route to it')
    const { runId, connection, work } = await acceptRun(host)
    await host.advance(1)
    await host.succeeded(host.hostApi.cancelRun(runId))
    await connection.send(work.complete({ status: 'cancelled' }))
    host.tracker.moveTicket = moveTicket
    await host.advanceWithHeartbeats(600, [connection])
    expect([stateOf(), moves]).toEqual(['Todo', []])
  })
})

describe('a ticket stays where it is', () => {
  test('when a person moved it during the run', async () => {
    const { host, stateOf } = await startMovingHost({ releasedState: 'Stuck' })
    const { connection, work } = await acceptRun(host)
    await host.settle()
    host.tracker.put(ticket('ENG-1', { state: 'Blocked' }))
    await host.settle()
    await connection.send(work.complete({ status: 'failed', error: 'it broke' }))
    await host.advanceWithHeartbeats(600, [connection])
    expect(stateOf()).toBe('Blocked')
  })

  test('also when the host has not seen that yet', async () => {
    const { host, stateOf } = await startMovingHost()
    const { connection, work } = await acceptRun(host)
    await host.settle()
    host.tracker.tickets.set('ENG-1', { ticket: ticket('ENG-1', { state: 'Blocked' }), closed: false })
    await connection.send(work.complete({ status: 'failed', error: 'it broke' }))
    await host.advanceWithHeartbeats(600, [connection])
    expect(stateOf()).toBe('Blocked')
  })

  test('when no move is configured', async () => {
    const { host, moves } = await startMovingHost({ startedState: undefined, reviewState: undefined })
    const { connection, work } = await acceptRun(host)
    await connection.send(work.complete({ status: 'failed', error: 'it broke' }))
    await host.advanceWithHeartbeats(600, [connection])
    expect(moves).toEqual([])
  })
})

describe('with releasedState', () => {
  test('the ticket of a failed run goes there', async () => {
    const { host, moves, statuses } = await startMovingHost({ releasedState: 'Stuck' })
    const { connection, work } = await acceptRun(host)
    await connection.send(work.complete({ status: 'failed', error: 'it broke' }))
    await host.advanceWithHeartbeats(600, [connection])
    expect([moves, statuses()]).toEqual([['ENG-1 → In Progress', 'ENG-1 → Stuck'], ['failed']])
  })

  test('so does the ticket of a run that is cancelled in the queue', async () => {
    const { host, moves, statuses } = await startMovingHost({ releasedState: 'Stuck' })
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    await host.succeeded(host.hostApi.cancelRun(host.runOf('ENG-1').id))
    await host.advance(600)
    expect([moves, statuses()]).toEqual([['ENG-1 → Stuck'], ['cancelled']])
  })

  test('a retry takes the ticket from there, and puts it back there', async () => {
    const { host, moves } = await startMovingHost({ releasedState: 'Stuck' })
    const { connection, work, runId } = await acceptRun(host)
    await connection.send(work.complete({ status: 'failed', error: 'it broke' }))
    await host.settle()
    await host.succeeded(host.hostApi.retryRun(runId))
    await host.settle()
    const again = await acceptDispatch(connection)
    await connection.send(again.complete({ status: 'failed', error: 'it broke' }))
    await host.settle()
    expect(moves).toEqual(['ENG-1 → In Progress', 'ENG-1 → Stuck', 'ENG-1 → In Progress', 'ENG-1 → Stuck'])
  })
})

describe('a retry', () => {
  async function startWithReview() {
    const made = await startMovingHost()
    const { connection, work, runId } = await acceptRun(made.host)
    await connection.send(work.complete(OPENED))
    await made.host.settle()
    expect(made.stateOf()).toBe('In Review')
    await made.host.succeeded(made.host.hostApi.retryRun(runId))
    await made.host.settle()
    const again = await acceptDispatch(connection)
    await made.host.settle()
    expect(made.stateOf()).toBe('In Progress')
    return { ...made, connection, again, runId }
  }

  test('that is cancelled puts a ticket back into review', async () => {
    const { host, stateOf, connection, again, runId } = await startWithReview()
    await host.succeeded(host.hostApi.cancelRun(runId))
    await connection.send(again.complete({ status: 'cancelled' }))
    await host.settle()
    expect(stateOf()).toBe('In Review')
  })

  test('that changed nothing leaves the open pull request to review', async () => {
    const { host, stateOf, connection, again } = await startWithReview()
    await connection.send(again.complete())
    await host.settle()
    expect(stateOf()).toBe('In Review')
  })
})

describe('with doneState', () => {
  async function startWithReview(more: object = { doneState: 'Done' }) {
    const made = await startMovingHost(more)
    const { connection, work, runId } = await acceptRun(made.host)
    await connection.send(work.complete(OPENED))
    await made.host.advanceWithHeartbeats(10, [connection])
    expect(made.stateOf()).toBe('In Review')
    return { ...made, connection, runId }
  }

  test('the ticket goes there when its pull request is merged', async () => {
    const { host, pulls, stateOf, statuses, connection } = await startWithReview()
    pulls.pulls.set(URL, 'merged')
    await host.advanceWithHeartbeats(130, [connection])
    expect(stateOf()).toBe('Done')
    await host.advanceWithHeartbeats(HOURS, [connection])
    expect(statuses()).toEqual(['completed'])
  })

  test('once: a person may take the ticket up again', async () => {
    const { host, pulls, stateOf, statuses, connection } = await startWithReview()
    pulls.pulls.set(URL, 'merged')
    await host.advanceWithHeartbeats(130, [connection])
    host.tracker.put(ticket('ENG-1', { state: 'Blocked' }))
    await host.advanceWithHeartbeats(600, [connection])
    expect(stateOf()).toBe('Blocked')
    await host.restart()
    await host.advance(600)
    expect([stateOf(), statuses()]).toEqual(['Blocked', ['completed']])
  })

  test('a ticket that the tracker no longer lists goes there too', async () => {
    const { host, pulls, moves, connection } = await startWithReview()
    const { listTickets } = host.tracker
    host.tracker.listTickets = async () => yes({ tickets: [], problems: [] })
    host.tracker.announceChange()
    await host.settle()
    pulls.pulls.set(URL, 'merged')
    await host.advanceWithHeartbeats(130, [connection])
    host.tracker.listTickets = listTickets
    expect(moves).toContain('ENG-1 → Done')
  })

  test('a closed pull request moves nothing', async () => {
    const { host, pulls, stateOf, connection } = await startWithReview()
    pulls.pulls.set(URL, 'closed')
    await host.advanceWithHeartbeats(600, [connection])
    expect(stateOf()).toBe('In Review')
  })

  test('nothing moves without the setting', async () => {
    const { host, pulls, stateOf, connection } = await startWithReview({})
    pulls.pulls.set(URL, 'merged')
    await host.advanceWithHeartbeats(600, [connection])
    expect(stateOf()).toBe('In Review')
  })

  test('a new run of the ticket decides at its end', async () => {
    const { host, pulls, stateOf, connection } = await startWithReview()
    host.tracker.put(ticket('ENG-1'))
    await host.settle()
    const again = await acceptDispatch(connection)
    pulls.pulls.set(URL, 'merged')
    await host.advanceWithHeartbeats(130, [connection, again])
    expect(stateOf()).toBe('In Progress')
    await connection.send(again.complete({ status: 'failed', error: 'it broke' }))
    await host.settle()
    expect(stateOf()).toBe('Todo')
  })
})
