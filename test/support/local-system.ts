/**
 * A system of real processes: a host, workers, a folder of tickets, a local code host with real repositories, and the
 * scripted agent in real sandboxes.
 *
 * Each phase of a run has a gate that the test opens: the repository `slow-setup` waits in its setup, an agent waits at
 * `run GATE`, and `slow-push` delays a push. No test sleeps in order to act in time.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  closeSync,
  constants,
  cpSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { REGISTERED_MESSAGE } from '../../actors/daemon/host-connection.ts'
import type { KeptPull } from '../../protocol/pulls.ts'
import type { Run, RunEvent } from '../../protocol/run.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import { type CommandProcess, runCommand, sandboxFolder, serve } from './command-process.ts'
import { freePort } from './free-ports.ts'
import { createRepository, git } from './git.ts'
import { tempFolder } from './temp-folder.ts'
import { UNTIL_MS_MAX, until } from './until.ts'

/** Secrets that may stand only in the configuration. */
export const SECRETS = {
  codehost: 'planted-codehost-token-4711',
  agent: 'planted-agent-key-4712',
} as const

/** A step of a ticket's script: the agent waits until the test opens the gate. */
export const GATE = 'while [ ! -e /out/go ]; do sleep 0.05; done'
/** Patterns for `grep -E`: secrets of the configuration, pairing tokens and credentials. */
const SECRET_PATTERNS = [...Object.values(SECRETS), 'w[cp]-[A-Za-z0-9_-]{43}']
const FILES_WITH_SECRETS = ['config.json', 'credential.json']
/** The longest wait for a state of a run. */
const RUN_MS_MAX = 3 * UNTIL_MS_MAX
/** Scanning all processes of a machine is expensive. */
const SCAN_EVERY_MS = 50
/** A host that is polled without a pause does little else. */
const POLL_EVERY_MS = 20

export type RepoName = 'plain' | 'slow-setup' | 'slow-push'
const REPOS: readonly RepoName[] = ['plain', 'slow-setup', 'slow-push']

export interface LocalSystemOptions {
  /** Whether the host starts its local worker; otherwise the test starts workers. */
  readonly local?: boolean
  readonly fleet?: object
  readonly sandbox?: object
  readonly agent?: object
  readonly concurrency?: number
  readonly tracker?: object
  readonly policy?: object
  /** Replaces the local code host. */
  readonly codehost?: object
  /** Additional repositories. */
  readonly repos?: object
  /** What git of the test's workers may reach; absent: this system's repositories. */
  readonly reach?: readonly string[]
  /** Additional arguments of the host. */
  readonly hostArgs?: readonly string[]
  /** Additional environment variables of the first host. */
  readonly hostEnv?: NodeJS.ProcessEnv
  /** Additional environment variables of workers. */
  readonly workerEnv?: NodeJS.ProcessEnv
  /** Returns additional environment variables of every process. Called before the first start. */
  readonly beforeStart?: (system: LocalSystem) => NodeJS.ProcessEnv
}

export interface TicketOptions {
  readonly repo?: string
  readonly title?: string
  readonly state?: string
  readonly front?: readonly string[]
}

export class LocalSystem {
  readonly folder = tempFolder()
  readonly dataDir = this.#makeFolder('host')
  readonly tickets = this.#makeFolder('tickets')
  readonly code = this.#makeFolder('code')
  readonly #options: LocalSystemOptions
  #fleetPort = 0
  #host: CommandProcess | undefined
  #env: NodeJS.ProcessEnv = {}
  #workers = 0

  private constructor(options: LocalSystemOptions) {
    this.#options = options
  }

  static async open(options: LocalSystemOptions = {}): Promise<LocalSystem> {
    const system = new LocalSystem(options)
    for (const name of REPOS) system.#makeRepo(name)
    system.#fleetPort = await freePort()
    writeFileSync(join(system.dataDir, 'config.json'), JSON.stringify(system.#config(await freePort())), {
      mode: 0o600,
    })
    system.#env = options.beforeStart?.(system) ?? {}
    await system.startHost(options.hostEnv)
    return system
  }

  // ---- processes -------------------------------------------------------------------------------------------------

  get host(): CommandProcess {
    if (this.#host === undefined) throw new Error('no host was started')
    return this.#host
  }

  get fleetPort(): number {
    return this.#fleetPort
  }

  async startHost(env: NodeJS.ProcessEnv = {}): Promise<CommandProcess> {
    this.#host = serve(this.dataDir, ['--log-level', 'debug', ...(this.#options.hostArgs ?? [])], {
      ...this.#env,
      ...env,
    })
    await this.#host.waitForLaunch()
    return this.#host
  }

  /** From now on the tests ask a host that somebody else started on the same data directory. */
  async useHost(host: CommandProcess): Promise<void> {
    this.#host = host
    await host.waitForLaunch()
  }

  /** Starts a new worker with its own pairing token. */
  async pairWorker(args: readonly string[] = [], url?: string): Promise<CommandProcess> {
    this.#workers += 1
    const dataDir = join(this.folder, `worker${this.#workers}`)
    const { body } = await this.host.request('/api/workers/pairing-tokens', { method: 'POST' })
    const tokenFile = join(this.folder, `token${this.#workers}`)
    writeFileSync(tokenFile, (body as { token: string }).token, { mode: 0o600 })
    const worker = this.startWorker(dataDir, ['--token-file', tokenFile, ...args], url)
    await until('the worker is registered', () => worker.err().includes(REGISTERED_MESSAGE))
    await until(
      'the token is redeemed and deleted',
      () => !namesIn(this.folder).includes(basename(tokenFile)),
    )
    return worker
  }

  /** Starts a worker that is registered already or has a token among its arguments. */
  startWorker(
    dataDir: string,
    args: readonly string[] = [],
    url = `http://127.0.0.1:${this.#fleetPort}`,
    before: readonly string[] = [],
  ): CommandProcess {
    const concurrency = ['--concurrency', String(this.#options.concurrency ?? 4)]
    const always = ['worker', '--host', url, '--data-dir', dataDir, '--log-level', 'debug']
    const ownReach = [`--local-repos=${this.code}`, ...privateCodeHosts(this.#options.codehost)]
    const { reach = ownReach } = this.#options
    const words = [...always, ...concurrency, ...reach, ...args]
    return runCommand(words, dataDir, { ...this.#env, ...this.#options.workerEnv }, undefined, before)
  }

  async waitForOnlineWorkers(count: number, ms?: number): Promise<void> {
    const areThere = async () => {
      const { body } = await this.host.request('/api/workers')
      const { workers } = body as FleetResponse
      return workers.filter(({ connection }) => connection === 'online').length === count
    }
    await until(`${count} workers online`, areThere, ms)
  }

  // ---- tickets and runs ------------------------------------------------------------------------------------------

  /** Writes a ticket whose lines the scripted agent executes. */
  writeTicket(identifier: string, lines: readonly string[], options: TicketOptions = {}): void {
    const { repo = 'plain', title = `About ${identifier}`, state = 'Todo', front = [] } = options
    const head = [
      '---',
      `identifier: ${identifier}`,
      `title: ${title}`,
      `state: ${state}`,
      `repo: ${repo}`,
      ...front,
    ]
    const text = [...head, '---', 'Please.', '```switchyard', ...lines, '```', ''].join('\n')
    writeFileSync(join(this.tickets, `${identifier}.md`), text)
  }

  /** Returns undefined while the host does not know the ticket or does not answer. */
  async findRun(identifier: string): Promise<Run | undefined> {
    const answer = await this.host.request('/api/runs?limit=1000').catch(() => undefined)
    const runs = Array.isArray(answer?.body) ? (answer.body as Run[]) : []
    return runs.find(({ ticket }) => ticket.identifier === identifier)
  }

  async waitForRun(
    identifier: string,
    what: string,
    isSo: (run: Run) => boolean,
    ms = RUN_MS_MAX,
  ): Promise<Run> {
    let seen: Run | undefined
    const check = async () => {
      seen = await this.findRun(identifier)
      return seen !== undefined && isSo(seen)
    }
    await until(`${identifier} is ${what}`, check, ms, POLL_EVERY_MS).catch((error) => {
      const { ticket: _, ...rest } = seen ?? { ticket: undefined }
      throw new Error(`${error.message}\n${JSON.stringify(rest)}\n${this.host.err().slice(-4_000)}`)
    })
    return seen as Run
  }

  waitForStatus(identifier: string, status: Run['status']): Promise<Run> {
    return this.waitForRun(identifier, status, (run) => run.status === status)
  }

  /** Right after its end the code host may not have been asked about the run's pull request yet. */
  async waitForEnd(identifier: string, ms?: number): Promise<Run> {
    const run = await this.waitForRun(identifier, 'over', (found) => isOver(found), ms)
    if (run.prUrl === undefined || run.prState !== undefined) return run
    const isKnown = ({ prState }: Run): boolean => prState !== undefined
    return this.waitForRun(identifier, 'confirmed', isKnown, CONFIRMED_WITHIN_MS).catch(() => run)
  }

  async events(run: Run): Promise<RunEvent[]> {
    return (await this.host.request(`/api/runs/${run.id}/events`)).body as RunEvent[]
  }

  // ---- gates -----------------------------------------------------------------------------------------------------

  /** Opens the gates inside this run's sandbox. */
  openGates(run: Run): void {
    for (const place of this.#sandboxesOf(run.id)) openSandboxGate(place)
  }

  /** Waits until the run's setup or agent is at its gate. */
  async waitForGate(run: Run): Promise<void> {
    const isThere = () => this.hasProcess(run, '/out/go')
    await until(`${run.ticket.identifier} is at its gate`, isThere, RUN_MS_MAX, SCAN_EVERY_MS)
  }

  /** Whether the run's sandbox has a process whose command line contains the text. */
  hasProcess(run: Run, what: string): boolean {
    return pids().some((pid) => commandOf(pid).includes(what) && belongsTo(run.id, pid))
  }

  openPushGate(): void {
    const [pipe, open] = [`${this.#pushGate}.pipe`, `${this.#pushGate}.open`]
    writeFileSync(open, '')
    renameSync(open, this.#pushGate)
    try {
      // Pushes that are held at the pipe read its end.
      closeSync(openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error
    }
  }

  /** Waits until a push is held at the gate. */
  async waitForPush(): Promise<void> {
    await until('a push waits', () => this.#heldPushes().length > 0, RUN_MS_MAX, SCAN_EVERY_MS)
  }

  // ---- outcomes -------------------------------------------------------------------------------------------

  bareRepoPath(repo: RepoName): string {
    return join(this.code, 'acme', `${repo}.git`)
  }

  git(repo: RepoName, ...args: readonly string[]): string {
    return git(this.bareRepoPath(repo), ...args)
  }

  branches(repo: RepoName): string[] {
    const listed = this.git(repo, 'branch', '--format=%(refname:short)').split('\n')
    return listed.filter((name) => name !== 'main' && name !== '')
  }

  /** Returns the subjects of the branch's commits since `main`, newest first. */
  commits(repo: RepoName, branch: string): string[] {
    return this.git(repo, 'log', '--format=%s', `main..${branch}`).split('\n').filter(Boolean)
  }

  /** Returns the ref of every accepted push, from the log of each branch. */
  pushes(repo: RepoName): string[] {
    const refs = this.git(repo, 'for-each-ref', '--format=%(refname)', 'refs/heads').split('\n')
    return refs.flatMap((ref) => linesOf(join(this.bareRepoPath(repo), 'logs', ref)).map(() => ref))
  }

  pulls(repo: RepoName): KeptPull[] {
    const folder = join(this.code, 'acme', `${repo}.pulls`)
    return namesIn(folder)
      .filter((name) => /^\d+\.json$/.test(name))
      .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as KeptPull)
  }

  /** Waits until no process of a sandbox or of a push is left. */
  async waitForNoProcesses(ms?: number): Promise<void> {
    const isEmpty = () => this.#processes().length === 0
    await until('no process is left', isEmpty, ms, SCAN_EVERY_MS).catch((error) => {
      throw new Error(`${error.message}\n${this.#processes().join('\n')}`)
    })
  }

  /** Whether no sandbox below the folder has a process. */
  hasNoProcesses(folder: string): boolean {
    return !pids().some((pid) => belongsTo(folder, pid))
  }

  /** Reads each process once for all sandboxes, whose number grows with every test of a file. */
  #processes(): string[] {
    const places = namesIn(sandboxFolder()).map((name) => join(sandboxFolder(), name))
    const inside = pids().filter((pid) => {
      const text = textAbout(pid)
      return places.some((place) => text.includes(place))
    })
    return [...inside, ...this.#heldPushes()].map((pid) => `${pid} ${commandOf(pid)}`)
  }

  /** Returns the files that contain a secret although they must not. */
  findLeaks(): string[] {
    const found = filesWith(SECRET_PATTERNS, [this.folder, sandboxFolder()])
    return found.filter((path) => !FILES_WITH_SECRETS.includes(basename(path)))
  }

  /** Returns the folder of a run's sandbox, on whichever worker it was executed. */
  sandboxOf(run: Run): string | undefined {
    return this.#sandboxesOf(run.id)[0]
  }

  // ---- helpers ------------------------------------------------------------------------------------------------

  #makeFolder(name: string): string {
    const folder = join(this.folder, name)
    mkdirSync(folder, { mode: 0o700 })
    return folder
  }

  #config(port: number) {
    const { local = false, fleet = {}, sandbox = {}, agent = {}, concurrency = 4 } = this.#options
    const folder = { driver: 'local', path: this.code, token: SECRETS.codehost }
    const { tracker, codehost = folder, repos, policy = {} } = this.#options
    return {
      server: { port },
      fleet: { host: '127.0.0.1', port: this.#fleetPort, ...fleet },
      worker: { local },
      sandbox: { network: 'none', concurrency, ...sandbox },
      agent: { commands: { agentA: 'scripted-agent' }, agentAApiKey: SECRETS.agent, ...agent },
      tracker: { driver: 'local', path: this.tickets, pollSeconds: 1, ...tracker },
      codehost,
      policy,
      repos: {
        plain: { remote: 'acme/plain' },
        'slow-setup': { remote: 'acme/slow-setup', setup: GATE },
        'slow-push': { remote: 'acme/slow-push' },
        ...repos,
      },
    }
  }

  #makeRepo(name: RepoName): void {
    cpSync(templateOf(name), this.bareRepoPath(name), { recursive: true })
    if (name === 'slow-push') this.#holdPushes(name)
  }

  /** Git reads a list of exceptions before it takes a push; the list is a pipe. Workers run no hooks of a repository. */
  #holdPushes(name: RepoName): void {
    execFileSync('mkfifo', [this.#pushGate])
    linkSync(this.#pushGate, `${this.#pushGate}.pipe`)
    const settings = `[receive]\n\tfsckObjects = true\n[receive "fsck"]\n\tskipList = ${this.#pushGate}\n`
    appendFileSync(join(this.bareRepoPath(name), 'config'), settings)
  }

  get #pushGate(): string {
    return join(this.folder, 'push-gate')
  }

  #sandboxesOf(runId: string): string[] {
    return namesIn(sandboxFolder())
      .map((name) => join(sandboxFolder(), name, 'sandboxes'))
      .filter((folder) => namesIn(folder).includes(runId))
      .map((folder) => join(folder, runId))
  }

  #heldPushes(): number[] {
    return pids().filter((pid) => commandOf(pid).includes(`skiplist=${this.#pushGate}`))
  }
}

/** A fake code host listens on loopback, which workers must be told. */
function privateCodeHosts(codehost: object = {}): string[] {
  const { apiUrl } = codehost as { readonly apiUrl?: string }
  return apiUrl === undefined ? [] : [`--private-code-host=${new URL(apiUrl).host}`]
}

const templates = new Map<RepoName, string>()

/** Creates the bare repository once for all systems of a test file, because it costs five git processes. */
function templateOf(name: RepoName): string {
  const known = templates.get(name)
  if (known !== undefined) return known
  const [work, bare] = [tempFolder(), join(tempFolder(), 'bare')]
  createRepository(work, { Begin: { 'README.md': `# ${name}\n` } })
  git(work, 'clone', '--quiet', '--bare', '--template=', work, bare)
  git(bare, 'config', 'core.logAllRefUpdates', 'always')
  templates.set(name, bare)
  return bare
}

/** Opens the gate of a sandbox; does nothing when the sandbox is being deleted. */
export function openSandboxGate(place: string): void {
  try {
    writeFileSync(join(place, 'out', 'go'), '')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

/** The agent has said something and called its first tool, so its first answer is complete. */
export const hasAnswered = (events: readonly RunEvent[]): boolean =>
  events.filter((event) => event.type === 'agent' && event.message.type === 'assistant').length >= 2

/** Returns a comment that asks the scripted agent to run these steps. */
export const agentRequest = (...lines: readonly string[]): string =>
  ['Please:', '```switchyard', ...lines, '```'].join('\n')

/** A code host that can't be asked never confirms anything. */
const CONFIRMED_WITHIN_MS = 10_000

export const isOver = ({ status }: Run): boolean => ['completed', 'failed', 'cancelled'].includes(status)

// ---- processes and files -------------------------------------------------------------------------------------------------

const pids = (): number[] => readdirSync('/proc').map(Number).filter(Number.isInteger)
/** The mounts of a process, or its command line, show to which folder it belongs. */
const textAbout = (pid: number): string => `${textOf(`/proc/${pid}/mountinfo`)}${commandOf(pid)}`
const belongsTo = (place: string, pid: number): boolean => textAbout(pid).includes(place)
const commandOf = (pid: number): string => textOf(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()

/** Returns '' when the file does not exist. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

const linesOf = (path: string): string[] => textOf(path).split('\n').filter(Boolean)

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** The patterns are ASCII; decoding every file for another locale costs several times as much as the search. */
function filesWith(patterns: readonly string[], folders: readonly string[]): string[] {
  const args = ['-rlaE', ...patterns.map((pattern) => `--regexp=${pattern}`), '--', ...folders]
  const env = { ...process.env, LC_ALL: 'C' }
  const { stdout } = spawnSync('grep', args, { encoding: 'utf8', env })
  return stdout.split('\n').filter(Boolean)
}
