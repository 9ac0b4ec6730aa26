/**
 * WorkingSystem is a host with one worker as people run them: tickets and code in folders, and the scripted agent.
 *
 * A bench writes a ticket and reads the results from the host and from the run's own folder.
 */
import { chmodSync, mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoredConfig } from '../protocol/config.ts'
import type { Run, RunEvent } from '../protocol/run.ts'
import type { FleetResponse } from '../protocol/worker.ts'
import { type BenchProcess, type BenchResources, waitForSuccess } from './bench-resources.ts'
import { NODE_ARGS, type ServedHost, startHost } from './served-host.ts'

const POLL_EVERY_MS = 25
const RUN_WAIT_MS_MAX = 120_000
/** Number of files in a small repository. */
const FILE_COUNT = 100
const FILE_LINES = 100

export interface WorkingSystemOptions {
  /** A shell command that replaces the agent inside the sandbox. */
  readonly agent?: string
}

export class WorkingSystem {
  readonly served: ServedHost
  readonly worker: BenchProcess
  readonly sandboxes: string
  /** The bare repository of all runs. */
  readonly repository: string
  readonly folder: string
  readonly #resources: BenchResources
  #tickets = 0

  private constructor(resources: BenchResources, folder: string, served: ServedHost, worker: BenchProcess) {
    this.#resources = resources
    this.folder = folder
    this.served = served
    this.worker = worker
    this.sandboxes = join(folder, 'sandboxes')
    this.repository = repositoryIn(folder)
  }

  static async start(
    resources: BenchResources,
    { agent = 'scripted-agent' }: WorkingSystemOptions = {},
  ): Promise<WorkingSystem> {
    const folder = resources.createFolder('working')
    // Sandboxes run as users of their own and must reach their folders.
    chmodSync(folder, 0o711)
    for (const name of ['host', 'tickets', 'code', 'sandboxes'])
      mkdirSync(join(folder, name), { mode: 0o700 })
    chmodSync(join(folder, 'sandboxes'), 0o711)
    await makeRepository(resources, folder)
    const served = await startHost(resources, join(folder, 'host'), configFor(folder, agent))
    const worker = await startWorker(resources, folder, served, 'worker')
    return new WorkingSystem(resources, folder, served, worker)
  }

  /** Starts one more worker, which has its own data directory and shares the folder of the sandboxes. */
  addWorker(name: string): Promise<BenchProcess> {
    return startWorker(this.#resources, this.folder, this.served, name)
  }

  /** Returns the ticket's name. `lines` are commands for the scripted agent. */
  addTicket(lines: readonly string[]): string {
    this.#tickets += 1
    const name = `B-${this.#tickets}`
    const head = ['---', `identifier: ${name}`, `title: Number ${this.#tickets}`, 'state: Todo', '---']
    const draft = join(this.folder, 'draft')
    writeFileSync(draft, [...head, 'Please.', '```switchyard', ...lines, '```', ''].join('\n'))
    renameSync(draft, join(this.folder, 'tickets', `${name}.md`))
    return name
  }

  /** @param everyMs how often the host is asked, which costs it processor time */
  async waitForEnd(ticket: string, everyMs = POLL_EVERY_MS): Promise<Run> {
    const until = performance.now() + RUN_WAIT_MS_MAX
    for (;;) {
      const run = (await this.runs()).find((each) => each.ticket.identifier === ticket)
      if (run?.finishedAt !== undefined) return run
      if (performance.now() > until) throw new Error(`${ticket} did not end: ${JSON.stringify(run)}`)
      await sleep(everyMs)
    }
  }

  async waitForCompletion(ticket: string, everyMs?: number): Promise<Run> {
    const run = await this.waitForEnd(ticket, everyMs)
    if (run.status !== 'completed') throw new Error(`${ticket} is ${run.status}: ${run.error}`)
    return run
  }

  async runs(limit = 20): Promise<readonly Run[]> {
    return (await this.request(`/api/runs?limit=${limit}`)) as Run[]
  }

  async events({ id }: Run): Promise<readonly RunEvent[]> {
    return (await this.request(`/api/runs/${id}/events`)) as RunEvent[]
  }

  /** The worker's folder for sandboxes and copies, named after its data directory. */
  workerFolder(): string {
    return join(this.sandboxes, onlyEntryIn(this.sandboxes))
  }

  /** The run's folder, which is kept after its end. */
  runFolder({ id }: Run): string {
    return join(this.workerFolder(), 'sandboxes', id)
  }

  /** The worker's own copy of the repository. */
  cachedRepository(): string {
    const copies = join(this.workerFolder(), 'sources', 'repositories')
    return join(copies, onlyEntryIn(copies))
  }

  request(path: string, method = 'GET'): Promise<unknown> {
    return requestJson(this.served, path, method)
  }

  async stop(): Promise<void> {
    await this.worker.stop()
    await this.served.child.stop()
    this.#resources.removeFolder(this.folder)
  }
}

function onlyEntryIn(folder: string): string {
  const [name, ...more] = readdirSync(folder)
  if (name === undefined || more.length > 0) throw new Error(`${folder} must contain exactly one entry`)
  return name
}

async function requestJson({ port, token }: ServedHost, path: string, method = 'GET'): Promise<unknown> {
  const headers = { authorization: `Bearer ${token}` }
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

function configFor(folder: string, agent: string): StoredConfig {
  return {
    worker: { local: false },
    sandbox: { network: 'none', concurrency: 1 },
    agent: { commands: { agentA: agent }, agentAApiKey: 'no-key' },
    tracker: { driver: 'local', path: join(folder, 'tickets') },
    codehost: { driver: 'local', path: join(folder, 'code') },
    repos: { main: { remote: 'owner/name' } },
  }
}

async function startWorker(
  resources: BenchResources,
  folder: string,
  served: ServedHost,
  name: string,
): Promise<BenchProcess> {
  const { token } = (await requestJson(served, '/api/workers/pairing-tokens', 'POST')) as { token: string }
  const tokenFile = join(folder, `token-of-${name}`)
  writeFileSync(tokenFile, token, { mode: 0o600 })
  const program = join(resources.root, 'dist', 'bin', 'switchyard.js')
  const url = `http://127.0.0.1:${served.port}`
  const dataArgs = ['--data-dir', join(folder, name), '--name', name, '--token-file', tokenFile]
  const workerArgs = ['--concurrency', '1', '--log-level', 'warn', '--local-repos', join(folder, 'code')]
  const env = { ...process.env, SWITCHYARD_SANDBOX_DIR: join(folder, 'sandboxes') }
  const worker = resources.start(
    process.execPath,
    [...NODE_ARGS, program, 'worker', '--host', url, ...dataArgs, ...workerArgs],
    env,
  )
  const ended = worker.ended.then(() => worker.readLine())
  for (;;) {
    const { workers } = (await Promise.race([requestJson(served, '/api/workers'), ended])) as FleetResponse
    if (workers.some((each) => each.name === name && each.connection === 'online')) return worker
    await sleep(POLL_EVERY_MS)
  }
}

// ---- the repository --------------------------------------------------------------------------------------------

const repositoryIn = (folder: string): string => join(folder, 'code', 'owner', 'name.git')

async function makeRepository(resources: BenchResources, folder: string): Promise<void> {
  const draft = join(folder, 'draft-repository')
  mkdirSync(draft)
  for (let at = 0; at < FILE_COUNT; at++) writeFileSync(join(draft, `file-${at}.txt`), fileContent(at))
  const as = ['-c', 'user.name=Ada Example', '-c', 'user.email=ada@example.org']
  await git(resources, 'init', '--quiet', '--initial-branch=main', draft)
  await git(resources, '-C', draft, 'add', '--all')
  await git(resources, '-C', draft, ...as, 'commit', '--quiet', '--message', 'Begin')
  await git(resources, 'clone', '--quiet', '--bare', '--template=', draft, repositoryIn(folder))
  await git(resources, '-C', repositoryIn(folder), 'gc', '--quiet')
}

function fileContent(file: number): string {
  return Array.from(
    { length: FILE_LINES },
    (_, line) => `file ${file}, line ${line}, ${(file * line) % 977}\n`,
  ).join('')
}

export function git(resources: BenchResources, ...args: readonly string[]): Promise<void> {
  return waitForSuccess(resources.start('/usr/bin/git', args), `git ${args[0]}`)
}
