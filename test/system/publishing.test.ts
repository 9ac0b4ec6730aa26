/**
 * A night in which the code host takes no work: a rule that refuses pushes for a while, and a token that dies and is
 * replaced. Real processes and real git; each ticket is done in the end, and each agent is paid once.
 */
import { execFile, execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import type { AttentionItem, AttentionResponse } from '../../protocol/attention.ts'
import type { Run, RunEvent } from '../../protocol/run.ts'
import { commandPath, runCommand } from '../support/command-process.ts'
import { SYSTEM_WAIT_MS_MAX } from '../support/dashboard-client.ts'
import type { IssueRow } from '../support/linear/rows.ts'
import { GATE } from '../support/local-system.ts'
import { GITHUB_TOKEN } from '../support/made-up-keys.ts'
import { OWNER, ProviderSystem } from '../support/system-with-providers.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
const [EVENING_TOKEN, NIGHT_TOKEN] = ['ghp_of_the_evening', 'ghp_of_the_night']
/** Each execution of the agent leaves a line. */
const EXECUTED = ['run cat /proc/sys/kernel/random/uuid >> executions.txt', 'commit Leave a mark']

async function openNight(isLocal = true): Promise<ProviderSystem> {
  const system = await ProviderSystem.open({
    tracker: { reviewState: 'In Review' },
    codehost: { token: EVENING_TOKEN },
    sandbox: { concurrency: 3 },
    worker: { local: isLocal },
  })
  system.github.addToken(OWNER, EVENING_TOKEN)
  const put = await system.send('PUT', '/api/settings/credentials', { trackerApiKey: system.linear.apiKey })
  expect(put.body).toMatchObject({ results: { tracker: { ok: true } } })
  return system
}

const waitToPublish = (system: ProviderSystem, issues: readonly IssueRow[]): Promise<Run[]> =>
  Promise.all(
    issues.map((issue) =>
      system.waitForRun(issue, 'waiting to publish', ({ status, queueReason = '' }) =>
        status === 'queued' ? queueReason.startsWith('publishing again at ') : false,
      ),
    ),
  )

async function refusalIn(system: ProviderSystem): Promise<AttentionItem | undefined> {
  const { items } = await system.get<AttentionResponse>('/api/attention')
  return items.find(({ id }) => id.startsWith('publish:'))
}

/** The ticket is done, and its agent was asked, and paid, once. */
async function expectDoneOnce(system: ProviderSystem, issue: IssueRow): Promise<void> {
  const { id, status, error, costs, result } = await system.waitForEnd(issue)
  expect([status, error, costs.length]).toEqual(['completed', undefined, 1])
  const repo = system.github.repo('acme/app')
  const shown = execFileSync('git', ['-C', repo.path, 'show', `${result?.branch}:executions.txt`])
  expect(shown.toString().trim().split('\n')).toHaveLength(1)
  const events = await system.get<readonly RunEvent[]>(`/api/runs/${id}/events`)
  expect(events.filter((event) => event.type === 'status' && event.to === 'running')).toHaveLength(1)
  const inReview = () => issue.state.name === 'In Review'
  await until(`${issue.identifier} is in review`, inReview, SYSTEM_WAIT_MS_MAX)
}

test(
  'a rule that refuses pushes for a while, and a token that dies, cost no ticket and no second agent',
  async () => {
    const system = await openNight()
    const { github } = system
    const repo = github.repo('acme/app')

    repo.rejectPushes = 'remote: error: GH013: Repository rule violations found for this branch.'
    const ruled = ['One', 'Two', 'Three'].map((title) => system.createTicket(title, EXECUTED))
    const waiting = await waitToPublish(system, ruled)
    await until('a person is told', async () => (await refusalIn(system)) !== undefined, SYSTEM_WAIT_MS_MAX)
    const refusal = await refusalIn(system)
    expect(refusal).toMatchObject({ kind: 'codehost', message: expect.stringContaining('GH013') })
    expect([...(refusal?.runs ?? [])].sort()).toEqual(waiting.map(({ id }) => id).sort())
    repo.rejectPushes = undefined
    // A person need not wait for the next try.
    const [, ...cure] = refusal?.cure?.split(' ') ?? []
    expect(await runCommand([...cure, '--data-dir', system.dataDir]).exit).toBe(0)
    for (const issue of ruled) await expectDoneOnce(system, issue)
    expect(await refusalIn(system)).toBeUndefined()

    const overnight = ['Four', 'Five'].map((title) =>
      system.createTicket(title, [`run ${GATE}`, ...EXECUTED]),
    )
    const running = await Promise.all(overnight.map((issue) => system.waitForStatus(issue, 'running')))
    github.world.tokens.delete(EVENING_TOKEN)
    for (const run of running) system.openGates(run)
    await waitToPublish(system, overnight)
    github.addToken(OWNER, NIGHT_TOKEN)
    const put = await system.send('PUT', '/api/settings/credentials', { codehostToken: NIGHT_TOKEN })
    expect(put.body).toMatchObject({ results: { codehost: { ok: true } } })
    for (const issue of overnight) await expectDoneOnce(system, issue)
  },
  TEST_MS_MAX,
)

test(
  'the cure of a run whose worker is revoked, pasted in a clone, fetches the commits that were not published',
  async () => {
    const system = await openNight(false)
    await system.pairWorker()
    const repo = system.github.repo('acme/app')
    repo.rejectPushes = 'remote: error: GH013: Repository rule violations found for this branch.'
    const issue = system.createTicket('Refused', EXECUTED)
    const [waiting] = await waitToPublish(system, [issue])
    await system.host.request(`/api/workers/${waiting?.sandbox.workerId}`, { method: 'DELETE' })
    const { id, error } = await system.waitForEnd(issue)
    expect(error).toContain('unpublished.bundle')
    const { items } = await system.get<AttentionResponse>('/api/attention')
    const cure = items.find(({ runId }) => runId === id)?.cure ?? ''
    const program = `switchyard() { '${process.execPath}' '${commandPath}' "$@" --data-dir '${system.dataDir}'; }`
    const clone = join(system.folder, 'clone')
    execFileSync('git', ['clone', '--quiet', repo.path, clone])
    const pasted = await promisify(execFile)('/bin/sh', ['-c', `${program}\n${cure}`], { cwd: clone })
    expect(pasted.stderr).toContain('kept/')
    const branches = execFileSync('git', ['-C', clone, 'branch', '--list', 'kept/*']).toString().trim()
    const marks = execFileSync('git', ['-C', clone, 'show', `${branches}:executions.txt`]).toString()
    expect(marks.trim().split('\n')).toHaveLength(1)
    for (const words of [
      ['runs', 'show', id],
      ['explain', id],
    ]) {
      const shown = runCommand([...words, '--data-dir', system.dataDir], clone)
      await shown.exit
      expect(shown.err()).toContain(' && git fetch ')
    }
  },
  TEST_MS_MAX,
)

test(
  'work with a key waits for a person, whose command publishes it, and its agent is paid once',
  async () => {
    const system = await openNight()
    const issue = system.createTicket('Six', [...EXECUTED, 'write a.env', '  A=1', `  B=${GITHUB_TOKEN}`])
    const run = await system.waitForRun(issue, 'waiting for a person', ({ status, foundKeys }) =>
      status === 'queued' ? foundKeys !== undefined : false,
    )
    expect(run.foundKeys).toEqual([{ kind: 'a GitHub token', file: 'a.env', line: 2 }])
    const { items } = await system.get<AttentionResponse>('/api/attention')
    const item = items.find(({ kind }) => kind === 'secret')
    expect(item?.runId).toBe(run.id)
    expect(JSON.stringify([item, run.foundKeys, run.queueReason])).not.toContain(GITHUB_TOKEN)
    expect(system.github.repo('acme/app').issues.size).toBe(0)
    const [, ...cure] = item?.cure?.split(' ') ?? []
    expect(await runCommand([...cure, '--data-dir', system.dataDir]).exit).toBe(0)
    await expectDoneOnce(system, issue)
  },
  TEST_MS_MAX,
)
