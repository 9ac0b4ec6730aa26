/** `switchyard service status` and `uninstall`: say how the services of this user are, and remove them. */
import { quoteWord } from '../../../protocol/quote-word.ts'
import { formatClock } from '../../output/times.ts'
import { EXIT } from '../../process/exit.ts'
import type { CommandContext } from '../command/run-command.ts'
import { readOwnFile, removeService, requireNoRunOfOwnWorker, runsOwnWorker } from './installed-services.ts'
import { currentMachine, findManager, type ServiceMachine } from './machine.ts'
import { findRunningHost } from './running-host.ts'
import type { Service, ServiceManager, ServiceState } from './service-manager.ts'

// ---- status --------------------------------------------------------------------------------------------------------

/** Ends with 0 when every installed service runs, and with 1 when one does not. */
export async function status(
  { output, options, present }: CommandContext,
  machine: ServiceMachine = currentMachine(),
): Promise<number> {
  const { manager, run, dataDir: chosenDataDir } = findManager(machine, options.dataDir)
  const { name, host } = manager
  const { file } = host
  const [content, worker] = [await readOwnFile(host), await findInstalled(manager.worker)]
  if (content === undefined) {
    if (output.format === 'json')
      output.json({ manager: name, file, installed: false, enabled: false, running: false })
    else if (output.format !== 'id') output.data('not installed')
    output.next('switchyard service install')
    return EXIT.refused
  }
  await manager.requireRunning(run)
  const dataDir = manager.dataDirIn(content) ?? chosenDataDir
  const [state, session, ofWorker] = await Promise.all([
    host.readState(run),
    manager.findSessionNote(run),
    worker?.readState(run),
  ])
  const running = state.running ? await findRunningHost(dataDir) : undefined
  const own = running?.pid === state.pid ? running : undefined
  // launchd does not say since when the host runs.
  const known = { ...state, since: state.since ?? own?.startedAt, url: own?.url, dataDir, worker: ofWorker }
  if (output.format === 'json') {
    const more = worker === undefined ? {} : { worker: { file: worker.file, ...ofWorker } }
    output.json({ manager: name, file, installed: true, ...known, ...more })
  } else if (output.format === 'id')
    for (const each of [host, ...(worker === undefined ? [] : [worker])]) output.data(each.file)
  else printState({ output, present }, manager, known)
  if (session !== undefined) output.note(session)
  const stopped = !state.running ? host : ofWorker?.running === false ? worker : undefined
  if (stopped !== undefined) output.next(stopped.logCommand, 'switchyard service install')
  return stopped === undefined ? EXIT.done : EXIT.refused
}

const findInstalled = async (service: Service | undefined): Promise<Service | undefined> =>
  service !== undefined && (await readOwnFile(service)) !== undefined ? service : undefined

type KnownState = Omit<ServiceState, 'since'> & {
  readonly since: string | undefined
  readonly url: string | undefined
  readonly dataDir: string
  readonly worker: ServiceState | undefined
}

function printState(
  { output, present }: Pick<CommandContext, 'output' | 'present'>,
  { name, host }: ServiceManager,
  known: KnownState,
): void {
  const { enabled, url, dataDir, worker } = known
  const describe = (
    { running, state, pid, since, exitCode }: Omit<ServiceState, 'since'> & { since?: string | undefined },
    role: Service['role'],
  ) => {
    const clock = since === undefined ? '' : ` since ${formatClock(Date.parse(since), present())}`
    const ended = exitCode === undefined ? '' : `, its ${role} ended with exit code ${exitCode}`
    return running ? `running${clock}, process ${pid ?? '-'}` : `not running: ${state}${ended}`
  }
  output.data(describe(known, 'host'))
  const lines = [
    ...(worker === undefined ? [] : [['worker', describe(worker, 'worker')]]),
    ['at login', enabled ? 'starts' : output.completeCommands('does not start: switchyard service install')],
    ...(url === undefined ? [] : [['address', url]]),
    ['data', dataDir],
    [name, host.file],
  ]
  for (const [what = '', text = ''] of lines) output.data(output.stdout.clean(`${what.padEnd(10)}${text}`))
}

// ---- uninstall -----------------------------------------------------------------------------------------------------

export async function uninstall(
  { output, options }: CommandContext,
  machine: ServiceMachine = currentMachine(),
): Promise<void> {
  const { manager, run, dataDir: chosenDataDir } = findManager(machine, options.dataDir)
  const { host } = manager
  const [content, worker] = [await readOwnFile(host), await findInstalled(manager.worker)]
  const dataDir = (content === undefined ? undefined : manager.dataDirIn(content)) ?? chosenDataDir
  // The worker first: it reports to the host what it has finished.
  const installed = [...(worker === undefined ? [] : [worker]), ...(content === undefined ? [] : [host])]
  if (installed.length > 0) {
    await manager.requireRunning(run)
    if (worker !== undefined || runsOwnWorker(content))
      await requireNoRunOfOwnWorker(dataDir, 'switchyard service uninstall')
    for (const service of installed) await removeService(run, service)
  }
  const isRemoved = installed.length > 0
  if (output.format === 'json') output.json({ file: host.file, removed: isRemoved, dataDir })
  else if (output.format === 'id') output.data(host.file)
  else
    output.data(
      isRemoved
        ? installed.map(({ file }) => `removed: ${file}`).join('\n')
        : 'not installed, so nothing was removed',
    )
  if (!isRemoved) return
  output.note(`All data stays in ${dataDir}`)
  output.next(`switchyard serve --data-dir ${quoteWord(dataDir)}`)
}
