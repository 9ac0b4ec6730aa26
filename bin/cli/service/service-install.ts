/**
 * `switchyard service install`: makes the host and the worker of this machine services of this user.
 *
 * Two services let the host restart without its runs. With `--one`, and where this machine can't execute runs, there is
 * one. The command may be repeated, also in the other form: it changes nothing that is as it should be, replaces no file
 * that another program or person wrote, and restarts nothing that would end a run.
 */
import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { localWorkerSettings } from '../../../core/fleet/local-worker.ts'
import { hostStopSeconds, workerStopSeconds } from '../../../core/service/systemd-unit.ts'
import { readConfig } from '../../../core/settings/read.ts'
import { configDefaults, type ServiceConfig } from '../../../protocol/config.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import { reachArguments } from '../../../providers/local-worker.ts'
import { replaceFile } from '../../../store/files/atomic.ts'
import { findSandbox } from '../../../worker/sandbox/registry.ts'
import { formatAgeOf } from '../../output/times.ts'
import { refusedError } from '../../process/exit.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import {
  findMachineWorker,
  pairMachineWorker,
  readOwnFile,
  removeService,
  requireNoRunOfOwnWorker,
  runsOwnWorker,
  tokenFileOf,
  workerFolderOf,
} from './installed-services.ts'
import { currentMachine, type FoundManager, findManager, type ServiceMachine } from './machine.ts'
import { clientOf, findRunningHost } from './running-host.ts'
import {
  runChange,
  type Service,
  type ServiceChange,
  type ServiceCommand,
  type ServiceState,
} from './service-manager.ts'

/** How long `service install` waits until the host listens. */
const SERVICE_START_MS_MAX = 15_000

export interface InstallOptions extends ClientOptions {
  readonly dryRun?: boolean | undefined
  /** A single service, whose host runs its worker itself. */
  readonly isSingle?: boolean | undefined
}

export async function serviceInstall(
  context: CommandContext<InstallOptions>,
  machine: InstallMachine = { ...currentMachine(), findSandbox },
): Promise<void> {
  const { output, options } = context
  const found = findManager(machine, options.dataDir)
  const plan = await planServices(found, machine, options.isSingle === true)
  if (options.dryRun === true) {
    printPlan(context, plan)
    return
  }
  const { manager, run, dataDir } = found
  await manager.requireRunning(run)
  const before = await manager.host.readState(run)
  await requireNoOtherHost(dataDir, before)
  if (plan.dropped !== undefined || (mustChange(plan.host, before) && runsOwnWorker(plan.host.installed)))
    await requireNoRunOfOwnWorker(dataDir, 'switchyard service install')
  if (plan.dropped !== undefined) await removeService(run, plan.dropped)
  const host = await bringUp(found, plan.host, isHostUp(found))
  const worker = plan.worker === undefined ? undefined : await bringUpWorker(found, plan.worker)
  await printInstalled(context, found, { host, worker })
  if (plan.why !== undefined) output.note(plan.why)
  const oldDataDir = plan.host.installed === undefined ? undefined : manager.dataDirIn(plan.host.installed)
  if (oldDataDir !== undefined && oldDataDir !== dataDir)
    output.note(`It serves ${dataDir} now; what lies in ${oldDataDir} stays there.`)
}

/** A host that was started by hand holds the data directory, so the service would end at once. */
async function requireNoOtherHost(dataDir: string, { pid }: ServiceState): Promise<void> {
  const host = await findRunningHost(dataDir)
  if (host === undefined || host.pid === pid) return
  throw refusedError(
    `another host runs for ${dataDir} already, as process ${host.pid}; nothing was changed`,
    `stop it by Ctrl-C or kill ${host.pid}, then: switchyard service install`,
  )
}

// ---- bringing it up ----------------------------------------------------------------------------------------------------

interface BroughtUp {
  readonly service: Service
  readonly change: ServiceChange | undefined
  readonly state: ServiceState
}

/** @param mustStart the program has to start again although its file is the same */
async function bringUp(
  { run }: FoundManager,
  planned: PlannedService,
  isUp: (state: ServiceState) => Promise<boolean>,
  mustStart = false,
): Promise<BroughtUp> {
  const { service, content } = planned
  const before = await service.readState(run)
  if (!mustStart && !mustChange(planned, before)) return { service, change: undefined, state: before }
  const change = fileChange(planned) ?? 'stopped'
  if (change !== 'stopped') {
    await mkdir(dirname(service.file), { recursive: true })
    await replaceFile(service.file, content)
  }
  for (const command of service.commandsFor(change)) await runChange(service, run, command)
  return { service, change, state: await waitUntilUp(service, () => service.readState(run), isUp) }
}

const isHostUp =
  ({ dataDir }: FoundManager) =>
  async ({ pid }: ServiceState): Promise<boolean> =>
    (await findRunningHost(dataDir))?.pid === pid

/** A worker that its host does not know gets a token first, in a file that only its user can read. */
async function bringUpWorker(found: FoundManager, planned: PlannedService): Promise<BroughtUp> {
  const { dataDir } = found
  const client = clientOf(dataDir)
  const isPaired = await pairMachineWorker(dataDir, client)
  const isUp = async () => (await findMachineWorker(dataDir, client))?.connection === 'online'
  return await bringUp(found, planned, isUp, isPaired)
}

const POLL_MS = 200

/** Waits until the program answers. A program that ends is an error; a slow one is not. */
async function waitUntilUp(
  { role, logCommand }: Service,
  readState: () => Promise<ServiceState>,
  isUp: (state: ServiceState) => Promise<boolean>,
): Promise<ServiceState> {
  const until = performance.now() + SERVICE_START_MS_MAX
  for (;;) {
    const state = await readState()
    if (state.exitCode !== undefined)
      throw refusedError(
        `the service is installed, but its ${role} ended with exit code ${state.exitCode}`,
        logCommand,
      )
    if ((state.running && (await isUp(state))) || performance.now() > until) return state
    await pause(POLL_MS)
  }
}

// ---- saying it ---------------------------------------------------------------------------------------------------------

async function printInstalled(
  { output, present }: CommandContext,
  { manager, run, dataDir }: FoundManager,
  { host, worker }: { readonly host: BroughtUp; readonly worker: BroughtUp | undefined },
): Promise<void> {
  const running = host.state.running ? await findRunningHost(dataDir) : undefined
  const all = worker === undefined ? [host] : [host, worker]
  if (output.format === 'json') {
    const [first, second] = all.map(({ service: { file }, change, state }) => ({
      file,
      change: change ?? null,
      ...state,
    }))
    const more = second === undefined ? {} : { worker: second }
    output.json({ manager: manager.name, dataDir, ...first, url: running?.url, ...more })
    return
  }
  for (const { service, change, state } of all) {
    const run = describeRun(state, change === undefined ? present().now : undefined)
    output.data(
      output.format === 'id'
        ? service.file
        : output.stdout.clean(`${CHANGES[change ?? 'none'](service.role)} ${run}`),
    )
    if (change !== undefined) output.note(`Its file is ${service.file}`)
  }
  if (host.state.running && running === undefined)
    output.note(`The host does not answer yet: ${host.service.logCommand}`)
  const session = await manager.findSessionNote(run)
  if (session !== undefined) output.note(session)
  output.next('switchyard service status')
}

const CHANGES: Readonly<Record<ServiceChange | 'none', (role: Service['role']) => string>> = {
  new: (role) => `installed: the ${role} starts at login and`,
  changed: (role) => `updated and restarted: the ${role}`,
  stopped: (role) => `started: the ${role}`,
  none: (role) => `nothing changed: the ${role}`,
}

/** @param now undefined for a program that was started a moment ago */
function describeRun({ running, state, pid, since }: ServiceState, now: number | undefined): string {
  if (state.startsWith('deactivating')) return 'finishes its runs, and starts again then'
  if (!running) return `does not run (${state})`
  const process = pid === undefined ? 'now' : `as process ${pid}`
  return `runs ${process}${since === undefined || now === undefined ? '' : ` for ${formatAgeOf(since, now)}`}`
}

// ---- install plan ----------------------------------------------------------------------------------------------------

export interface InstallMachine extends ServiceMachine {
  /** Says whether this machine can execute runs. */
  readonly findSandbox: () => Promise<{ readonly ok: true } | { readonly ok: false; readonly detail: string }>
}

/** A service with the file that it is to have. */
interface PlannedService {
  readonly service: Service
  readonly content: string
  readonly installed: string | undefined
}

interface InstallPlan {
  readonly host: PlannedService
  readonly worker: PlannedService | undefined
  /** The file of a worker's service that is not wanted any more. */
  readonly dropped: Service | undefined
  /** Says to the person why there is one service only. */
  readonly why: string | undefined
}

/** Plans `service install`: which services there are to be, the file of each, and the commands for that, as printed. */
async function planServices(
  found: FoundManager,
  machine: InstallMachine,
  isSingle: boolean,
): Promise<InstallPlan> {
  const { manager, dataDir } = found
  const { host, worker } = manager
  const planned = isSingle || worker === undefined ? undefined : await planWorker(found, machine)
  const why = planned?.is === 'none' ? planned.why : undefined
  const wanted = planned?.is === 'service' ? planned : undefined
  const installedWorker = worker === undefined ? undefined : await readOwnFile(worker)
  const words = ['serve', '--data-dir', dataDir, ...(wanted === undefined ? [] : ['--no-local-worker'])]
  return {
    host: { service: host, content: host.format(words, hostStopSeconds), installed: await readOwnFile(host) },
    worker:
      worker === undefined || wanted === undefined
        ? undefined
        : {
            service: worker,
            content: worker.format(wanted.words, wanted.stopSeconds),
            installed: installedWorker,
          },
    dropped: wanted === undefined && installedWorker !== undefined ? worker : undefined,
    why,
  }
}

type WorkerPlan =
  | { readonly is: 'service'; readonly words: readonly string[]; readonly stopSeconds: number }
  /** `why`: a sentence for the person. */
  | { readonly is: 'none'; readonly why: string }

async function planWorker(
  { dataDir, home }: FoundManager,
  { findSandbox }: InstallMachine,
): Promise<WorkerPlan> {
  const config = await readEffective(dataDir)
  if (!config.worker.local)
    return { is: 'none', why: 'worker.local is false, so this machine gets no worker.' }
  const sandbox = await findSandbox()
  if (!sandbox.ok) return { is: 'none', why: `This machine can't execute runs: ${sandbox.detail}` }
  const stopSeconds = workerStopSeconds(config.sandbox.maxRunMinutes)
  return { is: 'service', words: workerWords(dataDir, home, config), stopSeconds }
}

/** A configuration that can't be read stops the host, which says so. */
async function readEffective(dataDir: string): Promise<ServiceConfig> {
  const text = await readFile(join(dataDir, 'config.json'), 'utf8').catch(() => undefined)
  const read = readConfig(text)
  return read.ok ? read.value.effective : configDefaults
}

function workerWords(dataDir: string, home: string, config: ServiceConfig): readonly string[] {
  const { codeHostFolder, ...settings } = localWorkerSettings(config)
  const folder = codeHostFolder === null ? null : resolve(home, codeHostFolder)
  return [
    ...['worker', '--host-data-dir', dataDir, '--data-dir', workerFolderOf(dataDir)],
    ...['--token-file', tokenFileOf(dataDir), '--concurrency', String(settings.concurrency)],
    ...reachArguments({ localRepos: [], privateCodeHosts: [] }, { ...settings, codeHostFolder: folder }),
  ]
}

/** Undefined for a file that stays as it is. */
const fileChange = ({ content, installed }: PlannedService): ServiceChange | undefined =>
  installed === undefined ? 'new' : installed === content ? undefined : 'changed'

const mustChange = (planned: PlannedService, { running, enabled }: ServiceState): boolean =>
  fileChange(planned) !== undefined || !running || !enabled

function printPlan({ output }: CommandContext, { host, worker, dropped, why }: InstallPlan): void {
  const plans = [host, ...(worker === undefined ? [] : [worker])].map((planned) => {
    const { service, content } = planned
    const change = fileChange(planned)
    const commands = change === undefined ? [] : service.commandsFor(change).map(shellLine)
    return { file: service.file, content, change: change ?? null, commands }
  })
  const removal = dropped === undefined ? [] : [...dropped.beforeRemoval, ...dropped.afterRemoval]
  const [first, second] = plans
  if (output.format === 'json') output.json({ ...first, ...(second === undefined ? {} : { worker: second }) })
  else if (output.format === 'id') for (const { file } of plans) output.data(file)
  else {
    for (const { file, content, commands } of plans) {
      output.data(`# ${file}\n${content.trimEnd()}`)
      const then =
        commands.length === 0 ? '# The installed file is the same.' : `# Then:\n${commands.join('\n')}`
      output.data(then)
    }
    if (dropped !== undefined)
      output.data(`# ${dropped.file} is removed:\n${removal.map(shellLine).join('\n')}`)
  }
  if (why !== undefined) output.note(why)
  output.note('Nothing was changed.')
}

const shellLine = ({ words }: ServiceCommand): string => words.map(quoteWord).join(' ')
