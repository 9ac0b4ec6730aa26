/**
 * From a ticket to a pull request, with everything that a run leaves: real hosts, workers, sandboxes and git. The agent
 * is scripted, so that its actions, its output and its usage are known.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { MemoriesResponse, Run, RunEvent } from '../../protocol/run.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { readFilesBelow } from '../support/secret-sweep.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000

function story(title: string, body: () => Promise<void>): void {
  test(title, body, TEST_MS_MAX)
}

async function startSystem(options: Parameters<typeof LocalSystem.open>[0] = {}): Promise<LocalSystem> {
  const system = await LocalSystem.open({ local: true, ...options })
  await system.waitForOnlineWorkers(1)
  return system
}

/** Every file below the folder, by its relative path. */
const filesIn = (folder: string): Map<string, string> =>
  new Map(readFilesBelow(folder).map(([path, text]) => [path.slice(folder.length + 1), text]))

async function readArtifact(system: LocalSystem, { id }: Run, name: string): Promise<Buffer> {
  const { url, token } = await system.host.waitForLaunch()
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`${url}/api/runs/${id}/artifacts/${name}`, { headers })
  expect(response.status).toBe(200)
  return Buffer.from(await response.arrayBuffer())
}

const logOf = (events: readonly RunEvent[]): string =>
  events.map((event) => (event.type === 'log' ? event.text : '')).join('\n')
const typesOf = (events: readonly RunEvent[]): Set<string> => new Set(events.map(({ type }) => type))

/** The agent's own transcripts of a run. */
const transcriptOf = (system: LocalSystem, run: Run): string =>
  [...filesIn(join(system.sandboxOf(run) ?? '', 'home', '.claude')).values()].join('\n')

describe('a run with all features', () => {
  story('produces a pull request, costs, usage, artifacts, memories and a diff', async () => {
    const system = await startSystem()
    system.writeTicket('ENG-1', [
      'say I look around.',
      'subagent a second opinion',
      'write src/hello.txt',
      '  Hello!',
      'append README.md',
      '  It says hello.',
      'artifact report.md',
      '  # All is well',
      'run head -c 700000 /dev/urandom > $SWITCHYARD_ARTIFACTS/noise.bin && cp $SWITCHYARD_ARTIFACTS/noise.bin noise.bin',
      'remember The gate squeaks on Mondays',
      'commit Say hello',
      'say It says hello now.',
    ])
    const run = await system.waitForEnd('ENG-1')
    expect([run.status, run.error, run.prState]).toEqual(['completed', undefined, 'open'])
    const events = await system.events(run)
    await expectPull(system, run)
    expectCosts(system, run, events)
    expect([...(run.result?.artifacts ?? [])].sort()).toEqual(['noise.bin', 'report.md'])
    expect((await readArtifact(system, run, 'report.md')).toString()).toBe('# All is well\n')
    const branch = run.result?.branch ?? ''
    const noise = execFileSync('git', ['-C', system.bareRepoPath('plain'), 'show', `${branch}:noise.bin`], {
      maxBuffer: 2 ** 24,
    })
    expect((await readArtifact(system, run, 'noise.bin')).equals(noise)).toBe(true)
    expect(logOf(events)).toMatch(/src\/hello\.txt[\s\S]*\+/)
    expect(phasesOf(events)).toEqual(['publish'])
    expect(typesOf(events)).toEqual(new Set(['status', 'log', 'agent', 'artifact', 'cost']))
    expect(events.flatMap((event) => (event.type === 'status' ? [event.to] : []))).toEqual([
      'queued',
      'preparing',
      'running',
      'finalizing',
      'completed',
    ])
    expectLogLines(system, run)
    await expectMemoriesInNextRun(system)
    expect(system.findLeaks()).toEqual([])
  })
})

/** The phases that the log names, in order. */
const phasesOf = (events: readonly RunEvent[]) => [
  ...new Set(
    events.flatMap((event) => (event.type === 'log' && event.phase !== undefined ? [event.phase] : [])),
  ),
]

/** The host's log has one line for each status, and the last names costs and pull request. */
function expectLogLines(system: LocalSystem, run: Run): void {
  const lines = system.host
    .err()
    .split('\n')
    .filter((line) => line.includes('"transition"') && line.includes(run.id))
    .map((line) => JSON.parse(line))
  const statuses = ['queued', 'preparing', 'running', 'finalizing', 'completed']
  expect(lines.map(({ transition }) => transition.to)).toEqual(statuses)
  expect(lines.at(-1)).toMatchObject({
    level: 30,
    transition: { ticket: 'ENG-1', prUrl: run.prUrl, costUsd: run.costTotals?.costUsd },
  })
  expect(lines.at(-1).msg).toContain(run.prUrl)
}

async function expectPull(system: LocalSystem, { result, prUrl }: Run): Promise<void> {
  const [pull, ...others] = system.pulls('plain')
  expect(others).toEqual([])
  expect(pull).toMatchObject({ headBranch: 'switchyard/eng-1', baseBranch: 'main', state: 'open' })
  expect(pull?.title).toContain('About ENG-1')
  expect(pull?.body).toContain('It says hello now.')
  expect([result?.branch, result?.summary, result?.prUrl]).toEqual([
    'switchyard/eng-1',
    'It says hello now.',
    prUrl,
  ])
  expect(system.commits('plain', 'switchyard/eng-1')).toEqual(['Say hello'])
  expect(system.git('plain', 'show', 'switchyard/eng-1:src/hello.txt')).toBe('Hello!')
}

function expectCosts(system: LocalSystem, run: Run, events: readonly RunEvent[]): void {
  expect(run.costs).toMatchObject([{ source: 'example' }])
  const costEntries = events.flatMap((event) => (event.type === 'cost' ? [event.entry] : []))
  expect(costEntries.map(({ outputTokens }) => outputTokens)).toEqual(
    run.costs.map(({ outputTokens }) => outputTokens),
  )
  expect(run.costTotals?.outputTokens).toBeGreaterThan(0)
  expect(run.costTotals?.byModel.map(({ model }) => model).sort()).toEqual(['scripted-1', 'scripted-1-mini'])
  const archived = filesIn(join(system.dataDir, 'usage'))
  const sessions = [...archived.keys()].filter((path) => path.includes(run.agentSessionId ?? 'none'))
  // The session's own snapshot, and the one of the second model.
  expect(sessions).toHaveLength(2)
  for (const text of archived.values()) expect(text).not.toMatch(/hello|squeaks|Please|opinion/i)
}

async function expectMemoriesInNextRun(system: LocalSystem): Promise<void> {
  const { repos } = (await system.host.request('/api/memories')).body as MemoriesResponse
  expect(repos['acme/plain']?.map(({ text, ident, state }) => [text, ident, state])).toEqual([
    ['The gate squeaks on Mondays', 'ENG-1', 'new'],
  ])
  const body = { id: repos['acme/plain']?.[0]?.id }
  await system.host.request('/api/memories/acme%2Fplain/keep', { method: 'POST', body })
  system.writeTicket('ENG-2', ['say Nothing to do.'])
  const next = await system.waitForEnd('ENG-2')
  expect(transcriptOf(system, next)).toContain('The gate squeaks on Mondays')
  expect([next.status, next.prUrl, system.pulls('plain').length]).toEqual(['completed', undefined, 1])
  expect(next.result?.summary).toContain('there is no pull request')
}

describe('an agent that does not succeed', () => {
  const failing: readonly (readonly [name: string, lines: readonly string[], error: RegExp])[] = [
    ['FAIL-1', ['fail The gate is stuck'], /The gate is stuck/],
    ['LIMIT-1', ['limit 30'], /limit/],
    ['CRASH-1', ['crash 3'], /3/],
    ['STEP-1', ['run exit 9'], /step run in line 4/],
    ['SCRIPT-1', ['paint it black'], /"paint" is no step/],
  ]

  story('because it fails: the run fails with the reason, and nothing is published', async () => {
    const system = await startSystem()
    for (const [name, lines] of failing)
      system.writeTicket(name, ['write a.txt', '  a', 'commit A', ...lines])
    for (const [name, , error] of failing) {
      const run = await system.waitForEnd(name)
      expect([name, run.status]).toEqual([name, 'failed'])
      expect(run.error).toMatch(error)
      expect(run.sandbox.retainedUntil).toBeDefined()
    }
    const limited = await system.events((await system.findRun('LIMIT-1')) as Run)
    const limit = limited.find((event) => event.type === 'limit')
    expect(limit).toMatchObject({ provider: 'agentA', resetsAt: expect.any(String) })
    expect([system.branches('plain'), system.pulls('plain')]).toEqual([[], []])
  })

  story('because it exceeds minutes, turns or cost: it is ended, and the error names the limit', async () => {
    const system = await startSystem({ sandbox: { maxRunMinutes: 0.05 } })
    const change = (patch: object) => system.host.request('/api/settings', { method: 'PUT', body: { patch } })
    system.writeTicket('SLOW-1', ['say I begin.', 'hang deaf'])
    expect((await system.waitForEnd('SLOW-1')).error).toMatch(/sandbox\.maxRunMinutes allows/)
    await change({ sandbox: { maxRunMinutes: null }, agent: { maxTurns: 2 } })
    system.writeTicket('TURNS-1', ['run true', 'run true', 'run true', 'run true'])
    expect((await system.waitForEnd('TURNS-1')).error).toMatch(/turns/)
    await change({ agent: { maxTurns: null, maxCostUsd: 0.0001 } })
    system.writeTicket('COST-1', ['run true', 'run true', 'run true', 'run true'])
    expect((await system.waitForEnd('COST-1')).error).toMatch(/maxCostUsd|budget/i)
    for (const name of ['SLOW-1', 'TURNS-1', 'COST-1']) {
      const run = await system.findRun(name)
      expect([name, run?.status, run?.costs.length]).toEqual([
        name,
        'failed',
        name === 'SLOW-1' ? run?.costs.length : 1,
      ])
    }
    await system.waitForNoProcesses()
  })

  story('because it prints nothing for longer than --stall-minutes', async () => {
    const system = await LocalSystem.open()
    await system.pairWorker(['--stall-minutes', '0.1'])
    system.writeTicket('STALL-1', ['say I begin.', 'hang'])
    const run = await system.waitForEnd('STALL-1')
    expect([run.status, run.error]).toEqual(['failed', expect.stringMatching(/printed nothing for 6 s/)])
  })
})

describe('after a run', () => {
  story('its sandbox stays until it is discarded; a busy sandbox cannot be discarded', async () => {
    const system = await startSystem()
    system.writeTicket('KEEP-1', ['write kept.txt', '  kept', 'commit Keep'])
    const run = await system.waitForEnd('KEEP-1')
    const folder = system.sandboxOf(run) ?? ''
    expect(readFileSync(join(folder, 'work', 'kept.txt'), 'utf8')).toBe('kept\n')
    expect(Date.parse(run.sandbox.retainedUntil ?? '')).toBeGreaterThan(Date.now() + 23 * 3_600_000)
    system.writeTicket('BUSY-1', [`run ${GATE}`])
    const busy = await system.waitForStatus('BUSY-1', 'running')
    const discard = ({ id }: Run) => system.host.request(`/api/runs/${id}/discard`, { method: 'POST' })
    expect((await discard(busy)).status).toBe(409)
    expect((await discard(run)).status).toBe(200)
    await until('its sandbox is gone', () => !existsSync(folder))
    const keptUntil = (await system.findRun('KEEP-1'))?.sandbox.retainedUntil ?? ''
    expect(Date.parse(keptUntil)).toBeLessThanOrEqual(Date.now())
    await system.waitForGate(busy)
    system.openGates(busy)
    expect((await system.waitForEnd('BUSY-1')).status).toBe('completed')
  })

  story('its sandbox is reclaimed at the next start after its retention time', async () => {
    const system = await LocalSystem.open({ sandbox: { retentionHours: 1 / 3_600 } })
    const worker = await system.pairWorker()
    system.writeTicket('BRIEF-1', ['say Done.'])
    const run = await system.waitForEnd('BRIEF-1')
    const folder = system.sandboxOf(run) ?? ''
    expect(existsSync(folder)).toBe(true)
    worker.process.kill('SIGTERM')
    await worker.exit
    await until('its time is over', () => Date.now() > Date.parse(run.sandbox.retainedUntil ?? ''))
    system.startWorker(worker.dataDir)
    await until('its sandbox is gone', () => !existsSync(folder))
  })

  story('its branch is unique, even for tickets with similar names', async () => {
    const system = await startSystem()
    const names = ['ENG-7', 'eng-7', 'Eng 7', 'ENG_7']
    for (const name of names) system.writeTicket(name, ['write a.txt', `  ${name}`, 'commit A'])
    const runs = await Promise.all(names.map((name) => system.waitForEnd(name)))
    const branches = runs.map(({ result }) => result?.branch ?? '')
    expect(new Set(branches).size).toBe(names.length)
    expect(branches[0]).toBe('switchyard/eng-7')
    expect([...branches].sort()).toEqual(system.branches('plain'))
    expect(branches.map((branch) => system.git('plain', 'show', `${branch}:a.txt`))).toEqual(names)
    expect(system.pulls('plain')).toHaveLength(names.length)
  })
})
