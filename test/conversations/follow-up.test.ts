/** Follow-ups of pull requests: when they are allowed, where they run, what the worker receives, and how they end. */
import { describe, expect, test } from '@jest/globals'
import { FOLLOW_UP_WAIT_REASONS } from '../../actors/runs/follow-up-reader.ts'
import { runMachine } from '../../actors/runs/run.machine.ts'
import type { PullBranches, PullDetailFacts, PullReference } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { followUpMarker } from '../../core/run/follow-up.ts'
import type { Run } from '../../protocol/run.ts'
import { ManualPullRequests, manualPullUrl } from '../support/manual-code-host.ts'
import {
  acceptRun,
  configWith,
  cost,
  enroll,
  HostConversation,
  reconnect,
  type ScriptedConnection,
  ticket,
  Work,
} from './host-conversation.ts'

const URL = manualPullUrl('owner/name', 1)
const AT = '2026-01-01T00:00:00.000Z'

class ScriptedPullConversation extends ManualPullRequests {
  reads = 0
  conversation: PullDetailFacts['conversation'] = { comments: [], reviews: [], threads: [] }
  headRemote: string | undefined = 'somebody/name'
  /** Answered instead of the pull request's details, when set. */
  unreadable: Result<never> | undefined
  /** Requests are answered only after this promise. */
  gate: Promise<void> = Promise.resolve()

  addComment(body: string, author = 'bo', createdAt = AT, authorMayWrite?: boolean): void {
    const id = String(this.conversation.comments.length)
    const rights = authorMayWrite === undefined ? {} : { authorMayWrite }
    this.conversation.comments.push({ id, author, ...rights, body, createdAt, url: URL })
  }

  override async detail(place: PullReference): Promise<Result<PullDetailFacts>> {
    this.reads += 1
    await this.gate
    const found = this.unreadable ?? (await super.detail(place))
    return found.ok ? yes({ ...found.value, conversation: this.conversation }) : found
  }

  override async branches(): Promise<Result<PullBranches>> {
    const { headRemote } = this
    return this.refusal ?? yes({ headRemote, headBranch: 'fix', headSha: 'abc', baseBranch: 'next' })
  }
}

/** Completes a run with a pull request; its worker retains the sandbox. */
async function startWithCompletedRun(config: object = {}, concurrency = 2) {
  const host: HostConversation = new HostConversation(configWith(config))
  const pulls = new ScriptedPullConversation()
  let connected: Result<ScriptedPullConversation> = yes(pulls)
  host.overrides = { pulls: () => connected }
  await host.start()
  pulls.pulls.set(URL, 'open')
  const { worker, connection, work, runId } = await acceptRun(host, 'ENG-1', concurrency)
  await connection.send(work.patch({ status: 'running', agentSessionId: 's-1', sandbox: { id: 'sb-1' } }))
  await connection.send(
    work.complete({
      prUrl: URL,
      prState: 'open',
      costs: [cost(1)],
      result: { prUrl: URL, summary: 'done before', artifacts: [] },
    }),
  )
  const disconnect = () => {
    connected = no('invalid', 'the code host is not connected; connect GitHub')
  }
  const connect = () => {
    connected = yes(pulls)
  }
  const followUp = () => host.succeeded(host.hostApi.followUpRun(runId))
  return { host, pulls, worker, connection, runId, disconnect, connect, followUp }
}

const outcomeOf = async (host: HostConversation, asked: Promise<Result<Run>>): Promise<string> => {
  const answer = await host.settled(asked)
  return answer.ok ? `yes: ${answer.value.status}` : `${answer.refusal.kind}: ${answer.refusal.message}`
}
const jobOn = (connection: ScriptedConnection) => connection.lastReceived('dispatch').job
const isFollowUp = (connection: ScriptedConnection): boolean =>
  connection.hasReceived('dispatch') && jobOn(connection).kind === 'follow-up'

/** Accepts the latest dispatch as the worker. */
async function acceptDispatch(connection: ScriptedConnection): Promise<Work> {
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept())
  return work
}

// ---- permission ---------------------------------------------------------------------------------------------------

describe('refused', () => {
  test('404: the run is unknown', async () => {
    const { host } = await startWithCompletedRun()
    expect(await outcomeOf(host, host.hostApi.followUpRun('run-x'))).toBe('unknown: there is no run run-x')
  })

  test('409: the run is not completed', async () => {
    const { host, runId } = await startWithCompletedRun()
    await host.succeeded(host.hostApi.retryRun(runId))
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(/^conflict: .* wait for its end/)
    await host.succeeded(host.hostApi.cancelRun(runId))
    await host.settle()
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(
      /^conflict: .* is cancelled, .*retry it/,
    )
  })

  test('409: its ticket has another active run', async () => {
    const { host, runId } = await startWithCompletedRun()
    await host.succeeded(host.hostApi.runTicket('ENG-1'))
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(/^conflict: .* has an active run/)
  })

  test('409: a person uses its sandbox', async () => {
    const { host, runId, connection } = await startWithCompletedRun()
    const resumed = host.hostApi.resumeRun(runId)
    await host.settle()
    await connection.send({
      type: 'sandbox-ready',
      requestId: connection.lastReceived('sandbox-boot').requestId,
    })
    await host.succeeded(resumed)
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(/^conflict: .* release it first/)
    await host.succeeded(host.hostApi.releaseRun(runId))
    await host.settle()
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toBe('yes: queued')
  })

  test('409: its pull request is merged or closed, as the code host reports now and the run then shows', async () => {
    const { host, pulls, runId } = await startWithCompletedRun()
    for (const state of ['merged', 'closed'] as const) {
      pulls.pulls.set(URL, state)
      expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(
        new RegExp(`^conflict: .* is ${state}`),
      )
      await host.settle()
      expect(host.run(runId)).toMatchObject({ status: 'completed', prState: state })
    }
    expect(pulls.requests.at(-1)).toBe('states owner/name 1 person')
  })

  test('409: two requests at once start one follow-up', async () => {
    const { host, runId } = await startWithCompletedRun()
    const [first, second] = [host.hostApi.followUpRun(runId), host.hostApi.followUpRun(runId)]
    expect(await outcomeOf(host, second)).toMatch(/^conflict: .* starting already/)
    expect(await outcomeOf(host, first)).toBe('yes: queued')
  })

  test('409: changes while the code host is read count', async () => {
    const { host, pulls, runId } = await startWithCompletedRun()
    let answer = () => {}
    const states = pulls.states.bind(pulls)
    pulls.states = async (...asked) => {
      await new Promise<void>((resolve) => {
        answer = resolve
      })
      return states(...asked)
    }
    const asked = host.hostApi.followUpRun(runId)
    await host.settle()
    // Only the follow-up waits for the code host.
    pulls.states = states
    expect(await outcomeOf(host, host.hostApi.resumeRun(runId) as Promise<Result<never>>)).toMatch(
      /follow-up .* is starting/,
    )
    await host.succeeded(host.hostApi.retryRun(runId))
    answer()
    expect(await outcomeOf(host, asked)).toMatch(/^conflict: .* wait for its end/)
  })

  test('400: the run has no pull request', async () => {
    const { host, connection } = await startWithCompletedRun()
    host.tracker.put(ticket('ENG-2'))
    await host.settle()
    const work = await acceptDispatch(connection)
    await connection.send(work.complete())
    expect(await outcomeOf(host, host.hostApi.followUpRun(work.runId))).toMatch(
      /^invalid: .* has no pull request/,
    )
  })

  test('400: no code host is connected, or another one', async () => {
    const { host, pulls, runId, connect, disconnect } = await startWithCompletedRun()
    disconnect()
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(
      /^invalid: the code host is not connected/,
    )
    connect()
    pulls.parseUrl = () => undefined
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(
      /^invalid: .* not at the code host/,
    )
  })

  test('400: the code host is unreachable, or does not know the pull request', async () => {
    const { host, pulls, runId } = await startWithCompletedRun()
    pulls.refusal = no('unavailable', 'GitHub answered 502')
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toBe('invalid: GitHub answered 502')
    pulls.refusal = undefined
    pulls.pulls.clear()
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(/^invalid: .* does not know/)
  })

  test('400: its repository is no longer configured', async () => {
    const { host, runId } = await startWithCompletedRun()
    const elsewhere = { repos: { main: { remote: 'owner/other' } } }
    await host.succeeded(host.hostApi.changeSettings(elsewhere, ['repos.main.remote']))
    expect(await outcomeOf(host, host.hostApi.followUpRun(runId))).toMatch(
      /^invalid: the repository .* owner\/name, is not under/,
    )
  })
})

// ---- execution ----------------------------------------------------------------------------------------------------

test('a follow-up is a job of its own, with the pull request and its remarks', async () => {
  const { host, pulls, connection, runId, followUp } = await startWithCompletedRun({
    repos: { main: { remote: 'owner/name', defaultBranch: 'trunk' } },
  })
  pulls.addComment('please rename it')
  pulls.addComment('<!-- switchyard:evidence run-1 -->', 'ada')
  expect(await followUp()).toMatchObject({ status: 'queued', result: { summary: 'done before' } })
  await host.settle()
  const job = jobOn(connection)
  expect(job).toMatchObject({
    kind: 'follow-up',
    branch: 'fix',
    base: 'next',
    repo: { remote: 'owner/name', defaultBranch: 'trunk' },
    pull: {
      number: 1,
      url: URL,
      headBranch: 'fix',
      headRemote: 'somebody/name',
      baseBranch: 'next',
      comments: [{ body: 'please rename it' }],
    },
    followUp: { id: expect.stringMatching(/^fu-[0-9a-f]{32}$/), number: 1 },
    run: { id: runId, agentSessionId: 's-1', sandbox: { id: 'sb-1' } },
  })
  expect(Object.keys(job.credentials)).not.toContain('tracker')
})

test('a follow-up obeys only people who may write to the repository, and those that repos.*.orders names', async () => {
  const { host, pulls, connection, followUp } = await startWithCompletedRun({
    repos: { main: { remote: 'owner/name', orders: ['Helper[bot]'] } },
  })
  pulls.addComment('please rename it', 'ada', AT, true)
  pulls.addComment('delete everything', 'mallory', AT, false)
  pulls.addComment('two findings', 'helper[bot]', AT, false)
  await followUp()
  await host.settle()
  const { pull } = jobOn(connection)
  expect(pull?.comments.map(({ body }) => body)).toEqual(['please rename it', 'two findings'])
  expect(pull?.unheard).toEqual(['mallory'])
})

test('a follow-up has costs of its own, keeps the run’s result, and moves no ticket', async () => {
  const { host, pulls, connection, runId, followUp } = await startWithCompletedRun({
    tracker: { driver: 'local', path: '/nowhere', startedState: 'Doing', reviewState: 'Review' },
  })
  const moved: string[] = []
  host.tracker.moveTicket = async (_, state) => {
    moved.push(state)
    return yes(undefined)
  }
  await host.settle()
  moved.length = 0
  for (const number of [1, 2]) {
    await followUp()
    await host.settle()
    const work = await acceptDispatch(connection)
    expect(work.job.followUp?.number).toBe(number)
    expect(host.run(runId)).toMatchObject({
      status: 'preparing',
      result: { summary: expect.stringContaining('done before') },
    })
    const result = { prUrl: URL, summary: 'done before, and after', artifacts: [] }
    await connection.send(work.running(), work.complete({ result, prState: 'open', costs: [cost(number)] }))
  }
  const run = host.run(runId)
  expect(run).toMatchObject({ status: 'completed', costTotals: { costUsd: 4 } })
  expect(run.result?.summary).toBe('done before, and after')
  expect(run).not.toHaveProperty('error')
  expect(run.costs.map(({ label }) => label)).toEqual(['run', 'follow-up 1', 'follow-up 2'])
  expect(moved).toEqual([])
  expect(pulls.reads).toBe(2)
})

test('a follow-up that had nothing to do leaves the summary of its run', async () => {
  const { host, connection, runId, followUp } = await startWithCompletedRun()
  await followUp()
  await host.settle()
  const work = await acceptDispatch(connection)
  await connection.send(work.running(), work.complete({ result: { prUrl: URL, artifacts: ['log.txt'] } }))
  expect(host.run(runId)).toMatchObject({
    status: 'completed',
    result: { prUrl: URL, summary: 'done before', artifacts: ['log.txt'] },
  })
})

describe('a remark', () => {
  const remarksSentTo = (connection: ScriptedConnection) =>
    jobOn(connection).pull?.comments.map(({ body }) => body)
  const done = (work: Work) => work.complete({ prUrl: URL, prState: 'open' })

  test('is sent once, whoever opened the pull request, and later remarks the next time', async () => {
    const { host, pulls, worker, connection, followUp } = await startWithCompletedRun()
    pulls.addComment('rename it')
    await followUp()
    await host.settle()
    const first = await acceptDispatch(connection)
    pulls.addComment('and document it', 'bo', '2025-01-01T00:00:00.000Z')
    await connection.send(done(first))
    pulls.addComment(`Done.\n\n${followUpMarker(first.job.followUp?.id ?? '')}`, 'switchyard')
    await host.restart()
    const line = await reconnect(host, worker)
    await followUp()
    await host.settle()
    expect(remarksSentTo(line)).toEqual(['and document it'])
    await line.send(done(await acceptDispatch(line)))
    await followUp()
    await host.settle()
    expect(remarksSentTo(line)).toEqual([])
  })

  test('is sent again when the follow-up failed', async () => {
    const { host, pulls, connection, followUp } = await startWithCompletedRun()
    pulls.addComment('rename it')
    for (let times = 0; times < 2; times++) {
      await followUp()
      await host.settle()
      expect(remarksSentTo(connection)).toEqual(['rename it'])
      await connection.send(
        (await acceptDispatch(connection)).complete({ status: 'failed', error: 'conflicts' }),
      )
    }
  })

  test('made between two attempts of one follow-up is sent the next time, because the first attempt may have done everything', async () => {
    const { host, pulls, connection, followUp } = await startWithCompletedRun()
    pulls.addComment('rename it')
    await followUp()
    await host.settle()
    const first = await acceptDispatch(connection)
    pulls.addComment('and document it')
    const error = 'interrupted: the worker was stopped'
    await connection.send(
      first.running(),
      first.complete({ status: 'failed', error, sandbox: { id: 'sb-1' } }),
    )
    await host.settle()
    expect(remarksSentTo(connection)).toEqual(['rename it', 'and document it'])
    await connection.send(done(await acceptDispatch(connection)))
    await followUp()
    await host.settle()
    expect(remarksSentTo(connection)).toEqual(['and document it'])
  })
})

test('a retry after a follow-up is an ordinary attempt', async () => {
  const { host, connection, runId, followUp } = await startWithCompletedRun()
  await followUp()
  await host.settle()
  const work = await acceptDispatch(connection)
  await connection.send(work.complete({ status: 'failed', error: 'conflicts', costs: [cost(1)] }))
  expect(host.run(runId)).toMatchObject({
    status: 'completed',
    error: 'the follow-up failed: conflicts',
    result: { summary: 'done before' },
  })
  await host.succeeded(host.hostApi.retryRun(runId))
  const again = await acceptDispatch(connection)
  expect(again.job.kind).toBe('run')
  await connection.send(again.complete({ costs: [cost(1)] }))
  expect(host.run(runId).costs.map(({ label }) => label)).toEqual(['run', 'follow-up 1', 'attempt 2'])
})

test('a follow-up runs while the tracker is unreachable, and while its ticket is blocked or gone', async () => {
  const { host, connection, followUp } = await startWithCompletedRun()
  host.tracker.put(
    ticket('ENG-9', { state: 'In Progress' }),
    ticket('ENG-1', { blockedBy: ['ENG-9'], state: 'Done' }),
  )
  host.tracker.answer = no('unavailable', 'the tracker is away')
  host.tracker.announceChange()
  await host.settle()
  await followUp()
  await host.settle()
  expect(isFollowUp(connection)).toBe(true)
})

test('memories of a follow-up are kept for the pull request’s repository', async () => {
  const { host, connection, followUp } = await startWithCompletedRun({
    repos: { main: { remote: 'owner/name' }, web: { remote: 'owner/web', label: 'web' } },
  })
  await followUp()
  await host.settle()
  const work = await acceptDispatch(connection)
  await connection.send(work.memories('owner/name', 'It is built with make.'))
  await host.settle()
  expect(JSON.stringify(host.hostApi.memories())).toContain('It is built with make.')
})

// ---- placement ----------------------------------------------------------------------------------------------------

describe('the retained sandbox', () => {
  test('is waited for while its worker is disconnected, and used when the worker reconnects', async () => {
    const { host, connection, worker, runId, followUp } = await startWithCompletedRun()
    await connection.drop()
    const second = await enroll(host, 'other', 5)
    await followUp()
    expect(host.run(runId).queueReason).toBe('worker worker holds the sandbox')
    const placement = host.hostApi.placement(runId)
    expect(placement).toMatchObject({
      value: {
        reason: 'worker worker holds the sandbox',
        workers: expect.arrayContaining([
          expect.objectContaining({ name: 'other', reason: 'worker worker holds the sandbox' }),
        ]),
      },
    })
    expect(second.connection.hasReceived('dispatch')).toBe(false)
    expect(host.hostApi.demand(worker.workerId)).toMatchObject({
      value: { wanted: 0, worker: { awaitedRuns: 1 } },
    })
    const absence =
      /worker worker holds the sandbox and is not connected: it is waited for until \d{4}-.*Z; to have this done elsewhere sooner, cancel it, discard the sandbox, and follow up again/
    expect(JSON.stringify(await host.readEvents(runId))).toMatch(absence)
    const again = await reconnect(host, worker)
    expect(isFollowUp(again)).toBe(true)
    expect(host.run(runId)).not.toHaveProperty('queueReason')
  })

  test('causes one push while its worker is disconnected, however often the pull request changes meanwhile', async () => {
    const { host, connection, pulls, runId, followUp } = await startWithCompletedRun()
    await connection.drop()
    await followUp()
    for (const state of ['draft', 'open', 'draft'] as const) {
      pulls.pulls.set(URL, state)
      await host.advance(130)
      expect(host.run(runId).prState).toBe(state)
    }
    const events = JSON.stringify(await host.readEvents(runId))
    expect(events.match(/it is waited for until/g)).toHaveLength(1)
  })

  test('is waited for while its worker is full, without delaying other runs', async () => {
    const { host, connection, runId, followUp } = await startWithCompletedRun({}, 1)
    host.tracker.put(ticket('ENG-2', { priority: 4 }))
    await host.settle()
    const ordinaryRun = await acceptDispatch(connection)
    await followUp()
    await host.settle()
    expect(host.run(runId).queueReason).toBe('worker worker holds the sandbox')
    host.tracker.put(ticket('ENG-3', { priority: 4 }))
    const second = await enroll(host, 'second', 1)
    await host.settle()
    expect(second.connection.lastReceived('dispatch').job.run.ticket.identifier).toBe('ENG-3')
    await connection.send(ordinaryRun.complete())
    expect(isFollowUp(connection)).toBe(true)
  })

  test('is not waited for after its retention: any worker makes a new checkout', async () => {
    const { host, connection, runId, followUp } = await startWithCompletedRun({
      sandbox: { retentionHours: 1 },
    })
    await connection.drop()
    await followUp()
    await host.advance(3_500)
    expect(host.run(runId).queueReason).toBe('worker worker holds the sandbox')
    const second = await enroll(host, 'other')
    await host.advanceWithHeartbeats(120, [second.connection])
    expect(isFollowUp(second.connection)).toBe(true)
  })

  test('is waited for while the host’s clock counts as wrong, and not when it is over by the right one', async () => {
    const { host, connection, runId, followUp } = await startWithCompletedRun({
      sandbox: { retentionHours: 1 },
    })
    await connection.drop()
    await host.advance(1_800)
    host.clock.jumpWallClock(40 * 24 * 3_600_000)
    await followUp()
    const second = await enroll(host, 'other')
    await host.advanceWithHeartbeats(2_000, [second.connection])
    expect(host.run(runId).queueReason).toBe('worker worker holds the sandbox')
    host.clock.jumpWallClock(-40 * 24 * 3_600_000)
    await host.advanceWithHeartbeats(120, [second.connection])
    expect(isFollowUp(second.connection)).toBe(true)
  })

  test('is not waited for once its worker is revoked', async () => {
    const { host, connection, worker, followUp } = await startWithCompletedRun()
    await connection.drop()
    const second = await enroll(host, 'other')
    await followUp()
    expect(second.connection.hasReceived('dispatch')).toBe(false)
    await host.succeeded(host.hostApi.revokeWorker(worker.workerId))
    await host.settle()
    expect(isFollowUp(second.connection)).toBe(true)
  })

  test('is not waited for once it was discarded', async () => {
    const { host, connection, runId, followUp } = await startWithCompletedRun()
    await host.succeeded(host.hostApi.discardRun(runId))
    await connection.drop()
    const second = await enroll(host, 'other')
    await followUp()
    await host.settle()
    expect(isFollowUp(second.connection)).toBe(true)
  })
})

// ---- reading the pull request --------------------------------------------------------------------------------------

describe('the pull request', () => {
  test('is read right before the dispatch; only this run waits for that', async () => {
    const { host, pulls, connection, runId, followUp } = await startWithCompletedRun()
    let open = () => {}
    pulls.gate = new Promise((resolve) => {
      open = resolve
    })
    await followUp()
    await host.settle()
    expect(host.run(runId).queueReason).toBe(FOLLOW_UP_WAIT_REASONS.reading)
    host.tracker.put(ticket('ENG-2', { priority: 4 }))
    await host.settle()
    expect(jobOn(connection).run.ticket.identifier).toBe('ENG-2')
    open()
    await host.settle()
    expect(isFollowUp(connection)).toBe(true)
  })

  test('is not read while no worker has a free slot, and then includes the remarks made meanwhile', async () => {
    const { host, pulls, connection, worker, followUp } = await startWithCompletedRun()
    await connection.drop()
    await followUp()
    await host.advance(60)
    expect(pulls.reads).toBe(0)
    pulls.addComment('at the last moment')
    const again = await reconnect(host, worker)
    expect(jobOn(again).pull?.comments).toMatchObject([{ body: 'at the last moment' }])
    expect(pulls.reads).toBe(1)
  })

  test('is not read again after a rejection, unless the last reading was long ago', async () => {
    const { host, pulls, connection, worker, followUp } = await startWithCompletedRun()
    await followUp()
    await host.settle()
    const refuse = () =>
      connection.send(new Work(connection.lastReceived('dispatch')).reject('busy: a terminal is open'))
    await refuse()
    await host.advanceWithHeartbeats(45, [connection])
    expect([connection.countReceived('dispatch'), pulls.reads]).toEqual([3, 1])
    await refuse()
    await connection.drop()
    await host.advance(300)
    pulls.addComment('a word')
    const again = await reconnect(host, worker)
    expect(jobOn(again).pull?.comments).toMatchObject([{ body: 'a word' }])
    expect(pulls.reads).toBe(2)
  })

  test('cannot be read while the code host is unreachable: its queue reason names the cause, and the read is retried', async () => {
    const { host, pulls, connection, runId, followUp } = await startWithCompletedRun()
    pulls.unreadable = no('unavailable', 'GitHub answered 502')
    await followUp()
    await host.settle()
    expect(host.run(runId).queueReason).toBe(FOLLOW_UP_WAIT_REASONS.unreadable('GitHub answered 502'))
    await host.advanceWithHeartbeats(30, [connection])
    const before = pulls.reads
    expect(before).toBeGreaterThan(2)
    expect(before).toBeLessThan(8)
    pulls.unreadable = undefined
    await host.advanceWithHeartbeats(60, [connection])
    expect(isFollowUp(connection)).toBe(true)
  })

  test('cannot be read without a code host: once connected again, the run continues at once', async () => {
    const { host, connection, worker, runId, connect, disconnect, followUp } = await startWithCompletedRun()
    await connection.drop()
    await followUp()
    disconnect()
    await host.succeeded(host.hostApi.changeSettings({ sandbox: { concurrency: 3 } }))
    const again = await reconnect(host, worker)
    expect(host.run(runId).queueReason).toMatch(/^the code host is not connected/)
    connect()
    await host.succeeded(host.hostApi.changeSettings({ sandbox: { concurrency: 4 } }))
    await host.settle()
    expect(isFollowUp(again)).toBe(true)
  })

  test('is merged while the run waits: the run is completed again, with the reason in its log', async () => {
    const { host, pulls, connection, worker, runId, followUp } = await startWithCompletedRun()
    await connection.drop()
    await followUp()
    pulls.pulls.set(URL, 'merged')
    const again = await reconnect(host, worker)
    await host.settle()
    expect(isFollowUp(again)).toBe(false)
    expect(host.run(runId)).toMatchObject({
      status: 'completed',
      prState: 'merged',
      error: 'the follow-up failed: its pull request is merged',
      result: { summary: 'done before' },
    })
  })

  test('is closed while no worker has a free slot: the run still notices', async () => {
    const { host, pulls, connection, runId, followUp } = await startWithCompletedRun()
    await connection.drop()
    await followUp()
    pulls.pulls.set(URL, 'closed')
    await host.advance(121)
    expect(host.run(runId)).toMatchObject({ status: 'completed', prState: 'closed' })
  })

  test.each(['merged', 'closed'] as const)(
    '%s while it is worked on: it stops, and the run’s log has the reason',
    async (state) => {
      const { host, pulls, connection, runId, followUp } = await startWithCompletedRun()
      await followUp()
      await host.settle()
      const work = await acceptDispatch(connection)
      await connection.send(work.patch({ status: 'running' }))
      pulls.pulls.set(URL, state)
      await host.advanceWithHeartbeats(121, [connection, work])
      const reason = `its pull request is ${state}`
      expect(connection.lastReceived('cancel')).toMatchObject({ leaseId: work.id, reason })
      await connection.send(work.complete({ status: 'cancelled', error: reason }))
      expect(host.run(runId)).toMatchObject({
        status: 'completed',
        prState: state,
        error: `the follow-up failed: ${reason}`,
        result: { summary: 'done before' },
      })
    },
  )

  test('is merged during publishing: the follow-up continues to its end', async () => {
    const { host, pulls, connection, runId, followUp } = await startWithCompletedRun()
    await followUp()
    await host.settle()
    const work = await acceptDispatch(connection)
    await connection.send(work.patch({ status: 'finalizing' }))
    pulls.pulls.set(URL, 'merged')
    await host.advanceWithHeartbeats(121, [connection, work])
    expect(connection.hasReceived('cancel')).toBe(false)
    expect(host.run(runId)).toMatchObject({ status: 'finalizing', prState: 'merged' })
  })

  test('or its repository is gone: the run is completed again, with the reason in its log', async () => {
    const { host, pulls, runId, followUp } = await startWithCompletedRun()
    pulls.unreadable = no('unknown', 'not found')
    await followUp()
    await host.settle()
    expect(host.run(runId).error).toMatch(
      /^the follow-up failed: the code host does not know its pull request/,
    )
    pulls.unreadable = undefined
    pulls.headRemote = undefined
    await followUp()
    await host.settle()
    expect(host.run(runId)).toMatchObject({
      status: 'completed',
      error: expect.stringMatching(/nothing can be pushed to it$/),
      result: { summary: 'done before' },
    })
  })
})

// ---- other ends ----------------------------------------------------------------------------------------------------

describe('a cancelled follow-up', () => {
  const asBefore = {
    status: 'completed',
    error: 'the follow-up failed: it was cancelled',
    result: { summary: 'done before' },
  }

  test('ends at once in the queue', async () => {
    const { host, connection, runId, followUp } = await startWithCompletedRun()
    const before = host.run(runId)
    await connection.drop()
    await followUp()
    expect(host.run(runId)).not.toHaveProperty('finishedAt')
    const { startedAt, finishedAt } = before
    expect(await host.succeeded(host.hostApi.cancelRun(runId))).toMatchObject({
      ...asBefore,
      startedAt,
      finishedAt,
    })
    expect(host.census()).toMatchObject({ followUps: 0, queued: 0, activeRuns: 0 })
  })

  test('ends while its pull request is read, too, and the reading is dropped', async () => {
    const { host, pulls, connection, runId, followUp } = await startWithCompletedRun()
    let open = () => {}
    pulls.gate = new Promise((resolve) => {
      open = resolve
    })
    await followUp()
    await host.succeeded(host.hostApi.cancelRun(runId))
    open()
    await host.settle()
    expect(host.run(runId)).toMatchObject(asBefore)
    expect(isFollowUp(connection)).toBe(false)
    expect(host.census()).toMatchObject({ followUps: 0, queued: 0 })
  })

  test('ends with the outcome of its worker while it is executed', async () => {
    const { host, connection, runId, followUp } = await startWithCompletedRun()
    await followUp()
    await host.settle()
    const work = await acceptDispatch(connection)
    await host.succeeded(host.hostApi.cancelRun(runId))
    expect(connection.lastReceived('cancel').leaseId).toBe(work.id)
    await connection.send(work.complete({ status: 'cancelled' }))
    expect(host.run(runId)).toMatchObject(asBefore)
  })
})

test('a follow-up that is interrupted three times in a row is given up, and the run stays as it was', async () => {
  const { host, connection, worker, runId, followUp } = await startWithCompletedRun()
  await followUp()
  await host.settle()
  let line = connection
  const ids = new Set<string>()
  for (let times = 0; times < 3; times++) {
    const work = await acceptDispatch(line)
    ids.add(work.job.followUp?.id ?? '')
    await line.drop()
    await host.advance(170)
    line = await reconnect(host, worker)
  }
  expect(host.run(runId)).toMatchObject({
    status: 'completed',
    error: 'the follow-up failed: interrupted 3 times in a row',
    result: { summary: 'done before' },
  })
  expect(ids.size).toBe(1)
})

describe('a follow-up whose worker ended during it', () => {
  const interrupted = (costs = [cost(1)]) => ({
    status: 'failed' as const,
    error: 'interrupted: the worker was stopped',
    costs,
    sandbox: { id: 'sb-1', retainedUntil: '2026-01-02T12:00:00.000Z' },
  })

  test('starts again as the same follow-up on the worker with its sandbox, and its costs so far count', async () => {
    const { host, connection, runId, followUp } = await startWithCompletedRun()
    await followUp()
    await host.settle()
    const first = await acceptDispatch(connection)
    await connection.send(first.running(), first.complete(interrupted()))
    await host.settle()
    const again = await acceptDispatch(connection)
    expect([again.job.kind, again.job.followUp]).toEqual(['follow-up', first.job.followUp])
    expect(host.run(runId)).toMatchObject({ status: 'preparing', result: { summary: 'done before' } })
    await connection.send(again.running(), again.complete({ prUrl: URL, prState: 'open', costs: [cost(2)] }))
    const run = host.run(runId)
    expect([run.status, run.error, run.costTotals?.costUsd]).toEqual(['completed', undefined, 4])
    expect(run.costs.map(({ label }) => label)).toEqual(['run', 'follow-up 1', 'follow-up 1'])
  })

  test('gives that reason while it waits', async () => {
    const { host, connection, worker, runId, followUp } = await startWithCompletedRun()
    await followUp()
    await host.settle()
    const work = await acceptDispatch(connection)
    await host.succeeded(host.hostApi.drainWorker(worker.workerId))
    await connection.send(work.complete(interrupted()))
    await host.settle()
    expect(host.run(runId)).toMatchObject({
      status: 'queued',
      queueReason: expect.stringMatching(/^interrupted: the worker was stopped/),
    })
  })

  test('does not start again when a person cancelled it', async () => {
    const { host, connection, runId, followUp } = await startWithCompletedRun()
    await followUp()
    await host.settle()
    const work = await acceptDispatch(connection)
    await host.succeeded(host.hostApi.cancelRun(runId))
    await connection.send(work.complete(interrupted()))
    await host.settle()
    expect(host.run(runId)).toMatchObject({
      status: 'completed',
      error: 'the follow-up failed: interrupted: the worker was stopped',
      result: { summary: 'done before' },
    })
  })
})

// ---- restarts of the host ----------------------------------------------------------------------------------------

describe.each(['restart', 'crash'] as const)('%s of the host', (how) => {
  test('while it waits for its worker', async () => {
    const { host, pulls, connection, worker, runId, followUp } = await startWithCompletedRun()
    await connection.drop()
    await followUp()
    await host[how]()
    expect(host.run(runId)).toMatchObject({
      status: 'queued',
      queueReason: 'worker worker holds the sandbox',
      result: { summary: 'done before' },
    })
    const again = await reconnect(host, worker)
    expect(jobOn(again)).toMatchObject({ kind: 'follow-up', followUp: { number: 1 } })
    expect(pulls.reads).toBe(1)
  })

  test('while its pull request is read: the reading starts again', async () => {
    const { host, pulls, worker, followUp } = await startWithCompletedRun()
    let open = () => {}
    pulls.gate = new Promise((resolve) => {
      open = resolve
    })
    await followUp()
    await host[how]()
    open()
    const again = await reconnect(host, worker)
    await host.settle()
    expect(isFollowUp(again)).toBe(true)
    expect(pulls.reads).toBe(2)
  })

  test('while it is offered: the same follow-up is offered again', async () => {
    const { host, connection, worker, followUp } = await startWithCompletedRun()
    await followUp()
    await host.settle()
    const { followUp: first } = jobOn(connection)
    await host[how]()
    const again = await reconnect(host, worker)
    await host.advanceWithHeartbeats(60, [again])
    expect(jobOn(again)).toMatchObject({ kind: 'follow-up', followUp: first })
  })

  test('while it is executed: it continues and is completed', async () => {
    const { host, connection, worker, runId, followUp } = await startWithCompletedRun()
    await followUp()
    await host.settle()
    const work = await acceptDispatch(connection)
    await connection.send(work.running())
    await host[how]()
    const again = await reconnect(host, worker, work)
    await again.send(work.complete({ prUrl: URL, prState: 'open', costs: [cost(2)] }))
    const run = host.run(runId)
    expect(run).toMatchObject({ status: 'completed', costTotals: { costUsd: 3 } })
    expect(run).not.toHaveProperty('error')
    expect(run.costs.map(({ label }) => label)).toEqual(['run', 'follow-up 1'])
  })
})

test('a follow-up whose snapshot is lost leaves its run completed', async () => {
  const { host, connection, worker, runId, followUp } = await startWithCompletedRun()
  await connection.drop()
  await followUp()
  await host.restart()
  void host.store.database.commit([{ table: 'snapshot', kind: 'run', key: runId, record: null }])
  await host.settle()
  await host.crash()
  expect(host.run(runId)).toMatchObject({
    status: 'completed',
    result: { summary: 'done before' },
    error: expect.stringMatching(/^the follow-up failed: .*restart/),
  })
  const again = await reconnect(host, worker)
  expect(again.hasReceived('dispatch')).toBe(false)
})

test('a follow-up whose actor is given up leaves its run completed', async () => {
  const { host, connection, runId, followUp } = await startWithCompletedRun()
  await connection.drop()
  await followUp()
  const { actions } = runMachine.implementations as unknown as { actions: Record<string, unknown> }
  const { cancelFollowUp, failFollowUp } = actions
  const throws = () => {
    throw new Error('a bug')
  }
  Object.assign(actions, { cancelFollowUp: throws, failFollowUp: throws })
  await host.withoutTranscript(async () => {
    for (let times = 0; times < 5; times++) {
      void host.hostApi.cancelRun(runId)
      await host.advance(10)
    }
  })
  Object.assign(actions, { cancelFollowUp, failFollowUp })
  expect(host.run(runId)).toMatchObject({
    status: 'completed',
    result: { summary: 'done before' },
    error: expect.stringMatching(/^the follow-up failed: internal error/),
  })
})

test('a follow-up stored by an older version continues with the next possible number', async () => {
  const { host, connection, worker, runId, followUp } = await startWithCompletedRun()
  await connection.drop()
  await followUp()
  const record = host.store.database.snapshots.get('run', runId)
  if (record === undefined) throw new Error('no snapshot of the run on disk')
  await host.restart()
  const { followUp: _, ...c } = record.c as Record<string, unknown>
  void host.store.database.commit([
    { table: 'snapshot', kind: 'run', key: runId, record: { ...record, v: 1, c } },
  ])
  await host.settle()
  await host.crash()
  const again = await reconnect(host, worker)
  expect(jobOn(again)).toMatchObject({ kind: 'follow-up', followUp: { id: runId, number: 1 } })
})

test('after a follow-up the state of its pull request is read at once', async () => {
  const { host, pulls, connection, runId, followUp } = await startWithCompletedRun()
  await followUp()
  await host.settle()
  const work = await acceptDispatch(connection)
  pulls.pulls.set(URL, 'merged')
  await connection.send(work.memories('owner/name', 'It is built with make.'))
  await connection.send(work.complete({ prUrl: URL, prState: 'open' }))
  await host.settle()
  expect(host.run(runId)).toMatchObject({ status: 'completed', prState: 'merged' })
  expect(host.hostApi.memories().repos['owner/name']).toMatchObject([{ state: 'kept' }])
})

test('a follow-up’s own summary is no remark, but comments made meanwhile are', async () => {
  const { host, pulls, connection, followUp } = await startWithCompletedRun()
  const now = () => new Date(host.clock.now()).toISOString()
  pulls.addComment('first', 'bo', now())
  await host.advance(5)
  await followUp()
  await host.settle()
  const work = await acceptDispatch(connection)
  await host.advanceWithHeartbeats(30, [connection, work])
  pulls.addComment('meanwhile', 'bo', now())
  await host.advanceWithHeartbeats(30, [connection, work])
  pulls.addComment(`Done.\n\n${followUpMarker(work.job.followUp?.id ?? '')}`, 'ada', now())
  await connection.send(work.complete({ prUrl: URL }))
  await followUp()
  await host.settle()
  expect(jobOn(connection).pull?.comments.map(({ body }) => body)).toEqual(['meanwhile'])
})
