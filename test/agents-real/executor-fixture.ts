/**
 * A real executor: sandboxes, proxy, git, the agents' real programs, and a folder of repositories as code host.
 *
 * Only the model APIs are fakes. To reach them, the worker's requests go to another origin with a certificate of its
 * own; the agents and their sandboxes are as in production.
 */
import { randomUUID } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { realClock, realRandom } from '../../bin/process/clock.ts'
import type {
  AgentOutcome,
  Execution,
  ExecutionReport,
  ExecutionReporter,
  Progress,
} from '../../core/daemon/ports.ts'
import type { AgentJob, Job, RunOutcome } from '../../protocol/frames.ts'
import { createCodeHost } from '../../providers/codehost/registry.ts'
import { createHttp } from '../../providers/http/http.ts'
import type { AgentExitReport, AgentTask } from '../../worker/agents/agent.ts'
import { createAgentDrivers } from '../../worker/agents/registry.ts'
import { type ClosableExecutor, openExecutor } from '../../worker/executor.ts'
import { createGitSources } from '../../worker/git/create-git-sources.ts'
import { GITCONFIG_TEXT } from '../../worker/git/git-inside-sandbox.ts'
import { RemotePolicy } from '../../worker/git/remote-policy.ts'
import { DialedUpstream, type ModelUpstream } from '../../worker/model-api/dialed-upstream.ts'
import { openAgentAccess } from '../../worker/run/agent/agent-access.ts'
import { AgentWatch } from '../../worker/run/agent/agent-watch.ts'
import { chooseSandboxLocation } from '../../worker/run/disk/sandbox-location.ts'
import type { ExecutorDependencies } from '../../worker/run/execution/executor-dependencies.ts'
import { SandboxSession } from '../../worker/run/sandbox-session.ts'
import type { SandboxLauncher, SandboxOrder } from '../../worker/sandbox/driver.ts'
import { openSandboxEgress } from '../../worker/sandbox/egress/sandbox-egress.ts'
import { removeFolderTree, sandboxUserOf } from '../../worker/sandbox/folders.ts'
import { thisMachine } from '../../worker/sandbox/local-machine.ts'
import { findSandbox } from '../../worker/sandbox/registry.ts'
import { confirmedClock } from '../support/confirmed-clock.ts'
import { createRecordingLog, type RecordingLog } from '../support/recording-log.ts'
import { type OpenTerminal, openTerminal } from '../support/resumed-sandbox.ts'
import { type Certificate, makeCertificate } from './certificate.ts'
import { type JobOrder, jobFor, REMOTE } from './jobs.ts'
import { git, makeRepository, plant } from './surroundings.ts'

export interface Rig {
  readonly certificate: Certificate
  readonly log: RecordingLog
  /** The commands that the sandbox was asked to run. */
  readonly ordered: readonly SandboxOrder[]
  /** Sets the address of the model APIs. */
  point(port: number): void
  job(order: JobOrder): AgentJob
  /** Executes a job phase by phase, like the daemon. */
  execute(job: AgentJob, meanwhile?: (execution: Execution) => Promise<void>): Promise<Executed>
  /** Runs the agent again in the retained sandbox of a finished run. */
  resume(job: AgentJob, sessionId: string, prompt: string): Promise<Resumed>
  /** Opens the terminal of the run's retained sandbox as a person. */
  attend(job: AgentJob): Promise<OpenTerminal>
  /** The content of a file on a branch of the code host. */
  published(branch: string, path: string): string
  /** The number of the pull request from a branch. */
  pullNumber(branch: string): number
  /** Files on a run's retained disk that contain this text. */
  kept(job: AgentJob, text: string): readonly string[]
  close(): Promise<void>
}

export interface Executed {
  readonly outcome: RunOutcome
  readonly worked: AgentOutcome
  readonly reports: readonly ExecutionReport[]
  readonly progress: readonly Progress[]
}

export interface Resumed {
  readonly ending: AgentExitReport
  readonly reports: readonly ExecutionReport[]
}

const MODELS_HOST = 'localhost'

export async function openRig(): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-agents-'))
  chmodSync(folder, 0o711)
  const code = folderIn(folder, 'code')
  makeRepository(join(code, `${REMOTE}.git`), folderIn(folder, 'draft'))
  const certificate = makeCertificate(folderIn(folder, 'certificate'), MODELS_HOST)
  const unplant = plant(folderIn(folder, 'outside'))
  const ordered: SandboxOrder[] = []
  const log = createRecordingLog()
  let port = 0
  const record = (launcher: SandboxLauncher) => withRecord(launcher, ordered)
  const modelUpstream = elsewhere(certificate, () => port)
  const parts = {
    ...(await executorDependencies(folderIn(folder, 'worker'), code, log, record)),
    modelUpstream,
  }
  const executor = await openExecutor(parts)

  return {
    certificate,
    log,
    ordered,
    point: (to) => {
      port = to
    },
    job: (order) => jobFor(code, order),
    execute: (job, meanwhile) => execute(executor, job, meanwhile),
    resume: (job, sessionId, prompt) => resume(parts, job, sessionId, prompt),
    attend: async ({ run, credentials }) => {
      const answer = await executor.boot({ runId: run.id, credentials })
      if (!answer.ok) throw new Error(answer.refusal.message)
      return openTerminal(answer.value)
    },
    published: (branch, path) => git(join(code, `${REMOTE}.git`), 'show', `${branch}:${path}`),
    pullNumber: (branch) => {
      const folder = join(code, `${REMOTE}.pulls`)
      const pulls = readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')))
      return pulls.find(({ headBranch }) => headBranch === branch).number
    },
    kept: (job, text) => filesWith(join(parts.folder, 'sandboxes', job.run.id), text),
    close: async () => {
      unplant()
      for (const name of readdirSync(join(parts.folder, 'sandboxes'))) await executor.discard(name)
      await executor.close()
      await modelUpstream.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The same dependencies as in `switchyard worker`, except for the connections to the model APIs. */
async function executorDependencies(
  dataDir: string,
  code: string,
  log: RecordingLog,
  record: (launcher: SandboxLauncher) => SandboxLauncher,
): Promise<Omit<ExecutorDependencies, 'modelUpstream'>> {
  const launcher = await createLauncher()
  const machine = thisMachine()
  const isRoot = machine.euid === 0
  const sandboxUser = (number: number) => sandboxUserOf(number, machine)
  const location = await chooseSandboxLocation({
    dataDir,
    ...(isRoot ? { gid: sandboxUser(0).gid } : {}),
    insidePrograms: fileURLToPath(new URL('../../dist/inside', import.meta.url)),
    nodeProgram: process.execPath,
  })
  const http = createHttp({ clock: realClock, random: realRandom })
  const codehostFor = ({ codehost, credentials }: Job) =>
    createCodeHost(codehost, credentials.codehost, { http, clock: realClock })
  const sources = join(location.folder, 'sources')
  return {
    ...location,
    clock: realClock,
    retentionClock: confirmedClock(realClock),
    log,
    uuid: randomUUID,
    sandboxProvider: 'bwrap',
    launcher: record(launcher),
    userFor: sandboxUser,
    firstNumber: 0,
    isRoot,
    removeFolder: removeFolderTree,
    gitSources: createGitSources({
      folder: sources,
      clock: realClock,
      random: realRandom,
      codehostFor,
      policy: new RemotePolicy({ localRepositories: { allowedFolders: [code], ownFolders: [dataDir] } }),
    }),
    codehostFor,
    drivers: createAgentDrivers({ path: agentsPath(), home: process.env.HOME ?? '/', hasOwnUsers: isRoot }),
    openEgress: openSandboxEgress,
    gitconfig: GITCONFIG_TEXT,
    stallMs: 60_000,
    freeSpace: async () => ({ bytes: 64 * 1024 ** 3, files: 2 ** 30 }),
    diskBytes: async () => 2 ** 42,
    measureFolder: async () => 0,
    onClosed: () => http.close(),
  }
}

async function createLauncher(): Promise<SandboxLauncher> {
  const found = await findSandbox()
  if (found.ok) return found.createLauncher(realClock)
  throw new Error(found.detail)
}

function agentsPath(): string {
  const agents = process.env.SWITCHYARD_REAL_AGENTS
  if (agents === undefined) throw new Error('run these tests with: npm run test:agents')
  return `${join(agents, 'node_modules', '.bin')}:/usr/bin:/bin`
}

/** A folder that sandbox users can enter. */
function folderIn(folder: string, name: string): string {
  const path = join(folder, name)
  mkdirSync(path, { mode: 0o711 })
  return path
}

// ---- running -----------------------------------------------------------------------------------------------------

async function execute(
  executor: ClosableExecutor,
  job: AgentJob,
  meanwhile: (execution: Execution) => Promise<void> = async () => {},
): Promise<Executed> {
  const reports: ExecutionReport[] = []
  const progress: Progress[] = []
  const order = { leaseId: randomUUID(), workerId: 'wk-1', job }
  const execution = executor.start(order, createReporter(reports), (report) => void progress.push(report))
  try {
    const prepared = await execution.prepare()
    if (!prepared.ok) throw new Error(prepared.refusal.message)
    const [worked] = await Promise.all([execution.runAgent(), meanwhile(execution)])
    return { outcome: await execution.finish(worked), worked, reports, progress }
  } finally {
    // The execution has ended already, unless the test failed before.
    execution.stop({ how: 'kill', reason: 'the test is over' })
    await execution.whenExited()
  }
}

async function resume(
  parts: ExecutorDependencies,
  job: AgentJob,
  sessionId: string,
  prompt: string,
): Promise<Resumed> {
  const reports: ExecutionReport[] = []
  const reporter = createReporter(reports)
  const root = join(parts.folder, 'sandboxes', job.run.id)
  const { number } = JSON.parse(readFileSync(join(root, 'sandbox.json'), 'utf8'))
  const at = (name: string) => join(root, name)
  const folders = {
    root,
    number,
    work: at('work'),
    home: at('home'),
    out: at('out'),
    exchange: at('exchange'),
    staging: at('desk'),
  }
  const { network, allowedHosts } = job.sandbox ?? { network: 'none' as const, allowedHosts: [] }
  const egress = await parts.openEgress({
    network,
    allowedHosts,
    folder: root,
    clock: parts.clock,
    log: () => {},
  })
  const session = new SandboxSession({ dependencies: parts, job, folders, egress, reporter })
  const { provider } = job.agent
  const driver = parts.drivers[provider]
  const { credentials } = job
  const access = await openAgentAccess({
    ...{ dependencies: parts, provider, credentials, folders, log: () => {} },
    rules: { serverTools: [] },
  })
  if (!access.ok) throw new Error(access.refusal.message)
  session.closeWith(access.value)
  const { modelSocket, modelApiUrl, credential } = access.value
  const task: AgentTask = {
    agent: job.agent,
    prompt,
    sessionId: randomUUID(),
    resume: sessionId,
    environment: {},
    ...(credential === undefined ? {} : { credential }),
    ...(modelApiUrl === undefined ? {} : { modelApiUrl }),
  }
  const process = session.start({
    ...driver.buildCommand(task, await driver.locate()),
    withEgress: true,
    ...(modelSocket === undefined ? {} : { modelSocket }),
  })
  if (process === undefined) throw new Error('the room was stopped')
  const watch = new AgentWatch({
    process,
    listener: driver.createListener(task),
    reporter,
    clock: parts.clock,
    log: parts.log,
    limits: {},
    stallMs: parts.stallMs,
    isModelBusy: () => false,
    findMachineProblem: async () => undefined,
    onSessionId: (id) => reporter.report({ is: 'patch', patch: { agentSessionId: id } }),
  })
  const { exitReport: ending } = await watch.waitForEnd()
  await session.close()
  return { ending, reports }
}

const createReporter = (reports: ExecutionReport[]): ExecutionReporter => ({
  report: (report) => void reports.push(report),
  waitForCapacity: async () => {},
})

function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => readFileSync(path).includes(text))
}

// ---- the fake model APIs -----------------------------------------------------------------------------------------

/** Records every command of a sandbox. */
function withRecord(launcher: SandboxLauncher, ordered: SandboxOrder[]): SandboxLauncher {
  return {
    launch: (order) => {
      ordered.push(order)
      return launcher.launch(order)
    },
  }
}

/** The worker's own connections, to the fake instead of the vendors. */
function elsewhere({ authority }: Certificate, port: () => number): ModelUpstream {
  const dialed = new DialedUpstream({ certificateAuthorities: [authority] })
  return {
    send: (request) => dialed.send({ ...request, origin: `https://${MODELS_HOST}:${port()}` }),
    close: () => dialed.close(),
  }
}
