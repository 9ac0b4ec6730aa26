/**
 * `switchyard service install`: makes the host and the worker of this machine services of this user.
 *
 * Two services let the host restart without its runs. With `--one`, and where this machine can't execute runs, there is
 * one. The command may be repeated, also in the other form: it changes nothing that is as it should be, replaces no file
 * that another program or person wrote, and restarts nothing that would end a run.
 */
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { SERVICE_START_MS_MAX } from '../../protocol/limits.ts'
import { replaceFile } from '../../store/files/atomic.ts'
import { findSandbox } from '../../worker/sandbox/registry.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { EXIT, ExitError } from '../exit.ts'
import { formatAgeOf } from '../output/times.ts'
import {
  fileChange,
  type InstallMachine,
  mustChange,
  type PlannedService,
  planServices,
  printPlan,
} from '../service/install-plan.ts'
import { removeService, requireNoRunOfOwnWorker, runsOwnWorker } from '../service/installed-services.ts'
import { currentMachine, type FoundManager, findManager } from '../service/machine.ts'
import { findMachineWorker, pairMachineWorker } from '../service/machine-worker.ts'
import { runChange } from '../service/run-manager.ts'
import { clientOf, findRunningHost } from '../service/running-host.ts'
import type { Service, ServiceChange, ServiceState } from '../service/service-manager.ts'

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
  throw new ExitError(
    EXIT.refused,
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
      throw new ExitError(
        EXIT.refused,
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
