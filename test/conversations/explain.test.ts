/** Explaining: why a ticket or a run waits, gate by gate, as a host with workers answers. */
import { expect, test } from '@jest/globals'
import { explanationOf } from '../../client/explanation.ts'
import { FLEET_REASONS, PAUSED_REASON } from '../../core/fleet/placement.ts'
import { no, yes } from '../../core/result.ts'
import type { ExplainResponse, GateId } from '../../protocol/explain.ts'
import { ManualPullRequests, manualPullUrl } from '../support/manual-code-host.ts'
import { Random } from '../support/random.ts'
import {
  acceptRun,
  configWith,
  type EnrolledScriptedWorker,
  enroll,
  HostConversation,
  offerRun,
  startHost,
  ticket,
} from './host-conversation.ts'

function explainRun(host: HostConversation, identifier: string): ExplainResponse {
  const answer = host.hostApi.explainRun(host.runOf(identifier).id)
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

function explainTicket(host: HostConversation, identifier: string): ExplainResponse {
  const answer = host.hostApi.explainTicket(identifier)
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

/** The gates that do not pass, with their messages. */
const closedGates = ({ gates }: ExplainResponse): string[] =>
  gates
    .filter(({ status }) => status !== 'pass')
    .map(({ id, status, message }) => `${status} ${id}: ${message}`)

test('a ticket whose file cannot be read is explained by that', async () => {
  const host = await startHost()
  const problem = 'eng-2.md cannot be read (EACCES: permission denied); mend it'
  host.tracker.answer = yes({ tickets: [], problems: ['ENG-20.md: no front matter', problem] })
  host.tracker.announceChange()
  await host.settle()
  expect(host.hostApi.explainTicket('ENG-2')).toEqual(
    no('conflict', 'eng-2.md cannot be read (EACCES: permission denied)'),
  )
  expect(host.hostApi.explainTicket('ENG-3')).toMatchObject({ refusal: { kind: 'unknown' } })
})

test('a run waits for a slot: the ticket and the run have the same explanation', async () => {
  const host = await startHost()
  await acceptRun(host, 'ENG-1', 1)
  host.tracker.put(ticket('ENG-2'), ticket('ENG-3'))
  await host.settle()
  const explained = explainRun(host, 'ENG-3')
  expect(explained).toMatchObject({
    ticket: { identifier: 'ENG-3' },
    run: { queueReason: FLEET_REASONS.full },
  })
  expect(closedGates(explained)).toEqual(['wait capacity: worker 1 of 1 slots; 1 run is before it'])
  expect(closedGates(explainRun(host, 'ENG-2'))).toEqual(['wait capacity: worker 1 of 1 slots; next in line'])
  expect(explainTicket(host, 'ENG-3')).toEqual(explained)
  expect(explained.gates.map(({ message }) => message).slice(0, 6)).toEqual([
    'local, connected',
    '0s ago, every 30s',
    'state Todo',
    'main (owner/name)',
    'none',
    'no other active run',
  ])
})

test('several obstacles of one run are shown at once', async () => {
  const host = await startHost(configWith({ policy: { paused: true } }))
  const { connection } = await enroll(host, 'away')
  await connection.drop()
  host.tracker.put(ticket('ENG-1', { state: 'Backlog' }), ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.settle()
  expect(closedGates(explainRun(host, 'ENG-2'))).toEqual([
    'wait blockers: ENG-1 is in state Backlog',
    'stop policy: running work goes on; 0 runs would start',
    'wait workers: none; not away (not connected, last seen 0s ago)',
    'stop credential: credential of github is missing',
  ])
  expect(explainRun(host, 'ENG-2').run?.queueReason).toBe(PAUSED_REASON)
  expect(closedGates(explainTicket(host, 'ENG-1'))).toContain(
    'stop eligible: state Backlog is not in tracker.eligible.states (Todo)',
  )
})

test('a run behind a ticket under review needs a person, who is shown the pull request', async () => {
  const host = new HostConversation(configWith({}))
  const pulls = new ManualPullRequests()
  host.overrides = { pulls: () => yes(pulls) }
  await host.start()
  const prUrl = manualPullUrl('owner/name', 1)
  pulls.pulls.set(prUrl, 'open')
  const { connection, work } = await acceptRun(host)
  await connection.send(work.complete({ prUrl, prState: 'open' }))
  await host.advanceWithHeartbeats(5, [connection])
  host.tracker.put(ticket('ENG-2', { blockedBy: ['ENG-1'] }))
  await host.settle()
  const explained = explainRun(host, 'ENG-2')
  expect(closedGates(explained)).toContain('stop blockers: ENG-1 is under review')
  expect(explained.gates.find(({ id }) => id === 'blockers')?.cure).toBe('switchyard runs open ENG-1')
  pulls.pulls.set(prUrl, 'merged')
  await host.succeeded(host.hostApi.runPull(host.runOf('ENG-1').id))
  expect(closedGates(explainRun(host, 'ENG-2'))).toContainEqual(expect.stringMatching(/^wait blockers: /))
})

test('a ticket without a repository has a queued run that says so', async () => {
  const host = await startHost(configWith({ repos: { api: { remote: 'acme/api', trackerProject: 'API' } } }))
  await enroll(host)
  host.tracker.put(ticket('ENG-1', { project: 'Billing' }))
  await host.settle()
  const { gates, run } = explainTicket(host, 'ENG-1')
  expect(run?.queueReason).toMatch(/^no repository is for ENG-1/)
  expect(gates.filter(({ status }) => status !== 'pass')).toMatchObject([
    { id: 'repository', status: 'stop', cure: expect.stringMatching(/ repos\.billing\./) },
  ])
})

test('a dispatched run passes every gate, and a run that is not queued has none', async () => {
  const host = await startHost()
  const { connection, work } = await offerRun(host)
  expect(closedGates(explainRun(host, 'ENG-1'))).toEqual([])
  await connection.send(work.accept())
  expect(explainRun(host, 'ENG-1')).toMatchObject({ run: { status: 'preparing' }, gates: [] })
  await connection.send(work.complete({ status: 'failed', error: 'the tests fail' }))
  expect(explainRun(host, 'ENG-1')).toMatchObject({ run: { error: 'the tests fail' }, gates: [] })
  expect(explainTicket(host, 'ENG-1').gates.filter(({ status }) => status !== 'pass')).toMatchObject([
    { id: 'duplicate', status: 'stop', cure: 'switchyard retry ENG-1' },
  ])
})

test('a run whose only worker went before it answered waits for that worker', async () => {
  const host = await startHost()
  const { connection } = await offerRun(host)
  await connection.drop()
  await host.advance(5)
  const why = expect.stringMatching(/ was sent to worker, .* 5s ago$/)
  expect(closedGates(explainRun(host, 'ENG-1'))).toEqual([why])
  expect(explanationOf(explainTicket(host, 'ENG-1'), 'ENG-1')).toEqual(why)
})

test('a worker that does not react gave no answer, which is no refusal', async () => {
  const host = await startHost()
  await offerRun(host)
  await host.advance(11)
  expect(closedGates(explainRun(host, 'ENG-1'))).toEqual([
    expect.stringMatching(/^wait capacity: .*worker gave no answer to a dispatch; asked again at /),
  ])
  expect(explainRun(host, 'ENG-1').run?.queueReason).toBe(FLEET_REASONS.silent)
})

test('what nobody knows is not found', async () => {
  const host = await startHost()
  expect(host.hostApi.explainTicket('ENG-9')).toMatchObject({ refusal: { kind: 'unknown' } })
  expect(host.hostApi.explainRun('run-9')).toMatchObject({ refusal: { kind: 'unknown' } })
})

// ---- any state of the fleet and the queue --------------------------------------------------------------------------

/** The gate that people connect with a reason, by its words. */
const GATE_OF_REASON: readonly (readonly [RegExp, GateId])[] = [
  [/^(interrupted: .*; )?paused$/, 'policy'],
  [/waiting for /, 'blockers'],
  [/no repository is for /, 'repository'],
  [/no workers connected$|all workers .*are draining$|no worker has /, 'workers'],
  [/credential of \w+ is missing: /, 'credential'],
  [/fleet at capacity$|all workers .*refused a dispatch/, 'capacity'],
  [/holds the sandbox$|all workers .*are on hold$/, 'sandbox'],
]

async function doSomething(host: HostConversation, random: Random, workers: EnrolledScriptedWorker[]) {
  const worker = workers.length === 0 ? undefined : random.pick(workers)
  const name = `ENG-${1 + random.below(9)}`
  switch (random.below(9)) {
    case 0:
    case 1: {
      const agents = random.below(3) === 0 ? { agents: { agentA: { found: false } } } : {}
      workers.push(await enroll(host, `w${workers.length}`, 1 + random.below(2), agents))
      break
    }
    case 2:
      await host.succeeded(host.hostApi.setPaused(random.below(3) === 0))
      break
    case 3:
      if (worker !== undefined) await host.succeeded(host.hostApi.drainWorker(worker.workerId))
      break
    case 4:
      if (worker !== undefined) await host.succeeded(host.hostApi.enableWorker(worker.workerId))
      break
    case 5:
      if (worker !== undefined) await worker.connection.drop()
      break
    default: {
      const blockedBy = random.below(4) === 0 ? [`ENG-${1 + random.below(9)}`] : []
      const repo = random.below(6) === 0 ? { repo: 'nowhere' } : {}
      host.tracker.put(ticket(name, { blockedBy, ...repo, priority: random.below(2) === 0 ? 1 : 0 }))
    }
  }
  await host.settle()
}

function expectAgreement(host: HostConversation): void {
  const runs = host.hostApi.runs({ status: ['queued'] })
  for (const { id } of runs.ok ? runs.value.runs : []) {
    const answer = host.hostApi.explainRun(id)
    const placement = host.hostApi.placement(id)
    if (!answer.ok || !placement.ok) throw new Error(`${id} is not explained`)
    const { run, gates } = answer.value
    const closed = gates.filter(({ status }) => status !== 'pass').map((gate) => gate.id)
    const reason = run?.queueReason
    const { worker, reason: isWaiting } = placement.value
    const isAway = host.hostApi.fleet().workers.find((each) => each.id === worker)?.connection === 'offline'
    if (isWaiting === undefined) expect({ id, closed }).toEqual({ id, closed: isAway ? ['workers'] : [] })
    else
      expect(closed).toContain(
        GATE_OF_REASON.find(([words]) => reason !== undefined && words.test(reason))?.[1],
      )
  }
}

test.each([1, 2, 3, 4, 5, 6])('gates agree with queue reasons, whatever happens (seed %i)', async (seed) => {
  const host = await startHost()
  const random = new Random(seed)
  const workers: EnrolledScriptedWorker[] = []
  for (let step = 0; step < 40; step += 1) {
    await doSomething(host, random, workers)
    expectAgreement(host)
  }
})
