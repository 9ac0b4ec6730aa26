/** Plans `service install`: which services there are to be, the file of each, and the commands for that, as printed. */
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { localWorkerSettings } from '../../core/fleet/local-worker-settings.ts'
import { hostStopSeconds, workerStopSeconds } from '../../core/service/systemd-unit.ts'
import { readConfig } from '../../core/settings/read.ts'
import { configDefaults, type ServiceConfig } from '../../protocol/config.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { reachArguments } from '../../providers/local-worker.ts'
import type { CommandContext } from '../client/run-command.ts'
import { readOwnFile } from './installed-services.ts'
import type { FoundManager, ServiceMachine } from './machine.ts'
import { tokenFileOf, workerFolderOf } from './machine-worker.ts'
import type { Service, ServiceChange, ServiceCommand, ServiceState } from './service-manager.ts'

export interface InstallMachine extends ServiceMachine {
  /** Says whether this machine can execute runs. */
  readonly findSandbox: () => Promise<{ readonly ok: true } | { readonly ok: false; readonly detail: string }>
}

/** A service with the file that it is to have. */
export interface PlannedService {
  readonly service: Service
  readonly content: string
  readonly installed: string | undefined
}

export interface InstallPlan {
  readonly host: PlannedService
  readonly worker: PlannedService | undefined
  /** The file of a worker's service that is not wanted any more. */
  readonly dropped: Service | undefined
  /** Says to the person why there is one service only. */
  readonly why: string | undefined
}

export async function planServices(
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
export const fileChange = ({ content, installed }: PlannedService): ServiceChange | undefined =>
  installed === undefined ? 'new' : installed === content ? undefined : 'changed'

export const mustChange = (planned: PlannedService, { running, enabled }: ServiceState): boolean =>
  fileChange(planned) !== undefined || !running || !enabled

export function printPlan({ output }: CommandContext, { host, worker, dropped, why }: InstallPlan): void {
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
