/**
 * `switchyard service`: installs the host as a service of this user, says how it is, and removes it.
 *
 * Every command may be repeated. A file that another program or person wrote is never replaced or removed.
 */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { SERVICE_START_MS_MAX } from '../../protocol/limits.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { replaceFile } from '../../store/files/atomic.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { EXIT, ExitError } from '../exit.ts'
import { formatAgeOf, formatClock } from '../output/times.ts'
import { currentMachine, type FoundManager, findManager, type ServiceMachine } from '../service/machine.ts'
import { runChange, runServiceCommand } from '../service/run-manager.ts'
import { findRunningHost } from '../service/running-host.ts'
import {
  BY_SWITCHYARD,
  type ServiceChange,
  type ServiceCommand,
  type ServiceManager,
  type ServiceState,
} from '../service/service-manager.ts'

export interface InstallOptions extends ClientOptions {
  readonly dryRun?: boolean | undefined
}

// ---- install -------------------------------------------------------------------------------------------------------

export async function install(
  context: CommandContext<InstallOptions>,
  machine: ServiceMachine = currentMachine(),
): Promise<void> {
  const { output, options } = context
  const found = findManager(machine, options.dataDir)
  const { manager, run, dataDir } = found
  const installed = await readOwnFile(manager)
  const isSame = installed === manager.content
  const fileChange = installed === undefined ? 'new' : 'changed'
  if (options.dryRun === true) {
    printPlan(context, manager, isSame ? undefined : fileChange)
    return
  }
  await manager.requireRunning(run)
  const before = await manager.readState(run)
  if (isSame && before.running && before.enabled) {
    await printInstalled(context, found, { before, change: undefined })
    return
  }
  await requireNoOtherHost(dataDir, before)
  if (!isSame) {
    await mkdir(dirname(manager.file), { recursive: true })
    await replaceFile(manager.file, manager.content)
  }
  const change = isSame ? 'stopped' : fileChange
  for (const command of manager.commandsFor(change)) await runChange(manager, run, command)
  const state = await waitUntilRunning(found)
  await printInstalled(context, found, { before: state, change })
  const oldDataDir = installed === undefined ? undefined : manager.dataDirIn(installed)
  if (oldDataDir !== undefined && oldDataDir !== dataDir)
    output.note(`It serves ${dataDir} now; what lies in ${oldDataDir} stays there.`)
}

/** Refuses a file without the mark of this command. */
async function readOwnFile({ file }: ServiceManager): Promise<string | undefined> {
  const text = await readFile(file, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return undefined
    throw new ExitError(EXIT.refused, `${file} cannot be read (${error.code})`)
  })
  if (text === undefined || text.includes(BY_SWITCHYARD)) return text
  throw new ExitError(
    EXIT.refused,
    `${file} was not written by switchyard; nothing was changed`,
    `mv ${quoteWord(file)} ${quoteWord(`${file}.old`)}`,
  )
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

const POLL_MS = 200

/** Waits until the host of the service answers. A host that ends is an error; one that is slow is not. */
async function waitUntilRunning({ manager, run, dataDir }: FoundManager): Promise<ServiceState> {
  const until = performance.now() + SERVICE_START_MS_MAX
  for (;;) {
    const state = await manager.readState(run)
    if (state.exitCode !== undefined)
      throw new ExitError(
        EXIT.refused,
        `the service is installed, but its host ended with exit code ${state.exitCode}`,
        manager.logCommand,
      )
    const host = state.running ? await findRunningHost(dataDir) : undefined
    if ((host !== undefined && host.pid === state.pid) || performance.now() > until) return state
    await pause(POLL_MS)
  }
}

function printPlan(
  { output }: CommandContext,
  { file, content, commandsFor }: ServiceManager,
  change: ServiceChange | undefined,
): void {
  const commands = change === undefined ? [] : commandsFor(change).map(shellLine)
  if (output.format === 'json') output.json({ file, content, change: change ?? null, commands })
  else if (output.format === 'id') output.data(file)
  else {
    output.data(`# ${file}\n${content.trimEnd()}`)
    output.data(
      commands.length === 0 ? '# The installed file is the same.' : `# Then:\n${commands.join('\n')}`,
    )
  }
  output.note('Nothing was changed.')
}

const shellLine = ({ words }: ServiceCommand): string => words.map(quoteWord).join(' ')

async function printInstalled(
  { output, present }: CommandContext,
  { manager, run, dataDir }: FoundManager,
  { before, change }: { readonly before: ServiceState; readonly change: ServiceChange | undefined },
): Promise<void> {
  const { name, file } = manager
  const host = before.running ? await findRunningHost(dataDir) : undefined
  if (output.format === 'json') {
    output.json({ manager: name, file, dataDir, change: change ?? null, ...before, url: host?.url })
    return
  }
  if (output.format === 'id') output.data(file)
  else
    output.data(
      output.stdout.clean(
        `${CHANGES[change ?? 'none']} ${describeRun(before, change === undefined ? present().now : undefined)}`,
      ),
    )
  if (change !== undefined) output.note(`Its file is ${file}`)
  if (before.running && host === undefined) output.note(`It does not answer yet: ${manager.logCommand}`)
  const session = await manager.findSessionNote(run)
  if (session !== undefined) output.note(session)
  output.next('switchyard service status')
}

const CHANGES: Readonly<Record<ServiceChange | 'none', string>> = {
  new: 'installed: the host starts at login and',
  changed: 'updated and restarted: the host',
  stopped: 'started: the host',
  none: 'nothing changed: the host',
}

/** @param now undefined for a host that was started a moment ago */
function describeRun({ running, state, pid, since }: ServiceState, now: number | undefined): string {
  if (!running) return `does not run (${state})`
  const process = pid === undefined ? 'now' : `as process ${pid}`
  return `runs ${process}${since === undefined || now === undefined ? '' : ` for ${formatAgeOf(since, now)}`}`
}

// ---- status --------------------------------------------------------------------------------------------------------

/** Ends with 0 when the host runs, and with 1 when it does not. */
export async function status(
  { output, options, present }: CommandContext,
  machine: ServiceMachine = currentMachine(),
): Promise<number> {
  const { manager, run, dataDir: chosenDataDir } = findManager(machine, options.dataDir)
  const { name, file } = manager
  const content = await readOwnFile(manager)
  if (content === undefined) {
    if (output.format === 'json')
      output.json({ manager: name, file, installed: false, enabled: false, running: false })
    else if (output.format !== 'id') output.data('not installed')
    output.next('switchyard service install')
    return EXIT.refused
  }
  await manager.requireRunning(run)
  const dataDir = manager.dataDirIn(content) ?? chosenDataDir
  const [state, session] = await Promise.all([manager.readState(run), manager.findSessionNote(run)])
  const host = state.running ? await findRunningHost(dataDir) : undefined
  const own = host?.pid === state.pid ? host : undefined
  // launchd does not say since when the host runs.
  const known = { ...state, since: state.since ?? own?.startedAt, url: own?.url, dataDir }
  if (output.format === 'json') output.json({ manager: name, file, installed: true, ...known })
  else if (output.format === 'id') output.data(file)
  else printState({ output, present }, manager, known)
  if (session !== undefined) output.note(session)
  if (!state.running) output.next(manager.logCommand, 'switchyard service install')
  return state.running ? EXIT.done : EXIT.refused
}

type KnownState = Omit<ServiceState, 'since'> & {
  readonly since: string | undefined
  readonly url: string | undefined
  readonly dataDir: string
}

function printState(
  { output, present }: Pick<CommandContext, 'output' | 'present'>,
  { name, file }: ServiceManager,
  { running, state, pid, since, exitCode, enabled, url, dataDir }: KnownState,
): void {
  const clock = since === undefined ? '' : ` since ${formatClock(Date.parse(since), present())}`
  const ended = exitCode === undefined ? '' : `, its host ended with exit code ${exitCode}`
  output.data(running ? `running${clock}, process ${pid ?? '-'}` : `not running: ${state}${ended}`)
  const lines = [
    ['at login', enabled ? 'starts' : output.nameDataDir('does not start: switchyard service install')],
    ...(url === undefined ? [] : [['address', url]]),
    ['data', dataDir],
    [name, file],
  ]
  for (const [what = '', text = ''] of lines) output.data(output.stdout.clean(`${what.padEnd(10)}${text}`))
}

// ---- uninstall -----------------------------------------------------------------------------------------------------

export async function uninstall(
  { output, options }: CommandContext,
  machine: ServiceMachine = currentMachine(),
): Promise<void> {
  const { manager, run, dataDir: chosenDataDir } = findManager(machine, options.dataDir)
  const { file } = manager
  const content = await readOwnFile(manager)
  const dataDir = (content === undefined ? undefined : manager.dataDirIn(content)) ?? chosenDataDir
  if (content !== undefined) {
    await manager.requireRunning(run)
    for (const command of manager.beforeRemoval) await runServiceCommand(run, command)
    await rm(file, { force: true })
    for (const command of manager.afterRemoval) await runServiceCommand(run, command)
  }
  if (output.format === 'json') output.json({ file, removed: content !== undefined, dataDir })
  else if (output.format === 'id') output.data(file)
  else output.data(content === undefined ? 'not installed, so nothing was removed' : `removed: ${file}`)
  if (content === undefined) return
  output.note(`All data stays in ${dataDir}`)
  output.next(`switchyard serve --data-dir ${quoteWord(dataDir)}`)
}
