import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from '@jest/globals'
import { runMarker } from '../../core/run/run-pull.ts'
import type { Job } from '../../protocol/frames.ts'
import { HEARTBEAT_TIMEOUT_SECONDS_MIN } from '../../protocol/limits.ts'
import type { KeptPull } from '../../protocol/pulls.ts'
import { createLocalCodeHost } from '../../providers/codehost/local/code-host.ts'
import { LocalSystem } from '../support/local-system.ts'
import { ScriptedWorker } from '../support/scripted-worker.ts'
import { closeAfterTest } from '../support/test-resources.ts'
import { until } from '../support/until.ts'

const CASES = ['OWN-1', 'FILE-2', 'REPO-3', 'UNMADE-4', 'BRANCH-5', 'MARKER-6'] as const
type Case = (typeof CASES)[number]

test('only a pull request that the run has opened completes the run of a worker that vanished', async () => {
  const system = await LocalSystem.open({
    fleet: { heartbeatTimeoutSeconds: HEARTBEAT_TIMEOUT_SECONDS_MIN, reconnectGraceSeconds: 0 },
  })
  const pullUrl = (repo: string, number: number) =>
    pathToFileURL(join(system.code, 'acme', `${repo}.pulls`, `${number}.json`)).href
  const openPull = async (head: string, body: string): Promise<string> => {
    const commit = system.git('plain', 'commit-tree', 'main^{tree}', '-p', 'main', '-m', 'Work')
    system.git('plain', 'update-ref', `refs/heads/${head}`, commit)
    const codeHost = createLocalCodeHost({
      path: system.code,
      clock: { now: Date.now, after: () => () => {} },
    })
    const opened = await codeHost.openPull({
      remote: 'acme/plain',
      head,
      base: 'main',
      title: head,
      body,
      draft: false,
    })
    if (!opened.ok) throw new Error(opened.refusal.message)
    return opened.value.url
  }
  const leaseOf = (job: Job) => worker.executions.find(({ runId }) => runId === job.run.id)?.leaseId ?? ''
  const addressOf: Readonly<Record<Case, (job: Job, marker: string) => string | Promise<string>>> = {
    'OWN-1': ({ branch }, marker) => openPull(branch, `Done.\n\n${marker}`),
    'FILE-2': () => 'file:///etc/passwd',
    'REPO-3': () => pullUrl('slow-push', 1),
    'UNMADE-4': () => pullUrl('plain', 900),
    'BRANCH-5': (_, marker) => openPull('somebody-else', marker),
    'MARKER-6': ({ branch }) => openPull(branch, 'Done by hand.'),
  }

  const jobs: Job[] = []
  const never = new Promise<never>(() => {})
  const { body } = await system.host.request('/api/workers/pairing-tokens', { method: 'POST' })
  const reported: string[] = []
  const worker: ScriptedWorker = new ScriptedWorker({
    name: 'liar',
    url: () => `ws://127.0.0.1:${system.fleetPort}/ws/worker`,
    token: (body as { token: string }).token,
    seed: 1,
    concurrency: CASES.length,
    script(job) {
      jobs.push(job)
      const patch = { status: 'finalizing' as const, prUrl: '', prState: 'merged' as const }
      const isReady = (async () => {
        await until('the execution is recorded', () => leaseOf(job) !== '')
        const marker = runMarker({ runId: job.run.id, leaseId: leaseOf(job) })
        patch.prUrl = await addressOf[job.run.ticket.identifier as Case](job, marker)
        reported.push(patch.prUrl)
      })()
      return [
        { does: 'wait', until: isReady },
        { does: 'patch', patch },
        { does: 'wait', until: never },
      ]
    },
  })
  closeAfterTest(() => worker.stop())
  worker.start()
  await until('the worker is registered', () => worker.isRegistered)
  for (const identifier of CASES) system.writeTicket(identifier, [])
  for (const identifier of CASES)
    await system.waitForRun(identifier, 'finalizing', ({ status }) => status === 'finalizing')
  expect(reported).toHaveLength(CASES.length)
  worker.stop()

  const ends: string[] = []
  for (const identifier of CASES) {
    const run = await system.waitForRun(
      identifier,
      'completed, or queued without waiting for the code host',
      ({ status, queueReason = '' }) =>
        status === 'completed' || (status === 'queued' && !queueReason.includes('has not confirmed')),
    )
    ends.push(`${identifier} ${run.status} ${run.prState} ${run.pull?.confirmed}`)
    expect(JSON.stringify(run)).not.toMatch(/passwd|slow-push\.pulls|somebody-else/)
  }
  expect(ends).toEqual([
    'OWN-1 completed open true',
    'FILE-2 queued undefined undefined',
    'REPO-3 queued undefined undefined',
    'UNMADE-4 queued undefined undefined',
    'BRANCH-5 queued undefined undefined',
    'MARKER-6 queued open true',
  ])
  const kept = system.pulls('plain').flatMap(({ comments }: KeptPull) => comments ?? [])
  expect(kept).toEqual([])
  expect(readFileSync('/etc/passwd', 'utf8')).not.toContain('switchyard:')
}, 240_000)
