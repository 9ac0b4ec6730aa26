/** The words of a person and the agent for one run, on their way from the API to the worker. */
import { expect, test } from '@jest/globals'
import { yes } from '../../core/result.ts'
import { RUN_INSTRUCTIONS_BYTES_MAX } from '../../protocol/limits.ts'
import type { RunOptions } from '../../protocol/run.ts'
import { ManualPullRequests, manualPullUrl } from '../support/manual-code-host.ts'
import {
  configWith,
  enroll,
  HostConversation,
  reconnect,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

const credentials = {
  agent: { agentAApiKey: 'key-of-agent-a', agentBLogin: '{"tokens":1}' },
  codehost: { token: 'token-of-github' },
}
const notEligible = { state: 'Backlog' }

async function startWithTicket() {
  const host = await startHost(configWith(credentials))
  const { connection } = await enroll(host, 'worker', 1)
  host.tracker.put(ticket('ENG-1', notEligible))
  await host.settle()
  return { host, connection }
}

test('instructions and the chosen agent reach the worker and stay with the run', async () => {
  const { host, connection } = await startWithTicket()
  const options = { instructions: 'Use SQLite.', provider: 'agentB', model: 'large', effort: 'high' } as const
  const run = await host.succeeded(host.hostApi.runTicket('ENG-1', options))
  expect(run).toMatchObject({ instructions: 'Use SQLite.', agent: { provider: 'agentB' } })
  await host.settle()
  expect(connection.lastReceived('dispatch').job).toMatchObject({
    run: { instructions: 'Use SQLite.' },
    agent: { provider: 'agentB', model: 'large', effort: 'high' },
    credentials: { agent: { kind: 'login' } },
  })
})

test('tickets and runs are shown with the repository that their labels choose, and stored without it', async () => {
  const repos = { main: { remote: 'owner/main' }, web: { remote: 'owner/web', label: 'web' } }
  const host = await startHost(configWith({ ...credentials, repos }))
  host.tracker.put(ticket('ENG-1', { labels: ['web'] }))
  await host.settle()
  const shown = [host.hostApi.hello().runs[0]?.ticket, host.runOf('ENG-1').ticket, host.hostApi.tickets()[0]]
  expect(shown.map((each) => each?.repo)).toEqual(['web', 'web', 'web'])
  await host.succeeded(host.hostApi.changeSettings({ repos: { web: { label: 'other' } } }))
  await host.settle()
  expect(host.runOf('ENG-1').ticket.repo).toBe('main')
})

test('a retry without instructions keeps those of the run, and others replace them', async () => {
  const { host, connection } = await startWithTicket()
  const { id } = await host.succeeded(host.hostApi.runTicket('ENG-1', { instructions: 'Use SQLite.' }))
  for (const [options, instructions] of [
    [undefined, 'Use SQLite.'],
    [{ effort: 'low' }, 'Use SQLite.'],
    [{ instructions: 'Use files.' }, 'Use files.'],
  ] as const) {
    await host.settle()
    const work = new Work(connection.lastReceived('dispatch'))
    await connection.send(work.accept(), work.complete({ status: 'failed', error: 'it gave up' }))
    await host.succeeded(host.hostApi.retryRun(id, options))
    await host.settle()
    expect(connection.lastReceived('dispatch').job.run).toHaveProperty('instructions', instructions)
  }
  await host.restart()
  expect(host.runOf('ENG-1')).toMatchObject({ instructions: 'Use files.', agent: { effort: 'low' } })
})

test('a run that waits with a setback takes another agent by a retry', async () => {
  const { host, connection } = await startWithTicket()
  const { id } = await host.succeeded(host.hostApi.runTicket('ENG-1'))
  await host.settle()
  const work = new Work(connection.lastReceived('dispatch'))
  const error = 'credential of agentA is refused: connect it again'
  await connection.send(work.accept(), work.complete({ status: 'failed', failure: 'credentials', error }))
  expect(host.runOf('ENG-1')).toMatchObject({ status: 'queued', queueReason: error })
  await host.succeeded(host.hostApi.retryRun(id, { provider: 'agentB', instructions: 'Be quick.' }))
  await host.settle()
  expect(connection.lastReceived('dispatch').job).toMatchObject({
    run: { instructions: 'Be quick.' },
    agent: { provider: 'agentB' },
  })
})

const PULL = manualPullUrl('owner/name', 1)

/** A run with these options is completed with a pull request. */
async function startWithPull(options: RunOptions = {}) {
  const host = new HostConversation(configWith(credentials))
  const pulls = new ManualPullRequests()
  host.overrides = { pulls: () => yes(pulls) }
  await host.start()
  pulls.pulls.set(PULL, 'open')
  const worker = await enroll(host, 'worker', 1)
  const { connection } = worker
  host.tracker.put(ticket('ENG-1', notEligible))
  await host.settle()
  const { id } = await host.succeeded(host.hostApi.runTicket('ENG-1', options))
  await host.settle()
  const work = new Work(connection.lastReceived('dispatch'))
  const result = { prUrl: PULL, artifacts: [] }
  await connection.send(work.accept(), work.complete({ prUrl: PULL, prState: 'open', result }))
  return { host, worker, connection, runId: id }
}

test('a follow-up has the instructions that were given with it, also after a restart', async () => {
  const { host, worker, connection, runId } = await startWithPull({ instructions: 'Use SQLite.' })
  const run = await host.succeeded(
    host.hostApi.followUpRun(runId, { instructions: 'Only the second remark.', effort: 'low' }),
  )
  expect(run).toMatchObject({ instructions: 'Only the second remark.' })
  await host.settle()
  expect(connection.lastReceived('dispatch').job).toMatchObject({
    kind: 'follow-up',
    run: { instructions: 'Only the second remark.' },
    agent: { effort: 'low' },
  })
  await host.restart()
  const again = await reconnect(host, worker)
  await host.settle()
  await host.advanceWithHeartbeats(300, [again])
  expect(again.lastReceived('dispatch').job.run).toHaveProperty('instructions', 'Only the second remark.')
})

test('a follow-up without instructions gets none of the run, and a retry gets them', async () => {
  const { host, connection, runId } = await startWithPull({ instructions: 'Use SQLite.' })
  await host.succeeded(host.hostApi.followUpRun(runId))
  await host.settle()
  const { job } = connection.lastReceived('dispatch')
  expect(job.kind).toBe('follow-up')
  expect(job.run).not.toHaveProperty('instructions')
  const work = new Work(connection.lastReceived('dispatch'))
  await connection.send(work.accept(), work.complete({ prUrl: PULL, prState: 'open' }))
  expect(await host.succeeded(host.hostApi.retryRun(runId))).toHaveProperty('instructions', 'Use SQLite.')
  await host.settle()
  expect(connection.lastReceived('dispatch').job.run).toHaveProperty('instructions', 'Use SQLite.')
})

test('too many bytes are refused before anything is queued', async () => {
  const { host } = await startWithTicket()
  const instructions = 'ä'.repeat(RUN_INSTRUCTIONS_BYTES_MAX / 2 + 1)
  for (const asked of [
    host.hostApi.runTicket('ENG-1', { instructions }),
    host.hostApi.retryRun('run-x', { instructions }),
    host.hostApi.followUpRun('run-x', { instructions }),
  ])
    expect(await host.settled(asked)).toMatchObject({ refusal: { kind: 'invalid' } })
  expect(await host.settled(host.hostApi.runTicket('ENG-1'))).toMatchObject({ ok: true })
})
