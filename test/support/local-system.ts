/**
 * A whole yard of real processes: a host, workers, a folder of tickets, a code host with real repositories, and the
 * scripted agent in real sandboxes.
 *
 * Each phase of a run has a gate, so that a test can do something to the yard in the middle of it: the repository
 * `slow-setup` stays in its setup, a ticket's agent stays where its block says `run GATE`, and `slow-push` does not take
 * a push, until the test lets them pass. Nothing here sleeps in order to be in time.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { KeptPull } from '../../protocol/pulls.ts'
import type { Run, RunEvent } from '../../protocol/run.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import { freePort } from './free-ports.ts'
import { tempFolder, until } from './real-files.ts'
import { run, type Served, sandboxFolder, serve } from './serve.ts'

/** In nobody's place but the configuration's. */
export const SECRETS = {
  codehost: 'planted-codehost-token-4711',
  agent: 'planted-agent-key-4712',
} as const

/** For a ticket's block: the agent goes on when the test says so. */
export const GATE = 'while [ ! -e /out/go ]; do sleep 0.05; done'
/** As `grep -E` takes them: those of the configuration, tokens, credentials. */
const SECRET_FORMS = [...Object.values(SECRETS), 'w[cp]-[A-Za-z0-9_-]{43}']
const MEANT_FOR_THEM = ['config.json', 'credential.json']
/** Longer than a test waits for anything; then whatever is held at a gate goes home by itself. */
const RUN_MS_MAX = 120_000
/** Asking all processes of a machine is dear. */
const LOOK_EVERY_MS = 50
/** A host that is asked without a pause does little else. */
const ASK_EVERY_MS = 20

const GIT_ENV = {
  PATH: process.env.PATH,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'Ada Example',
  GIT_AUTHOR_EMAIL: 'ada@example.org',
  GIT_COMMITTER_NAME: 'Ada Example',
  GIT_COMMITTER_EMAIL: 'ada@example.org',
}

export type RepoName = 'plain' | 'slow-setup' | 'slow-push'
const REPOS: readonly RepoName[] = ['plain', 'slow-setup', 'slow-push']

export interface YardOptions {
  /** The host's own worker; otherwise `startWorker` starts one. */
  readonly local?: boolean
  readonly fleet?: object
  readonly sandbox?: object
  readonly agent?: object
  readonly concurrency?: number
  readonly tracker?: object
  /** In place of the folder. */
  readonly codehost?: object
  /** Besides its own. */
  readonly repos?: object
  /** Of the workers that are started, besides what every process has. */
  readonly workerEnv?: NodeJS.ProcessEnv
}

export interface TicketOptions {
  readonly repo?: string
  readonly title?: string
  readonly front?: readonly string[]
}

export class Yard {
  readonly folder = tempFolder()
  readonly dataDir = this.#made('host')
  readonly tickets = this.#made('tickets')
  readonly code = this.#made('code')
  readonly #options: YardOptions
  #fleetPort = 0
  #host: Served | undefined
  #workers = 0

  private constructor(options: YardOptions) {
    this.#options = options
  }

  static async open(options: YardOptions = {}): Promise<Yard> {
    const yard = new Yard(options)
    for (const name of REPOS) yard.#makeRepo(name)
    yard.#fleetPort = await freePort()
    writeFileSync(join(yard.dataDir, 'config.json'), JSON.stringify(yard.#config(await freePort())), {
      mode: 0o600,
    })
    await yard.startHost()
    return yard
  }

  // ---- processes -------------------------------------------------------------------------------------------------

  get host(): Served {
    if (this.#host === undefined) throw new Error('no host was started')
    return this.#host
  }

  get fleetPort(): number {
    return this.#fleetPort
  }

  async startHost(): Promise<Served> {
    this.#host = serve(this.dataDir, ['--log-level', 'debug'])
    await this.#host.launched()
    return this.#host
  }

  /** A new one, by a token of its own. */
  async enrol(args: readonly string[] = [], url?: string): Promise<Served> {
    this.#workers += 1
    const dataDir = join(this.folder, `worker${this.#workers}`)
    const { body } = await this.host.ask('/api/workers/pairing-tokens', { method: 'POST' })
    const tokenFile = join(this.folder, `token${this.#workers}`)
    writeFileSync(tokenFile, (body as { token: string }).token, { mode: 0o600 })
    const worker = this.startWorker(dataDir, ['--token-file', tokenFile, ...args], url)
    await until('it is registered', () => worker.err().includes('registered with the host'))
    await until(
      'the token is redeemed and deleted',
      () => !namesIn(this.folder).includes(basename(tokenFile)),
    )
    return worker
  }

  /** One that has been here before, or brings a token. */
  startWorker(
    dataDir: string,
    args: readonly string[] = [],
    url = `http://127.0.0.1:${this.#fleetPort}`,
  ): Served {
    const concurrency = ['--concurrency', String(this.#options.concurrency ?? 4)]
    const always = ['worker', '--host', url, '--data-dir', dataDir, '--log-level', 'debug']
    return run([...always, ...concurrency, ...args], dataDir, this.#options.workerEnv)
  }

  async online(count: number, ms?: number): Promise<void> {
    const areThere = async () => {
      const { body } = await this.host.ask('/api/workers')
      const { workers } = body as FleetResponse
      return workers.filter(({ connection }) => connection === 'online').length === count
    }
    await until(`${count} workers online`, areThere, ms)
  }

  // ---- tickets and runs ------------------------------------------------------------------------------------------

  /** Carried out by the scripted agent, line by line. */
  ticket(identifier: string, lines: readonly string[], options: TicketOptions = {}): void {
    const { repo = 'plain', title = `About ${identifier}`, front = [] } = options
    const head = [
      '---',
      `identifier: ${identifier}`,
      `title: ${title}`,
      'state: Todo',
      `repo: ${repo}`,
      ...front,
    ]
    const text = [...head, '---', 'Please.', '```switchyard', ...lines, '```', ''].join('\n')
    writeFileSync(join(this.tickets, `${identifier}.md`), text)
  }

  /** undefined: the host has not seen the ticket yet, or can't answer. */
  async run(identifier: string): Promise<Run | undefined> {
    const answer = await this.host.ask('/api/runs?limit=1000').catch(() => undefined)
    const runs = Array.isArray(answer?.body) ? (answer.body as Run[]) : []
    return runs.find(({ ticket }) => ticket.identifier === identifier)
  }

  async runIs(identifier: string, what: string, isSo: (run: Run) => boolean, ms = RUN_MS_MAX): Promise<Run> {
    let seen: Run | undefined
    const look = async () => {
      seen = await this.run(identifier)
      return seen !== undefined && isSo(seen)
    }
    await until(`${identifier} is ${what}`, look, ms, ASK_EVERY_MS).catch((error) => {
      const { ticket: _, ...rest } = seen ?? { ticket: undefined }
      throw new Error(`${error.message}\n${JSON.stringify(rest)}\n${this.host.err().slice(-4_000)}`)
    })
    return seen as Run
  }

  reaches(identifier: string, status: Run['status']): Promise<Run> {
    return this.runIs(identifier, status, (run) => run.status === status)
  }

  ends(identifier: string, ms?: number): Promise<Run> {
    return this.runIs(identifier, 'over', (run) => isOver(run), ms)
  }

  async events(run: Run): Promise<RunEvent[]> {
    return (await this.host.ask(`/api/runs/${run.id}/events`)).body as RunEvent[]
  }

  // ---- gates -----------------------------------------------------------------------------------------------------

  /** Whatever waits inside this run's sandbox goes on. */
  letGo(run: Run): void {
    for (const place of this.#sandboxesOf(run.id)) openGate(place)
  }

  /** Its setup, or its agent, has come to its gate. */
  async atGate(run: Run): Promise<void> {
    const isThere = () => this.isDoing(run, '/out/go')
    await until(`${run.ticket.identifier} is at its gate`, isThere, RUN_MS_MAX, LOOK_EVERY_MS)
  }

  /** A process with this in its command line is in its sandbox. */
  isDoing(run: Run, what: string): boolean {
    return pids().some((pid) => commandOf(pid).includes(what) && isOf(run.id, pid))
  }

  letPushesGo(): void {
    writeFileSync(join(this.code, 'go'), '')
  }

  /** Somebody is pushing, and is kept waiting. */
  async pushing(): Promise<void> {
    await until('a push waits', () => this.#hooks().length > 0, RUN_MS_MAX, LOOK_EVERY_MS)
  }

  // ---- what came of it -------------------------------------------------------------------------------------------

  bare(repo: RepoName): string {
    return join(this.code, 'acme', `${repo}.git`)
  }

  git(repo: RepoName, ...args: readonly string[]): string {
    const quiet = { env: GIT_ENV, stdio: ['ignore', 'pipe', 'pipe'] as ('ignore' | 'pipe')[] }
    return execFileSync('git', ['-C', this.bare(repo), ...args], quiet)
      .toString()
      .trim()
  }

  branches(repo: RepoName): string[] {
    const listed = this.git(repo, 'branch', '--format=%(refname:short)').split('\n')
    return listed.filter((name) => name !== 'main' && name !== '')
  }

  /** Commits of a branch since it left the one that it is to go into, the newest first. */
  commits(repo: RepoName, branch: string): string[] {
    return this.git(repo, 'log', '--format=%s', `main..${branch}`).split('\n').filter(Boolean)
  }

  /** One line for each time that somebody's push was taken. */
  pushes(repo: RepoName): string[] {
    return linesOf(join(this.bare(repo), 'pushes'))
  }

  pulls(repo: RepoName): KeptPull[] {
    const folder = join(this.code, 'acme', `${repo}.pulls`)
    return namesIn(folder)
      .filter((name) => /^\d+\.json$/.test(name))
      .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as KeptPull)
  }

  /** No process of any sandbox is left, nor of a push. */
  async deserted(ms?: number): Promise<void> {
    const isEmpty = () => this.#processes().length === 0
    await until('no process is left', isEmpty, ms, LOOK_EVERY_MS).catch((error) => {
      throw new Error(`${error.message}\n${this.#processes().join('\n')}`)
    })
  }

  /** No process is left in any sandbox below. */
  isDeserted(folder: string): boolean {
    return this.#processesOf(folder).length === 0
  }

  #processes(): string[] {
    const inside = namesIn(sandboxFolder()).flatMap((name) => this.#processesOf(join(sandboxFolder(), name)))
    return [...inside, ...this.#hooks()].map((pid) => `${pid} ${commandOf(pid)}`)
  }

  /** Files, other than those that are for them, in which one of the secrets stands. */
  leaks(): string[] {
    const found = SECRET_FORMS.flatMap((form) => filesWith(form, [this.folder, sandboxFolder()]))
    return found.filter((path) => !MEANT_FOR_THEM.includes(basename(path)))
  }

  /** The folder of a run's sandbox, wherever it was executed. */
  sandboxOf(run: Run): string | undefined {
    return this.#sandboxesOf(run.id)[0]
  }

  // ---- small ones ------------------------------------------------------------------------------------------------

  #made(name: string): string {
    const folder = join(this.folder, name)
    mkdirSync(folder, { mode: 0o700 })
    return folder
  }

  #config(port: number) {
    const { local = false, fleet = {}, sandbox = {}, agent = {}, concurrency = 4 } = this.#options
    const folder = { driver: 'local', path: this.code, token: SECRETS.codehost }
    const { tracker, codehost = folder, repos } = this.#options
    return {
      server: { port },
      fleet: { host: '127.0.0.1', port: this.#fleetPort, ...fleet },
      worker: { local },
      sandbox: { network: 'none', concurrency, ...sandbox },
      agent: { commands: { agentA: 'scripted-agent' }, agentAApiKey: SECRETS.agent, ...agent },
      tracker: { driver: 'local', path: this.tickets, pollSeconds: 1, ...tracker },
      codehost,
      repos: {
        plain: { remote: 'acme/plain' },
        'slow-setup': { remote: 'acme/slow-setup', setup: GATE },
        'slow-push': { remote: 'acme/slow-push' },
        ...repos,
      },
    }
  }

  #makeRepo(name: RepoName): void {
    const work = join(this.folder, 'draft', name)
    cpSync(draftOf(name), work, { recursive: true })
    gitIn(work, 'clone', '--quiet', '--bare', '--template=', work, this.bare(name))
    const note = '#!/bin/sh\nwhile read -r old new ref; do echo "$ref" >> pushes; done\n'
    this.#hook(name, 'post-receive', note)
    if (name !== 'slow-push') return
    const gate = `#!/bin/sh\nwhile [ -d ${this.code} ] && [ ! -e ${this.code}/go ]; do sleep 0.05; done\n`
    this.#hook(name, 'pre-receive', gate)
  }

  #hook(repo: RepoName, name: string, text: string): void {
    const folder = join(this.bare(repo), 'hooks')
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, name), text)
    chmodSync(join(folder, name), 0o755)
  }

  #sandboxesOf(runId: string): string[] {
    return namesIn(sandboxFolder())
      .map((name) => join(sandboxFolder(), name, 'sandboxes'))
      .filter((folder) => namesIn(folder).includes(runId))
      .map((folder) => join(folder, runId))
  }

  #processesOf(place: string): number[] {
    return pids().filter((pid) => isOf(place, pid))
  }

  #hooks(): number[] {
    return pids().filter(
      (pid) => commandOf(pid).includes('hooks/pre-receive') && cwdOf(pid) === this.bare('slow-push'),
    )
  }
}

const drafts = new Map<RepoName, string>()

/** Made once for all yards of a test file: git is started three times for it. */
function draftOf(name: RepoName): string {
  const known = drafts.get(name)
  if (known !== undefined) return known
  const work = tempFolder()
  gitIn(work, 'init', '--quiet', '--template=', '--initial-branch=main')
  writeFileSync(join(work, 'README.md'), `# ${name}\n`)
  gitIn(work, 'add', '--all')
  gitIn(work, 'commit', '--quiet', '--message', 'Begin')
  drafts.set(name, work)
  return work
}

const gitIn = (cwd: string, ...args: string[]) =>
  execFileSync('git', args, { cwd, env: GIT_ENV, stdio: 'pipe' })

/** Of a sandbox, unless it is on its way out. */
export function openGate(place: string): void {
  try {
    writeFileSync(join(place, 'out', 'go'), '')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

export const isOver = ({ status }: Run): boolean => ['completed', 'failed', 'cancelled'].includes(status)

// ---- looking about -------------------------------------------------------------------------------------------------

const pids = (): number[] => readdirSync('/proc').map(Number).filter(Number.isInteger)
/** What a process sees mounted tells whose it is. */
const isOf = (place: string, pid: number): boolean =>
  `${textOf(`/proc/${pid}/mountinfo`)}${commandOf(pid)}`.includes(place)
const commandOf = (pid: number): string => textOf(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()

function cwdOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}

/** Empty when it is not there, any more or yet. */
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

function filesWith(form: string, folders: readonly string[]): string[] {
  const { stdout } = spawnSync('grep', ['-rlaE', '--', form, ...folders], { encoding: 'utf8' })
  return stdout.split('\n').filter(Boolean)
}
