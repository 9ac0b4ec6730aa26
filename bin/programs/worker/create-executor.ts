/**
 * Creates the worker's executor for this machine: its programs, its folders, and the user of each sandbox.
 */
import { randomUUID } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { arch, platform } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { HostClock } from '../../../actors/daemon/host-clock.ts'
import { explainOldGit, isGitTooOld } from '../../../core/git-version.ts'
import type { TakeOver } from '../../../core/owner.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import { yes } from '../../../core/result.ts'
import type { Job } from '../../../protocol/frames.ts'
import { AGENT_PROBE_MS_MAX } from '../../../protocol/limits.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import type { WorkerAgents, WorkerCapabilities } from '../../../protocol/worker.ts'
import { createCodeHost } from '../../../providers/codehost/registry.ts'
import { createHttp } from '../../../providers/http/http.ts'
import type { HttpOptions } from '../../../providers/http/http-types.ts'
import { probeAgents } from '../../../worker/agents/locate-agent.ts'
import { createAgentDrivers } from '../../../worker/agents/registry.ts'
import { type ClosableExecutor, openExecutor } from '../../../worker/executor.ts'
import { createGitSources } from '../../../worker/git/create-git-sources.ts'
import { GITCONFIG_TEXT } from '../../../worker/git/git-inside-sandbox.ts'
import { readGitVersion } from '../../../worker/git/git-version.ts'
import { guardCodeHost, guardHttp, RemotePolicy } from '../../../worker/git/remote-policy.ts'
import { DialedUpstream } from '../../../worker/model-api/dialed-upstream.ts'
import { diskBytes, freeSpace, measureWithDu } from '../../../worker/run/disk/disk-space.ts'
import {
  chooseSandboxLocation,
  type SandboxLocation,
  type SandboxLocationOptions,
} from '../../../worker/run/disk/sandbox-location.ts'
import { memoryShare } from '../../../worker/sandbox/cgroup.ts'
import type { AvailableSandbox } from '../../../worker/sandbox/driver.ts'
import { openSandboxEgress } from '../../../worker/sandbox/egress/sandbox-egress.ts'
import {
  removeFolderTree,
  SANDBOX_GID,
  SANDBOX_USERS_MAX,
  sandboxUserOf,
} from '../../../worker/sandbox/folders.ts'
import { thisMachine } from '../../../worker/sandbox/local-machine.ts'
import type { OwnSecrets } from '../../../worker/secrets/run-secrets.ts'
import { realClock, realRandom } from '../../process/clock.ts'
import { homeFolder } from '../../process/data-dir.ts'
import { EXIT, ExitError } from '../../process/exit.ts'
import { sweepSandboxFolders } from './sweep-sandbox-folders.ts'

export interface CreateExecutorOptions {
  readonly dataDir: string
  readonly sandboxDir?: string
  readonly takeOver?: TakeOver | undefined
  readonly sandbox: AvailableSandbox
  /** Absolute folders below which git may use local repositories. */
  readonly localRepos: readonly string[]
  /** Code hosts that git may contact at private addresses and other ports. */
  readonly privateCodeHosts: readonly string[]
  readonly stallMs: number
  /** How many sandboxes share the machine's memory. */
  readonly slots: number
  /** Proxies and trusted authorities of this network. */
  readonly network: Pick<HttpOptions, 'proxies' | 'certificateAuthorities'>
  /** The worker's own secrets, which nothing that leaves a sandbox may hold. */
  readonly ownSecrets: OwnSecrets
  readonly clock: Clock
  readonly log: Log
}

export interface CreatedExecutor {
  readonly executor: ClosableExecutor
  /** The clock by which the executor judges ages. */
  readonly hostClock: HostClock
  /** The capabilities of this machine. */
  readonly capabilities: Omit<WorkerCapabilities, 'maxConcurrency' | 'version'>
  /** Looks for the agents on this machine. */
  readonly probeAgents: () => Promise<WorkerAgents>
}

export async function createExecutor(options: CreateExecutorOptions): Promise<CreatedExecutor> {
  const { dataDir, sandboxDir, sandbox, stallMs, network, ownSecrets, clock, log } = options
  const hostClock = new HostClock({ clock, log })
  const gitVersion = await requireGit(log)
  const machine = thisMachine()
  const isRoot = machine.euid === 0
  const location = await chooseLocation({
    dataDir: await realpath(dataDir),
    insidePrograms: insidePrograms(),
    nodeProgram: process.execPath,
    ...(sandboxDir === undefined ? {} : { chosenFolder: resolve(sandboxDir) }),
    ...(isRoot ? { gid: SANDBOX_GID } : {}),
  })
  if (isRoot && location.folder !== (await realpath(dataDir))) sweep(location.folder, hostClock, options)
  const launcher = sandbox.createLauncher(clock)
  const limits = launcher.limitsEnforcedBy()
  const share = memoryShare(limits, options.slots)
  log.info({ folder: location.folder, limits, ...share, gitVersion }, 'runs are executed in this folder')
  const { http, ...connections } = openConnections(options)
  const policy = await createPolicy(options, location.folder)
  const codehostFor = (job: Job) => {
    const { codehost = {} } = job
    const ports = { http: guardHttp(http, codehost, policy), clock }
    const created = createCodeHost(job.codehost, job.credentials.codehost, ports)
    return created.ok ? yes(guardCodeHost(created.value, codehost, policy)) : created
  }
  const drivers = agentDrivers(isRoot)
  const executor = await openExecutor({
    folder: location.folder,
    clock,
    retentionClock: hostClock,
    log,
    uuid: () => randomUUID(),
    sandboxProvider: sandbox.provider,
    launcher,
    ...share,
    userFor: (number) => sandboxUserOf(number, machine),
    firstNumber: Math.floor(realRandom.fraction() * SANDBOX_USERS_MAX),
    isRoot,
    removeFolder: removeFolderTree,
    gitSources: createGitSources({
      folder: join(location.folder, 'sources'),
      clock,
      random: realRandom,
      log,
      codehostFor,
      policy,
      ownSecrets,
      ...(network.proxies === undefined ? {} : { proxies: network.proxies }),
      ...(process.env.SSH_AUTH_SOCK === undefined ? {} : { sshAgent: process.env.SSH_AUTH_SOCK }),
    }),
    codehostFor,
    ownSecrets,
    drivers,
    ...connections,
    openEgress: openSandboxEgress,
    insidePrograms: location.insidePrograms,
    node: location.node,
    gitconfig: GITCONFIG_TEXT,
    stallMs,
    freeSpace: () => freeSpace(location.folder),
    diskBytes: () => diskBytes(location.folder),
    measureFolder: measureWithDu,
  })
  const probe = () => probeAgents(drivers)
  const found = await probeInTime(probe, log)
  const git = gitVersion === undefined ? {} : { gitVersion }
  const capabilities = { os: platform(), arch: arch(), provider: sandbox.provider, limits, ...found, ...git }
  return { executor, hostClock, capabilities, probeAgents: probe }
}

function agentDrivers(hasOwnUsers: boolean) {
  const { env } = process
  return createAgentDrivers({ path: env.PATH ?? '', home: homeFolder(), hasOwnUsers, environment: env })
}

/** The connections to code hosts and to the vendors of models. */
function openConnections({ clock, network }: CreateExecutorOptions) {
  const http = createHttp({ clock, random: realRandom, ...network })
  const modelUpstream = new DialedUpstream(network)
  const onClosed = async () => {
    await Promise.all([http.close(), modelUpstream.close()])
  }
  return { http, modelUpstream, onClosed }
}

/** Runs beside the worker, because a deletion may take minutes. */
function sweep(folder: string, hostClock: HostClock, { takeOver, log }: CreateExecutorOptions): void {
  const lock = { clock: realClock, random: realRandom, takeOver }
  const now = hostClock.whenConfirmed().then(() => hostClock.now())
  sweepSandboxFolders({ folder, lock, now, log }).catch((error) =>
    log.warn({ reason: messageOf(error) }, 'folders of deleted data directories could not be looked for'),
  )
}

/** Throws when git is missing or too old, before a run fails of it. */
async function requireGit(log: Log): Promise<string | undefined> {
  const version = await readGitVersion()
  if (!version.ok) throw new ExitError(EXIT.unavailable, version.refusal.message)
  const pinning = 'connecting to exactly the checked address of an https host'
  if (version.value !== undefined && isGitTooOld(version.value, 'pinnedHosts'))
    log.warn({}, explainOldGit(pinning, version.value, 'pinnedHosts'))
  return version.value
}

/** Logs folders that allow nothing, because a run that fails of them starts much later. */
async function createPolicy(
  { dataDir, localRepos, privateCodeHosts, network, log }: CreateExecutorOptions,
  sandboxFolder: string,
): Promise<RemotePolicy> {
  const policy = new RemotePolicy({
    localRepositories: { allowedFolders: localRepos, ownFolders: [dataDir, sandboxFolder] },
    privateHosts: privateCodeHosts,
    ...(network.proxies === undefined ? {} : { proxies: network.proxies }),
  })
  for (const problem of await policy.localRepositories.findUselessFolders())
    log.warn({ problem }, 'a folder of --local-repos allows no repository')
  return policy
}

async function chooseLocation(parts: SandboxLocationOptions): Promise<SandboxLocation> {
  try {
    return await chooseSandboxLocation(parts)
  } catch (error) {
    throw new ExitError(
      EXIT.broken,
      `no folder for sandboxes: ${messageOf(error)}; name a writable folder with --sandbox-dir`,
    )
  }
}

/** The folder beside the program in which the build puts the programs for the inside of sandboxes. */
function insidePrograms(): string {
  const program = realpathSync(process.argv[1] ?? '')
  return join(dirname(dirname(program)), 'inside')
}

/** The first registration names the agents, unless looking for them takes long. */
async function probeInTime(
  probeAgents: () => Promise<WorkerAgents>,
  log: Log,
): Promise<{ readonly agents?: WorkerAgents }> {
  let cancel = () => {}
  const late = new Promise<undefined>((resolve) => {
    cancel = realClock.after(AGENT_PROBE_MS_MAX, () => resolve(undefined))
  })
  const agents = await Promise.race([probeAgents().catch(() => undefined), late])
  cancel()
  if (agents === undefined) return {}
  // The host names a missing agent to the runs that need it.
  const problems = Object.values(agents).flatMap(({ problem }) => problem ?? [])
  if (problems.length > 0) log.debug({ problems }, 'agents are missing')
  return { agents }
}
