/**
 * A system of real processes with two fake providers: a host and workers as people run them, a Linear with tickets, and
 * a GitHub with the repository `acme/app`.
 *
 * The providers run in the test's process, so a test can inspect them and make them fail. The host knows only their
 * addresses.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach } from '@jest/globals'
import type { StoredConfig } from '../../protocol/config.ts'
import type { Run } from '../../protocol/run.ts'
import type { FleetResponse } from '../../protocol/worker.ts'
import {
  type CommandProcess,
  runCommand as command,
  type LaunchFile,
  sandboxFolder,
  serve,
} from './command-process.ts'
import { DashboardClient, SYSTEM_WAIT_MS_MAX } from './dashboard-client.ts'
import { freePort } from './free-ports.ts'
import { type FakeGithub, startGithub } from './github/github.ts'
import { type FakeLinear, startLinear } from './linear/linear.ts'
import type { IssueRow } from './linear/rows.ts'
import { isOver, openSandboxGate } from './local-system.ts'
import { connectSocket } from './socket-client.ts'
import { tempFolder } from './temp-folder.ts'
import { until } from './until.ts'

/** OWNER is the account of the service; REVIEWER reviews its pull requests. */
export const OWNER = 'mona'
export const REVIEWER = 'lisa'
/** The interval between polls of the device flow; GitHub's default is five seconds. */
const DEVICE_SECONDS = 1
const PORT_TRIES_MAX = 3

/** Sections that override the default configuration key by key, and the host's environment. */
export interface ProviderSystemOptions extends StoredConfig {
  readonly env?: NodeJS.ProcessEnv
}

type ApiResponse = { readonly status: number; readonly body: unknown }

const open = new Set<ProviderSystem>()

afterEach(async () => {
  for (const system of open) await system.close()
  open.clear()
})

export class ProviderSystem {
  readonly folder = tempFolder()
  readonly dataDir = join(this.folder, 'host')
  readonly linear: FakeLinear
  readonly github: FakeGithub
  readonly #env: NodeJS.ProcessEnv
  #fleetPort = 0
  #host: CommandProcess | undefined

  private constructor(linear: FakeLinear, github: FakeGithub, env: NodeJS.ProcessEnv) {
    this.linear = linear
    this.github = github
    this.#env = env
  }

  static async open({ env = {}, ...config }: ProviderSystemOptions = {}): Promise<ProviderSystem> {
    const linear = await startLinear()
    linear.world.team({ key: 'ENG', name: 'Engineering' })
    const github = await startGithub({ people: [{ login: OWNER }, { login: REVIEWER }] })
    github.device.settings.intervalSeconds = DEVICE_SECONDS
    const members = { [OWNER]: 'admin', [REVIEWER]: 'push' } as const
    await github.addRepo({ fullName: 'acme/app', members })
    const system = new ProviderSystem(linear, github, env)
    open.add(system)
    await system.#startOnFreePorts(config)
    return system
  }

  async close(): Promise<void> {
    this.#host?.process.kill('SIGKILL')
    await Promise.all([this.linear.stop(), this.github.close()])
  }

  // ---- processes -------------------------------------------------------------------------------------------------

  get host(): CommandProcess {
    if (this.#host === undefined) throw new Error('no host was started')
    return this.#host
  }

  async startHost(): Promise<CommandProcess> {
    this.#host = serve(this.dataDir, ['--log-level', 'debug'], this.#env)
    await this.#host.waitForLaunch()
    return this.#host
  }

  /** Kills the host, as when its machine loses power. */
  async killHost(): Promise<void> {
    this.host.process.kill('SIGKILL')
    await this.host.exit
  }

  /** Starts a worker that survives the host's end. */
  async pairWorker(): Promise<CommandProcess> {
    const { body } = await this.host.request('/api/workers/pairing-tokens', { method: 'POST' })
    const tokenFile = join(this.folder, 'token')
    writeFileSync(tokenFile, (body as { token: string }).token, { mode: 0o600 })
    const url = `http://127.0.0.1:${this.#fleetPort}`
    const dataDir = join(this.folder, 'worker')
    // The fake code host listens on loopback, which workers must be told.
    const codeHost = `--private-code-host=${new URL(this.github.origin).host}`
    const worker = command([
      'worker',
      '--host',
      url,
      '--data-dir',
      dataDir,
      '--token-file',
      tokenFile,
      codeHost,
    ])
    await this.waitForOnlineWorker()
    return worker
  }

  async waitForOnlineWorker(): Promise<void> {
    await until(
      'a worker is online',
      async () => {
        const { workers } = (await this.host.request('/api/workers')).body as FleetResponse
        return workers.some(({ connection }) => connection === 'online')
      },
      SYSTEM_WAIT_MS_MAX,
    )
  }

  // ---- requests ----------------------------------------------------------------------------------------------------

  readonly get = async <T>(path: string): Promise<T> => (await this.host.request(path)).body as T

  readonly send = (method: 'POST' | 'PUT', path: string, body?: object): Promise<ApiResponse> =>
    this.host.request(path, body === undefined ? { method } : { method, body })

  /** Connects a dashboard that receives all pushes from now on. */
  async connectDashboard(): Promise<DashboardClient> {
    const { url, token }: LaunchFile = await this.host.waitForLaunch()
    const socket = connectSocket(Number(new URL(url).port), '/ws', { authorization: `Bearer ${token}` })
    await socket.opened
    await socket.firstFrames(1)
    return new DashboardClient(socket.frames)
  }

  /** Returns the configuration file with its credentials. */
  storedConfig(): StoredConfig {
    return JSON.parse(readFileSync(join(this.dataDir, 'config.json'), 'utf8')) as StoredConfig
  }

  // ---- tickets and runs ------------------------------------------------------------------------------------------

  /** Creates a ticket whose lines the scripted agent executes. */
  createTicket(title: string, lines: readonly string[], state = 'Todo'): IssueRow {
    const description = ['Please.', '```switchyard', ...lines, '```', ''].join('\n')
    return this.linear.world.issue({ title, description, state })
  }

  /** Returns undefined while the host does not know the ticket. */
  async findRun({ id }: IssueRow): Promise<Run | undefined> {
    const runs = await this.get<readonly Run[]>('/api/runs').catch(() => [])
    return runs.find(({ ticket }) => ticket.id === id)
  }

  async waitForRun(issue: IssueRow, what: string, isSo: (run: Run) => boolean): Promise<Run> {
    let seen: Run | undefined
    const check = async (): Promise<boolean> => {
      seen = await this.findRun(issue)
      return seen !== undefined && isSo(seen)
    }
    await until(`${issue.identifier} is ${what}`, check, SYSTEM_WAIT_MS_MAX, 50).catch((error) => {
      const { ticket: _, ...rest } = seen ?? { ticket: undefined }
      throw new Error(`${error.message}\n${JSON.stringify(rest)}\n${this.host.err().slice(-4_000)}`)
    })
    // The wait fails when the run was never found.
    return seen as Run
  }

  waitForStatus(issue: IssueRow, status: Run['status']): Promise<Run> {
    return this.waitForRun(issue, status, (run) => run.status === status)
  }

  /** Right after its end the code host may not have been asked about the run's pull request yet. */
  async waitForEnd(issue: IssueRow): Promise<Run> {
    const run = await this.waitForRun(issue, 'over', isOver)
    if (run.prUrl === undefined || run.prState !== undefined) return run
    const isKnown = ({ prState }: Run): boolean => prState !== undefined
    return this.waitForRun(issue, 'confirmed', isKnown).catch(() => run)
  }

  /** Opens the gates inside this run's sandbox. */
  openGates({ id }: Run): void {
    for (const place of readdirSync(sandboxFolder()))
      openSandboxGate(join(sandboxFolder(), place, 'sandboxes', id))
  }

  // ---- helpers ------------------------------------------------------------------------------------------------

  /** Chooses fixed ports, which survive a restart, and retries when another process takes one of them first. */
  async #startOnFreePorts(config: StoredConfig): Promise<void> {
    for (let tries = 1; ; tries++) {
      const port = await freePort()
      this.#fleetPort = await freePort()
      this.#writeConfig(port, config)
      const redirectUris = [`http://localhost:${port}/api/connect/tracker/callback`]
      this.linear.accounts.addApp({ ...this.linear.app, redirectUris })
      try {
        await this.startHost()
        return
      } catch (error) {
        if (tries === PORT_TRIES_MAX || !String(error).includes('cannot listen')) throw error
      }
    }
  }

  #writeConfig(port: number, more: StoredConfig): void {
    const usual: StoredConfig = {
      server: { port },
      fleet: { host: '127.0.0.1', port: this.#fleetPort },
      worker: { local: true },
      sandbox: { network: 'none' },
      agent: { commands: { agentA: 'scripted-agent' }, agentAApiKey: 'an-agent-key-of-a-story' },
      tracker: { driver: 'linear', apiUrl: this.linear.url, pollSeconds: 1 },
      codehost: { driver: 'github', apiUrl: this.github.apiUrl },
      connect: { codehostClientId: this.github.device.settings.clientId },
      repos: { app: { remote: 'acme/app' } },
    }
    const sections = Object.keys({ ...usual, ...more }) as (keyof StoredConfig)[]
    const config = Object.fromEntries(sections.map((name) => [name, { ...usual[name], ...more[name] }]))
    mkdirSync(this.dataDir, { mode: 0o700, recursive: true })
    writeFileSync(join(this.dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
  }
}
