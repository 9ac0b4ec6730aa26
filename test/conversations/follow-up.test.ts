/** A person has a pull request followed up: who may, where it goes, what the worker is told, and how it ends. */
import { describe, expect, test } from '@jest/globals'
import { runMachine } from '../../actors/runs/run.machine.ts'
import type { PullBranches, PullDetailFacts, PullReference } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { followUpMarker } from '../../core/run/follow-up.ts'
import type { Run } from '../../protocol/run.ts'
import { HandPulls, handPullUrl } from '../support/manual-code-host.ts'
import { back, busy, configWith, cost, enroll, ticket, type Wire, Work, Yarn } from './host-conversation.ts'

const URL = handPullUrl('owner/name', 1)
const AT = '2026-01-01T00:00:00.000Z'

class Talk extends HandPulls {
  reads = 0
  conversation: PullDetailFacts['conversation'] = { comments: [], reviews: [], threads: [] }
  headRemote: string | undefined = 'somebody/name'
  /** In place of a pull request's details alone. */
  unreadable: Result<never> | undefined
  /** What was asked for does not come before this. */
  gate: Promise<void> = Promise.resolve()

  say(body: string, author = 'bo', createdAt = AT): void {
    const id = String(this.conversation.comments.length)
    this.conversation.comments.push({ id, author, body, createdAt, url: URL })
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

/** A run is completed with a pull request, and its sandbox kept by its worker. */
async function completed(config: object = {}, concurrency = 2) {
  const y: Yarn = new Yarn(configWith(config))
  const pulls = new Talk()
  let connected: Result<Talk> = yes(pulls)
  y.around = { pulls: () => connected }
  await y.start()
  pulls.pulls.set(URL, 'open')
  const { worker, wire, work, runId } = await busy(y, 'ENG-1', concurrency)
  await wire.say(work.patch({ status: 'running', agentSessionId: 's-1', sandbox: { id: 'sb-1' } }))
  await wire.say(
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
  const followUp = () => y.done(y.desk.followUpRun(runId))
  return { y, pulls, worker, wire, runId, disconnect, connect, followUp }
}

const says = async (y: Yarn, asked: Promise<Result<Run>>): Promise<string> => {
  const answer = await y.ask(asked)
  return answer.ok ? `yes: ${answer.value.status}` : `${answer.refusal.kind}: ${answer.refusal.message}`
}
const jobOn = (wire: Wire) => wire.last('dispatch').job
const follows = (wire: Wire): boolean => wire.has('dispatch') && jobOn(wire).kind === 'follow-up'

/** The worker takes it. */
async function taken(wire: Wire): Promise<Work> {
  const work = new Work(wire.last('dispatch'))
  await wire.say(work.accept())
  return work
}

// ---- who may -------------------------------------------------------------------------------------------------------

describe('refused', () => {
  test('404: nobody knows the run', async () => {
    const { y } = await completed()
    expect(await says(y, y.desk.followUpRun('run-x'))).toBe('unknown: there is no run run-x')
  })

  test('409: the run is not completed', async () => {
    const { y, runId } = await completed()
    await y.done(y.desk.retryRun(runId))
    expect(await says(y, y.desk.followUpRun(runId))).toMatch(/^conflict: .* wait for its end/)
    await y.done(y.desk.cancelRun(runId))
    await y.settle()
    expect(await says(y, y.desk.followUpRun(runId))).toMatch(/^conflict: .* is cancelled, .*retry it/)
  })

  test('409: its ticket has another run at work', async () => {
    const { y, runId } = await completed()
    await y.done(y.desk.runTicket('ENG-1'))
    expect(await says(y, y.desk.followUpRun(runId))).toMatch(/^conflict: .* has an active run/)
  })

  test('409: somebody is in its sandbox', async () => {
    const { y, runId, wire } = await completed()
    const resumed = y.desk.resumeRun(runId)
    await y.settle()
    await wire.say({ type: 'sandbox-ready', requestId: wire.last('sandbox-boot').requestId })
    await y.done(resumed)
    expect(await says(y, y.desk.followUpRun(runId))).toMatch(/^conflict: .* release it first/)
    await y.done(y.desk.releaseRun(runId))
    await y.settle()
    expect(await says(y, y.desk.followUpRun(runId))).toBe('yes: queued')
  })

  test('409: its pull request is merged or closed, as the code host says right now, and as the run then shows', async () => {
    const { y, pulls, runId } = await completed()
    for (const state of ['merged', 'closed'] as const) {
      pulls.pulls.set(URL, state)
      expect(await says(y, y.desk.followUpRun(runId))).toMatch(new RegExp(`^conflict: .* is ${state}`))
      await y.settle()
      expect(y.run(runId)).toMatchObject({ status: 'completed', prState: state })
    }
    expect(pulls.asked.at(-1)).toBe('states owner/name 1 person')
  })

  test('409: two at once are one', async () => {
    const { y, runId } = await completed()
    const [first, second] = [y.desk.followUpRun(runId), y.desk.followUpRun(runId)]
    expect(await says(y, second)).toMatch(/^conflict: .* starting already/)
    expect(await says(y, first)).toBe('yes: queued')
  })

  test('409: what happens while the code host is asked counts', async () => {
    const { y, pulls, runId } = await completed()
    let answer = () => {}
    const states = pulls.states.bind(pulls)
    pulls.states = async (...asked) => {
      await new Promise<void>((resolve) => {
        answer = resolve
      })
      return states(...asked)
    }
    const asked = y.desk.followUpRun(runId)
    await y.settle()
    expect(await says(y, y.desk.resumeRun(runId) as Promise<Result<never>>)).toMatch(
      /follow-up .* is starting/,
    )
    await y.done(y.desk.retryRun(runId))
    answer()
    expect(await says(y, asked)).toMatch(/^conflict: .* wait for its end/)
  })

  test('400: the run has no pull request', async () => {
    const { y, wire } = await completed()
    y.tracker.put(ticket('ENG-2'))
    await y.settle()
    const work = await taken(wire)
    await wire.say(work.complete())
    expect(await says(y, y.desk.followUpRun(work.runId))).toMatch(/^invalid: .* has no pull request/)
  })

  test('400: no code host is connected, or another one', async () => {
    const { y, pulls, runId, connect, disconnect } = await completed()
    disconnect()
    expect(await says(y, y.desk.followUpRun(runId))).toMatch(/^invalid: the code host is not connected/)
    connect()
    pulls.parseUrl = () => undefined
    expect(await says(y, y.desk.followUpRun(runId))).toMatch(/^invalid: .* not at the code host/)
  })

  test('400: the code host is away, or does not know the pull request', async () => {
    const { y, pulls, runId } = await completed()
    pulls.refusal = no('unavailable', 'GitHub answered 502')
    expect(await says(y, y.desk.followUpRun(runId))).toBe('invalid: GitHub answered 502')
    pulls.refusal = undefined
    pulls.pulls.clear()
    expect(await says(y, y.desk.followUpRun(runId))).toMatch(/^invalid: .* does not know/)
  })

  test('400: its repository is not configured any more', async () => {
    const { y, runId } = await completed()
    await y.done(y.desk.changeSettings({ repos: { main: { remote: 'owner/other' } } }))
    expect(await says(y, y.desk.followUpRun(runId))).toMatch(
      /^invalid: the repository .* owner\/name, is not under/,
    )
  })
})

// ---- its way -------------------------------------------------------------------------------------------------------

test('it is a job of its own, about the pull request and what is said there', async () => {
  const { y, pulls, wire, runId, followUp } = await completed({
    repos: { main: { remote: 'owner/name', defaultBranch: 'trunk' } },
  })
  pulls.say('please rename it')
  pulls.say('<!-- switchyard:evidence run-1 -->', 'ada')
  expect(await followUp()).toMatchObject({ status: 'queued', result: { summary: 'done before' } })
  await y.settle()
  const job = jobOn(wire)
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

test('it costs as what it is, keeps what the run came to, and moves no ticket', async () => {
  const { y, pulls, wire, runId, followUp } = await completed({
    tracker: { driver: 'local', path: '/nowhere', startedState: 'Doing', reviewState: 'Review' },
  })
  const moved: string[] = []
  y.tracker.moveTicket = async (_, state) => {
    moved.push(state)
    return yes(undefined)
  }
  await y.settle()
  moved.length = 0
  for (const number of [1, 2]) {
    await followUp()
    await y.settle()
    const work = await taken(wire)
    expect(work.job.followUp?.number).toBe(number)
    expect(y.run(runId)).toMatchObject({
      status: 'preparing',
      result: { summary: expect.stringContaining('done before') },
    })
    const result = { prUrl: URL, summary: 'done before, and after', artifacts: [] }
    await wire.say(work.running(), work.complete({ result, prState: 'open', costs: [cost(number)] }))
  }
  const run = y.run(runId)
  expect(run).toMatchObject({ status: 'completed', costTotals: { costUsd: 4 } })
  expect(run.result?.summary).toBe('done before, and after')
  expect(run).not.toHaveProperty('error')
  expect(run.costs.map(({ label }) => label)).toEqual(['run', 'follow-up 1', 'follow-up 2'])
  expect(moved).toEqual([])
  expect(pulls.reads).toBe(2)
})

describe('what people said', () => {
  const told = (wire: Wire) => jobOn(wire).pull?.comments.map(({ body }) => body)
  const done = (work: Work) => work.complete({ prUrl: URL, prState: 'open' })

  test('is told once, whoever opened the pull request, and what came meanwhile the next time', async () => {
    const { y, pulls, worker, wire, followUp } = await completed()
    pulls.say('rename it')
    await followUp()
    await y.settle()
    const first = await taken(wire)
    pulls.say('and document it', 'bo', '2025-01-01T00:00:00.000Z')
    await wire.say(done(first))
    pulls.say(`Done.\n\n${followUpMarker(first.job.followUp?.id ?? '')}`, 'switchyard')
    await y.restart()
    const line = await back(y, worker)
    await followUp()
    await y.settle()
    expect(told(line)).toEqual(['and document it'])
    await line.say(done(await taken(line)))
    await followUp()
    await y.settle()
    expect(told(line)).toEqual([])
  })

  test('is told again when it came to nothing', async () => {
    const { y, pulls, wire, followUp } = await completed()
    pulls.say('rename it')
    for (let times = 0; times < 2; times++) {
      await followUp()
      await y.settle()
      expect(told(wire)).toEqual(['rename it'])
      await wire.say((await taken(wire)).complete({ status: 'failed', error: 'conflicts' }))
    }
  })

  test('between two attempts of one follow-up is told the next time, for the first may have done it all', async () => {
    const { y, pulls, wire, followUp } = await completed()
    pulls.say('rename it')
    await followUp()
    await y.settle()
    const first = await taken(wire)
    pulls.say('and document it')
    const error = 'interrupted: the worker was stopped'
    await wire.say(first.running(), first.complete({ status: 'failed', error, sandbox: { id: 'sb-1' } }))
    await y.settle()
    expect(told(wire)).toEqual(['rename it', 'and document it'])
    await wire.say(done(await taken(wire)))
    await followUp()
    await y.settle()
    expect(told(wire)).toEqual(['and document it'])
  })
})

test('a retry after it is an ordinary attempt', async () => {
  const { y, wire, runId, followUp } = await completed()
  await followUp()
  await y.settle()
  const work = await taken(wire)
  await wire.say(work.complete({ status: 'failed', error: 'conflicts', costs: [cost(1)] }))
  expect(y.run(runId)).toMatchObject({
    status: 'completed',
    error: 'the follow-up failed: conflicts',
    result: { summary: 'done before' },
  })
  await y.done(y.desk.retryRun(runId))
  const again = await taken(wire)
  expect(again.job.kind).toBe('run')
  await wire.say(again.complete({ costs: [cost(1)] }))
  expect(y.run(runId).costs.map(({ label }) => label)).toEqual(['run', 'follow-up 1', 'attempt 2'])
})

test('it goes on while the tracker is away, its ticket blocked, or gone', async () => {
  const { y, wire, followUp } = await completed()
  y.tracker.put(
    ticket('ENG-9', { state: 'In Progress' }),
    ticket('ENG-1', { blockedBy: ['ENG-9'], state: 'Done' }),
  )
  y.tracker.answer = no('unavailable', 'the tracker is away')
  y.tracker.touch()
  await y.settle()
  await followUp()
  await y.settle()
  expect(follows(wire)).toBe(true)
})

test('what it learnt is kept for the pull request’s repository', async () => {
  const { y, wire, followUp } = await completed({
    repos: { main: { remote: 'owner/name' }, other: { remote: 'owner/other', label: 'web' } },
  })
  await followUp()
  await y.settle()
  const work = await taken(wire)
  await wire.say(work.memories('owner/name', 'It is built with make.'))
  await y.settle()
  expect(JSON.stringify(y.desk.memories())).toContain('It is built with make.')
})

// ---- where it goes -------------------------------------------------------------------------------------------------

describe('its sandbox', () => {
  test('is waited for while its worker is away, and taken when that is back', async () => {
    const { y, wire, worker, runId, followUp } = await completed()
    await wire.drop()
    const other = await enroll(y, 'other', 5)
    await followUp()
    expect(y.run(runId).queueReason).toBe('worker worker holds the sandbox')
    const placement = y.desk.placement(runId)
    expect(placement).toMatchObject({
      value: {
        reason: 'worker worker holds the sandbox',
        workers: expect.arrayContaining([
          expect.objectContaining({ name: 'other', reason: 'worker worker holds the sandbox' }),
        ]),
      },
    })
    expect(other.wire.has('dispatch')).toBe(false)
    const absence =
      /worker worker holds the sandbox and is not connected: it is waited for until \d{4}-.*Z; to have this done elsewhere sooner, cancel it, discard the sandbox, and follow up again/
    expect(JSON.stringify(await y.done(y.desk.runEvents(runId, {})))).toMatch(absence)
    const again = await back(y, worker)
    expect(follows(again)).toBe(true)
    expect(y.run(runId)).not.toHaveProperty('queueReason')
  })

  test('and its absence is told once, however often its pull request changes meanwhile', async () => {
    const { y, wire, pulls, runId, followUp } = await completed()
    await wire.drop()
    await followUp()
    for (const state of ['draft', 'open', 'draft'] as const) {
      pulls.pulls.set(URL, state)
      await y.pass(130)
      expect(y.run(runId).prState).toBe(state)
    }
    const told = JSON.stringify(await y.done(y.desk.runEvents(runId, {})))
    expect(told.match(/it is waited for until/g)).toHaveLength(1)
  })

  test('is waited for while its worker is full, and keeps nobody else from another worker', async () => {
    const { y, wire, runId, followUp } = await completed({}, 1)
    y.tracker.put(ticket('ENG-2', { priority: 4 }))
    await y.settle()
    const other = await taken(wire)
    await followUp()
    await y.settle()
    expect(y.run(runId).queueReason).toBe('worker worker holds the sandbox')
    y.tracker.put(ticket('ENG-3', { priority: 4 }))
    const second = await enroll(y, 'second', 1)
    await y.settle()
    expect(second.wire.last('dispatch').job.run.ticket.identifier).toBe('ENG-3')
    await wire.say(other.complete())
    expect(follows(wire)).toBe(true)
  })

  test('is no reason to wait once its time is over: any worker checks out afresh', async () => {
    const { y, wire, runId, followUp } = await completed({ sandbox: { retentionHours: 1 } })
    await wire.drop()
    await followUp()
    await y.pass(3_500)
    expect(y.run(runId).queueReason).toBe('worker worker holds the sandbox')
    const other = await enroll(y, 'other')
    await y.beating(120, [other.wire])
    expect(follows(other.wire)).toBe(true)
  })

  test('is no reason to wait once its worker is revoked', async () => {
    const { y, wire, worker, followUp } = await completed()
    await wire.drop()
    const other = await enroll(y, 'other')
    await followUp()
    expect(other.wire.has('dispatch')).toBe(false)
    await y.done(y.desk.revokeWorker(worker.workerId))
    await y.settle()
    expect(follows(other.wire)).toBe(true)
  })

  test('is no reason to wait once it was discarded', async () => {
    const { y, wire, runId, followUp } = await completed()
    await y.done(y.desk.discardRun(runId))
    await wire.drop()
    const other = await enroll(y, 'other')
    await followUp()
    await y.settle()
    expect(follows(other.wire)).toBe(true)
  })
})

// ---- its pull request is read --------------------------------------------------------------------------------------

describe('its pull request', () => {
  test('is read right before: until then it waits for that, and others do not', async () => {
    const { y, pulls, wire, runId, followUp } = await completed()
    let open = () => {}
    pulls.gate = new Promise((resolve) => {
      open = resolve
    })
    await followUp()
    await y.settle()
    expect(y.run(runId).queueReason).toBe('its pull request is being read')
    y.tracker.put(ticket('ENG-2', { priority: 4 }))
    await y.settle()
    expect(jobOn(wire).run.ticket.identifier).toBe('ENG-2')
    open()
    await y.settle()
    expect(follows(wire)).toBe(true)
  })

  test('is not read while no worker has room, and holds what was said by then', async () => {
    const { y, pulls, wire, worker, followUp } = await completed()
    await wire.drop()
    await followUp()
    await y.pass(60)
    expect(pulls.reads).toBe(0)
    pulls.say('at the last moment')
    const again = await back(y, worker)
    expect(jobOn(again).pull?.comments).toMatchObject([{ body: 'at the last moment' }])
    expect(pulls.reads).toBe(1)
  })

  test('is offered again as it was read when its worker refuses, and read again when that was long ago', async () => {
    const { y, pulls, wire, worker, followUp } = await completed()
    await followUp()
    await y.settle()
    const refuse = () => wire.say(new Work(wire.last('dispatch')).reject('busy: a terminal is open'))
    await refuse()
    await y.beating(45, [wire])
    expect([wire.count('dispatch'), pulls.reads]).toEqual([3, 1])
    await refuse()
    await wire.drop()
    await y.pass(300)
    pulls.say('a word')
    const again = await back(y, worker)
    expect(jobOn(again).pull?.comments).toMatchObject([{ body: 'a word' }])
    expect(pulls.reads).toBe(2)
  })

  test('cannot be read while the code host is away: the run says so, and it is tried again', async () => {
    const { y, pulls, wire, runId, followUp } = await completed()
    pulls.unreadable = no('unavailable', 'GitHub answered 502')
    await followUp()
    await y.settle()
    expect(y.run(runId).queueReason).toBe('its pull request cannot be read: GitHub answered 502')
    await y.beating(30, [wire])
    const before = pulls.reads
    expect(before).toBeGreaterThan(2)
    expect(before).toBeLessThan(8)
    pulls.unreadable = undefined
    await y.beating(60, [wire])
    expect(follows(wire)).toBe(true)
  })

  test('cannot be read without a code host: connected again, it goes on at once', async () => {
    const { y, wire, worker, runId, connect, disconnect, followUp } = await completed()
    await wire.drop()
    await followUp()
    disconnect()
    await y.done(y.desk.changeSettings({ sandbox: { concurrency: 3 } }))
    const again = await back(y, worker)
    expect(y.run(runId).queueReason).toMatch(/^the code host is not connected/)
    connect()
    await y.done(y.desk.changeSettings({ sandbox: { concurrency: 4 } }))
    await y.settle()
    expect(follows(again)).toBe(true)
  })

  test('merged while it waits: the run is completed again, and says why', async () => {
    const { y, pulls, wire, worker, runId, followUp } = await completed()
    await wire.drop()
    await followUp()
    pulls.pulls.set(URL, 'merged')
    const again = await back(y, worker)
    await y.settle()
    expect(follows(again)).toBe(false)
    expect(y.run(runId)).toMatchObject({
      status: 'completed',
      prState: 'merged',
      error: 'the follow-up failed: its pull request is merged',
      result: { summary: 'done before' },
    })
  })

  test('closed while nobody has room for it: noticed all the same', async () => {
    const { y, pulls, wire, runId, followUp } = await completed()
    await wire.drop()
    await followUp()
    pulls.pulls.set(URL, 'closed')
    await y.pass(121)
    expect(y.run(runId)).toMatchObject({ status: 'completed', prState: 'closed' })
  })

  test.each(['merged', 'closed'] as const)(
    '%s while it is worked on: nothing more is spent, and the run says why',
    async (state) => {
      const { y, pulls, wire, runId, followUp } = await completed()
      await followUp()
      await y.settle()
      const work = await taken(wire)
      await wire.say(work.patch({ status: 'running' }))
      pulls.pulls.set(URL, state)
      await y.beating(121, [wire, work])
      const reason = `its pull request is ${state}`
      expect(wire.last('cancel')).toMatchObject({ leaseId: work.id, reason })
      await wire.say(work.complete({ status: 'cancelled', error: reason }))
      expect(y.run(runId)).toMatchObject({
        status: 'completed',
        prState: state,
        error: `the follow-up failed: ${reason}`,
        result: { summary: 'done before' },
      })
    },
  )

  test('merged once it is being published: that comes to its end', async () => {
    const { y, pulls, wire, runId, followUp } = await completed()
    await followUp()
    await y.settle()
    const work = await taken(wire)
    await wire.say(work.patch({ status: 'finalizing' }))
    pulls.pulls.set(URL, 'merged')
    await y.beating(121, [wire, work])
    expect(wire.has('cancel')).toBe(false)
    expect(y.run(runId)).toMatchObject({ status: 'finalizing', prState: 'merged' })
  })

  test('gone, or its repository gone: the run is completed again, and says why', async () => {
    const { y, pulls, runId, followUp } = await completed()
    pulls.unreadable = no('unknown', 'not found')
    await followUp()
    await y.settle()
    expect(y.run(runId).error).toMatch(/^the follow-up failed: the code host does not know its pull request/)
    pulls.unreadable = undefined
    pulls.headRemote = undefined
    await followUp()
    await y.settle()
    expect(y.run(runId)).toMatchObject({
      status: 'completed',
      error: expect.stringMatching(/nothing can be pushed to it$/),
      result: { summary: 'done before' },
    })
  })
})

// ---- how else it ends ----------------------------------------------------------------------------------------------

describe('cancelled', () => {
  const asBefore = {
    status: 'completed',
    error: 'the follow-up failed: it was cancelled',
    result: { summary: 'done before' },
  }

  test('in the queue it is over at once', async () => {
    const { y, wire, runId, followUp } = await completed()
    const before = y.run(runId)
    await wire.drop()
    await followUp()
    expect(y.run(runId)).not.toHaveProperty('finishedAt')
    const { startedAt, finishedAt } = before
    expect(await y.done(y.desk.cancelRun(runId))).toMatchObject({ ...asBefore, startedAt, finishedAt })
    expect(y.census()).toMatchObject({ followUps: 0, queued: 0, activeRuns: 0 })
  })

  test('while its pull request is read, too, and what comes of that is for nobody', async () => {
    const { y, pulls, wire, runId, followUp } = await completed()
    let open = () => {}
    pulls.gate = new Promise((resolve) => {
      open = resolve
    })
    await followUp()
    await y.done(y.desk.cancelRun(runId))
    open()
    await y.settle()
    expect(y.run(runId)).toMatchObject(asBefore)
    expect(follows(wire)).toBe(false)
    expect(y.census()).toMatchObject({ followUps: 0, queued: 0 })
  })

  test('at work it ends with its worker’s word', async () => {
    const { y, wire, runId, followUp } = await completed()
    await followUp()
    await y.settle()
    const work = await taken(wire)
    await y.done(y.desk.cancelRun(runId))
    expect(wire.last('cancel').leaseId).toBe(work.id)
    await wire.say(work.complete({ status: 'cancelled' }))
    expect(y.run(runId)).toMatchObject(asBefore)
  })
})

test('lost three times in a row it is given up, and the run is as it was', async () => {
  const { y, wire, worker, runId, followUp } = await completed()
  await followUp()
  await y.settle()
  let line = wire
  const ids = new Set<string>()
  for (let times = 0; times < 3; times++) {
    const work = await taken(line)
    ids.add(work.job.followUp?.id ?? '')
    await line.drop()
    await y.pass(170)
    line = await back(y, worker)
  }
  expect(y.run(runId)).toMatchObject({
    status: 'completed',
    error: 'the follow-up failed: interrupted 3 times in a row',
    result: { summary: 'done before' },
  })
  expect(ids.size).toBe(1)
})

describe('whose worker ended in the middle of it', () => {
  const interrupted = (costs = [cost(1)]) => ({
    status: 'failed' as const,
    error: 'interrupted: the worker was stopped',
    costs,
    sandbox: { id: 'sb-1', retainedUntil: '2026-01-02T12:00:00.000Z' },
  })

  test('is begun again as the one that it was, where its sandbox is, and what it has spent counts', async () => {
    const { y, wire, runId, followUp } = await completed()
    await followUp()
    await y.settle()
    const first = await taken(wire)
    await wire.say(first.running(), first.complete(interrupted()))
    await y.settle()
    const again = await taken(wire)
    expect([again.job.kind, again.job.followUp]).toEqual(['follow-up', first.job.followUp])
    expect(y.run(runId)).toMatchObject({ status: 'preparing', result: { summary: 'done before' } })
    await wire.say(again.running(), again.complete({ prUrl: URL, prState: 'open', costs: [cost(2)] }))
    const run = y.run(runId)
    expect([run.status, run.error, run.costTotals?.costUsd]).toEqual(['completed', undefined, 4])
    expect(run.costs.map(({ label }) => label)).toEqual(['run', 'follow-up 1', 'follow-up 1'])
  })

  test('says so while it waits', async () => {
    const { y, wire, worker, runId, followUp } = await completed()
    await followUp()
    await y.settle()
    const work = await taken(wire)
    await y.done(y.desk.drainWorker(worker.workerId))
    await wire.say(work.complete(interrupted()))
    await y.settle()
    expect(y.run(runId)).toMatchObject({
      status: 'queued',
      queueReason: expect.stringMatching(/^interrupted: the worker was stopped/),
    })
  })

  test('and that somebody cancelled, is not', async () => {
    const { y, wire, runId, followUp } = await completed()
    await followUp()
    await y.settle()
    const work = await taken(wire)
    await y.done(y.desk.cancelRun(runId))
    await wire.say(work.complete(interrupted()))
    await y.settle()
    expect(y.run(runId)).toMatchObject({
      status: 'completed',
      error: 'the follow-up failed: interrupted: the worker was stopped',
      result: { summary: 'done before' },
    })
  })
})

// ---- the host comes and goes ---------------------------------------------------------------------------------------

describe.each(['restart', 'crash'] as const)('%s of the host', (how) => {
  test('while it waits for its worker', async () => {
    const { y, pulls, wire, worker, runId, followUp } = await completed()
    await wire.drop()
    await followUp()
    await y[how]()
    expect(y.run(runId)).toMatchObject({
      status: 'queued',
      queueReason: 'worker worker holds the sandbox',
      result: { summary: 'done before' },
    })
    const again = await back(y, worker)
    expect(jobOn(again)).toMatchObject({ kind: 'follow-up', followUp: { number: 1 } })
    expect(pulls.reads).toBe(1)
  })

  test('while its pull request is read: it is read again', async () => {
    const { y, pulls, worker, followUp } = await completed()
    let open = () => {}
    pulls.gate = new Promise((resolve) => {
      open = resolve
    })
    await followUp()
    await y[how]()
    open()
    const again = await back(y, worker)
    await y.settle()
    expect(follows(again)).toBe(true)
    expect(pulls.reads).toBe(2)
  })

  test('while it is offered: it is offered again, and is the same one', async () => {
    const { y, wire, worker, followUp } = await completed()
    await followUp()
    await y.settle()
    const { followUp: first } = jobOn(wire)
    await y[how]()
    const again = await back(y, worker)
    await y.beating(60, [again])
    expect(jobOn(again)).toMatchObject({ kind: 'follow-up', followUp: first })
  })

  test('while it is at work: it goes on, and is completed', async () => {
    const { y, wire, worker, runId, followUp } = await completed()
    await followUp()
    await y.settle()
    const work = await taken(wire)
    await wire.say(work.running())
    await y[how]()
    const again = await back(y, worker, work)
    await again.say(work.complete({ prUrl: URL, prState: 'open', costs: [cost(2)] }))
    const run = y.run(runId)
    expect(run).toMatchObject({ status: 'completed', costTotals: { costUsd: 3 } })
    expect(run).not.toHaveProperty('error')
    expect(run.costs.map(({ label }) => label)).toEqual(['run', 'follow-up 1'])
  })
})

test('a follow-up whose life is lost with the disk’s record of it leaves its run completed', async () => {
  const { y, wire, worker, runId, followUp } = await completed()
  await wire.drop()
  await followUp()
  await y.restart()
  void y.store.database.commit([{ table: 'snapshot', kind: 'run', key: runId, record: null }])
  await y.settle()
  await y.crash()
  expect(y.run(runId)).toMatchObject({
    status: 'completed',
    result: { summary: 'done before' },
    error: 'the follow-up failed: its state was lost in a restart',
  })
  const again = await back(y, worker)
  expect(again.has('dispatch')).toBe(false)
})

test('a follow-up whose life is given up leaves its run completed', async () => {
  const { y, wire, runId, followUp } = await completed()
  await wire.drop()
  await followUp()
  const { actions } = runMachine.implementations as unknown as { actions: Record<string, unknown> }
  const { cancelFollowUp, failFollowUp } = actions
  const throws = () => {
    throw new Error('a bug')
  }
  Object.assign(actions, { cancelFollowUp: throws, failFollowUp: throws })
  await y.quietly(async () => {
    for (let times = 0; times < 5; times++) {
      void y.desk.cancelRun(runId)
      await y.pass(10)
    }
  })
  Object.assign(actions, { cancelFollowUp, failFollowUp })
  expect(y.run(runId)).toMatchObject({
    status: 'completed',
    result: { summary: 'done before' },
    error: expect.stringMatching(/^the follow-up failed: internal error/),
  })
})

test('one that an older version wrote down is carried on as the next that it can be', async () => {
  const { y, wire, worker, runId, followUp } = await completed()
  await wire.drop()
  await followUp()
  const record = y.store.database.snapshots.get('run', runId)
  if (record === undefined) throw new Error('no life of the run on disk')
  await y.restart()
  const { followUp: _, ...c } = record.c as Record<string, unknown>
  void y.store.database.commit([
    { table: 'snapshot', kind: 'run', key: runId, record: { ...record, v: 1, c } },
  ])
  await y.settle()
  await y.crash()
  const again = await back(y, worker)
  expect(jobOn(again)).toMatchObject({ kind: 'follow-up', followUp: { id: runId, number: 1 } })
})

test('how its pull request is after it, the code host is asked at once', async () => {
  const { y, pulls, wire, runId, followUp } = await completed()
  await followUp()
  await y.settle()
  const work = await taken(wire)
  pulls.pulls.set(URL, 'merged')
  await wire.say(work.complete({ prUrl: URL, prState: 'open' }))
  await y.settle()
  expect(y.run(runId)).toMatchObject({ status: 'completed', prState: 'merged' })
})

test('its own summary is nothing to follow up, and what came meanwhile is', async () => {
  const { y, pulls, wire, followUp } = await completed()
  const now = () => new Date(y.clock.now()).toISOString()
  pulls.say('first', 'bo', now())
  await y.pass(5)
  await followUp()
  await y.settle()
  const work = await taken(wire)
  await y.beating(30, [wire, work])
  pulls.say('meanwhile', 'bo', now())
  await y.beating(30, [wire, work])
  pulls.say(`Done.\n\n${followUpMarker(work.job.followUp?.id ?? '')}`, 'ada', now())
  await wire.say(work.complete({ prUrl: URL }))
  await followUp()
  await y.settle()
  expect(jobOn(wire).pull?.comments.map(({ body }) => body)).toEqual(['meanwhile'])
})
