/**
 * A run that lacks an agent, a credential or its repository waits with the cure as reason, and goes on by itself. Real
 * hosts, workers, sandboxes and git; the agent is a shell script on the worker's PATH.
 */
import { chmodSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import type { AttentionItem, AttentionResponse } from '../../protocol/attention.ts'
import type { ExplainResponse, Gate } from '../../protocol/explain.ts'
import type { Run } from '../../protocol/run.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import { keepForFile } from '../support/command-process.ts'
import { LocalSystem } from '../support/local-system.ts'
import { removeTestFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 180_000
const GOOD_KEY = 'planted-good-key-4713'

function story(title: string, body: () => Promise<void>): void {
  test(title, body, TEST_MS_MAX)
}

const folders: string[] = []

afterAll(async () => {
  for (const folder of folders.splice(0)) await removeTestFolder(folder)
})

/** A folder for the PATH that every sandbox user can enter; sandboxes have a /tmp of their own. */
function createProgramFolder(): string {
  const folder = mkdtempSync('/var/tmp/switchyard-agent-')
  chmodSync(folder, 0o755)
  folders.push(folder)
  return folder
}

const pathWith = (folder: string): string => `${folder}:/usr/local/bin:/usr/bin:/bin`

const RESULT = {
  type: 'result',
  session_id: 'a4f0e6a2-3c1d-4f0e-9c55-0f6c1e1f0001',
  total_cost_usd: 0,
  usage: { input_tokens: 0, output_tokens: 0 },
}
const DONE = JSON.stringify({ ...RESULT, subtype: 'success', is_error: false, result: 'Done.' })
const REFUSED = JSON.stringify({
  ...RESULT,
  subtype: 'success',
  is_error: true,
  result: 'Invalid API key · Fix external API key',
  api_error_status: 401,
})

/** The agent's program: it works with the good key only. */
function installAgent(folder: string): void {
  const script = [
    '#!/bin/sh',
    'cat > /dev/null',
    `if [ "$ANTHROPIC_API_KEY" = ${GOOD_KEY} ]; then echo changed > /work/changed; echo '${DONE}'; exit 0; fi`,
    `echo '${REFUSED}'`,
    'exit 1',
  ]
  const draft = join(folder, 'draft')
  writeFileSync(draft, `${script.join('\n')}\n`)
  chmodSync(draft, 0o755)
  renameSync(draft, join(folder, 'claude'))
}

async function openSystem(options: {
  readonly folder?: string
  readonly key: string
  readonly repos?: object
  readonly concurrency?: number
}): Promise<LocalSystem> {
  const { folder = createProgramFolder(), key, repos = {}, concurrency = 4 } = options
  return LocalSystem.open({
    // The script compares the key itself, which is outside the sandbox by default.
    agent: { commands: {}, agentAApiKey: key, keyInSandbox: true },
    workerEnv: { PATH: pathWith(folder) },
    repos,
    concurrency,
  })
}

let ready: Promise<LocalSystem> | undefined
/** A system with a worker and the good key, for all stories that leave it in order. */
function readySystem(): Promise<LocalSystem> {
  const open = async (): Promise<LocalSystem> => {
    const folder = createProgramFolder()
    installAgent(folder)
    const system = await openSystem({ folder, key: GOOD_KEY, repos: { wrong: { remote: 'acme/absent' } } })
    keepForFile(system.host)
    keepForFile(await system.pairWorker())
    return system
  }
  ready ??= open()
  return ready
}

/** Edits the configuration by hand, as people do. */
function editConfig({ dataDir }: LocalSystem, section: string, more: object): void {
  const path = join(dataDir, 'config.json')
  const config = JSON.parse(readFileSync(path, 'utf8'))
  config[section] = { ...config[section], ...more }
  const draft = `${path}.edited`
  writeFileSync(draft, JSON.stringify(config), { mode: 0o600 })
  renameSync(draft, path)
}

const waitForReason = (system: LocalSystem, identifier: string, reason: RegExp): Promise<Run> =>
  system.waitForRun(
    identifier,
    `queued because of ${reason}`,
    ({ status, queueReason = '' }) => status === 'queued' && reason.test(queueReason),
  )

/** The gates of a ticket that do not pass. */
async function closedGates(system: LocalSystem, identifier: string): Promise<Gate[]> {
  const { body } = await system.host.request(`/api/tickets/${identifier}/explain`)
  return (body as ExplainResponse).gates.filter(({ status }) => status !== 'pass')
}

async function attention(system: LocalSystem): Promise<AttentionItem[]> {
  const { body } = await system.host.request('/api/attention')
  return (body as AttentionResponse).items
}

/** How many times workers have accepted the run. */
async function countStarts(system: LocalSystem, run: Run): Promise<number> {
  const events = await system.events(run)
  return events.filter((event) => event.type === 'status' && event.to === 'preparing').length
}

story('a run waits for its agent, and goes on once the agent is installed', async () => {
  const folder = createProgramFolder()
  const system = await openSystem({ folder, key: GOOD_KEY })
  await system.pairWorker()
  system.writeTicket('WAITS', [])
  const waiting = await waitForReason(
    system,
    'WAITS',
    /^no worker has agentA: claude is not installed; install it with: /,
  )
  expect(await countStarts(system, waiting)).toBe(0)
  expect(await closedGates(system, 'WAITS')).toMatchObject([{ id: 'workers', status: 'stop' }])

  installAgent(folder)
  expect(await system.waitForEnd('WAITS')).toMatchObject({ status: 'completed' })
  expect(await closedGates(system, 'WAITS')).toMatchObject([{ id: 'duplicate' }])
  const { workers } = (await system.host.request('/api/workers')).body as FleetResponse
  expect(workers[0]?.capabilities?.agents).toMatchObject({ agentA: { found: true } })

  rmSync(join(folder, 'claude'))
  system.writeTicket('LATER', [])
  await waitForReason(system, 'LATER', /^no worker has agentA: /)
})

story('a run waits for a missing credential, and goes on once it is set', async () => {
  const folder = createProgramFolder()
  installAgent(folder)
  const system = await openSystem({ folder, key: '' })
  await system.pairWorker()
  system.writeTicket('KEYLESS', [])
  const waiting = await waitForReason(system, 'KEYLESS', /^credential of agentA is missing: /)
  expect(await countStarts(system, waiting)).toBe(0)
  editConfig(system, 'agent', { agentAApiKey: GOOD_KEY })
  expect(await system.waitForEnd('KEYLESS')).toMatchObject({ status: 'completed' })
})

story('a refused key holds every run that needs it back, and a new key lets them run', async () => {
  const folder = createProgramFolder()
  installAgent(folder)
  const system = await openSystem({ folder, key: 'planted-dead-key-4714', concurrency: 1 })
  await system.pairWorker()
  for (const identifier of ['FIRST', 'SECOND', 'THIRD']) system.writeTicket(identifier, [])
  const refused = /^credential of agentA is refused: .*agent\.agentAApiKey.*Invalid API key/
  const runs: Run[] = []
  for (const identifier of ['FIRST', 'SECOND', 'THIRD'])
    runs.push(await waitForReason(system, identifier, refused))
  const starts = await Promise.all(runs.map((run) => countStarts(system, run)))
  expect(starts.reduce((sum, count) => sum + count)).toBe(1)
  expect(await closedGates(system, 'THIRD')).toMatchObject([
    { id: 'credential', status: 'stop', cure: 'switchyard connect agentA' },
  ])
  expect(await attention(system)).toMatchObject([{ kind: 'login', cure: 'switchyard connect agentA' }])

  editConfig(system, 'agent', { agentAApiKey: GOOD_KEY })
  for (const identifier of ['FIRST', 'SECOND', 'THIRD'])
    expect(await system.waitForEnd(identifier)).toMatchObject({ status: 'completed' })
  await until('the reviews', async () => {
    const items = await attention(system)
    return items.length === 3 && items.every(({ kind }) => kind === 'review')
  })
})

story('a wrong remote holds its runs back, and the corrected one lets them run', async () => {
  const system = await readySystem()
  system.writeTicket('ASTRAY', [], { repo: 'wrong' })
  const waiting = await waitForReason(system, 'ASTRAY', /^acme\/absent can't be read: /)
  system.writeTicket('RIGHT', [])
  expect(await system.waitForEnd('RIGHT')).toMatchObject({ status: 'completed' })
  expect(await countStarts(system, waiting)).toBe(1)

  expect(await system.host.request(`/api/runs/${waiting.id}/retry`, { method: 'POST' })).toMatchObject({
    status: 200,
  })
  await until('the run was tried once more', async () => (await countStarts(system, waiting)) === 2)
  await waitForReason(system, 'ASTRAY', /^acme\/absent can't be read: /)

  editConfig(system, 'repos', { wrong: { remote: 'acme/plain' } })
  expect(await system.waitForEnd('ASTRAY')).toMatchObject({ status: 'completed' })
})

story(
  'a wrong address of the code host is a reason with its cure, and the corrected one lets the run go on',
  async () => {
    const folder = createProgramFolder()
    installAgent(folder)
    const system = await openSystem({ folder, key: GOOD_KEY })
    const wrong = { driver: 'github', apiUrl: 'https://git.example/api/v3?x=1', token: 'planted-token-4715' }
    editConfig(system, 'codehost', wrong)
    await system.pairWorker()
    system.writeTicket('LOST', [])
    const cure = /^acme\/plain can't be read: codehost\.apiUrl must end with a path; leave out \? and #/
    const waiting = await waitForReason(system, 'LOST', cure)
    const { body } = await system.host.request(`/api/runs/${waiting.id}/placement`)
    expect(body).toMatchObject({ reason: waiting.queueReason, workers: [{ reason: waiting.queueReason }] })
    editConfig(system, 'codehost', { driver: 'local', apiUrl: undefined, token: undefined })
    expect(await system.waitForEnd('LOST')).toMatchObject({ status: 'completed' })
  },
)

story('an eligible ticket without a repository has a queued run with its reason', async () => {
  const system = await readySystem()
  system.writeTicket('NOWHERE', [], { repo: 'none' })
  await waitForReason(system, 'NOWHERE', /^no repository is for NOWHERE: /)
  editConfig(system, 'repos', { none: { remote: 'acme/plain' } })
  expect(await system.waitForEnd('NOWHERE')).toMatchObject({ status: 'completed' })
})

story('a `repo` that is corrected in the file of a waiting ticket lets its run go on', async () => {
  const system = await readySystem()
  system.writeTicket('TYPO', [], { repo: 'plian' })
  const waiting = await waitForReason(system, 'TYPO', /^no repository is for TYPO: /)
  system.writeTicket('TYPO', [])
  expect(await system.waitForEnd('TYPO')).toMatchObject({ id: waiting.id, status: 'completed' })

  system.writeTicket('ASLEEP', [], { repo: 'plian' })
  const asleep = await waitForReason(system, 'ASLEEP', /^no repository is for ASLEEP: /)
  system.host.process.kill('SIGTERM')
  expect(await system.host.exit).toBe(0)
  system.writeTicket('ASLEEP', [])
  keepForFile(await system.startHost())
  expect(await system.waitForEnd('ASLEEP')).toMatchObject({ id: asleep.id, status: 'completed' })
})
