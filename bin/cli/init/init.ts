/**
 * `switchyard init`: finds the programs of this machine, asks three questions, and writes a first configuration.
 *
 * The configuration pauses the dispatch, so nothing starts before `switchyard resume`. An existing file is extended by
 * the writer that the host uses, under the lock of its data directory; a running host changes its own settings.
 */
import { join, resolve } from 'node:path'
import { settingSentence } from '../../../client/settings.ts'
import type { Log } from '../../../core/ports/log.ts'
import { decideChange } from '../../../core/settings/change.ts'
import { readConfig } from '../../../core/settings/read.ts'
import type { CompletedConfig, ServiceConfig } from '../../../protocol/config.ts'
import {
  CODE_HOST_FACTS,
  isFolder,
  TRACKER_FACTS,
  type TrackerDriverName,
} from '../../../protocol/drivers.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import { makeOwnerOnly } from '../../../store/data-folder.ts'
import { DataDirInUse } from '../../../store/errors.ts'
import { makeFolder } from '../../../store/files/atomic.ts'
import { ConfigFileOnDisk } from '../../../store/files/config-file.ts'
import { acquireLock } from '../../../store/lock.ts'
import { findTlsFault } from '../../../transport/listener-port.ts'
import { shortenHome } from '../../output/short-names.ts'
import { columnsOf } from '../../output/text-width.ts'
import { realClock, realRandom } from '../../process/clock.ts'
import { dataDirElsewhere, resolveDataDir } from '../../process/data-dir.ts'
import { EXIT, ExitError, refusedError, usageError } from '../../process/exit.ts'
import { inDataDir } from '../../process/store-exit-code.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { findRunningHost } from '../service/running-host.ts'
import { askAnswers, type GivenAnswers, isRepository, ruleOfLabel } from './ask-answers.ts'
import { type FoundTools, findOriginRepository, findTools } from './find-tools.ts'
import { findAmbiguousRepos, type InitAnswers, type PlannedConfig, planConfig } from './plan-config.ts'

export interface InitOptions extends ClientOptions {
  readonly tracker?: TrackerDriverName | undefined
  readonly repo?: string | undefined
  readonly label?: string | undefined
  readonly allOpen?: boolean | undefined
  readonly folder?: string | undefined
}

type InitContext = CommandContext<InitOptions>

export async function init(context: InitContext): Promise<undefined> {
  const { output, questions, options } = context
  const dataDir = findDataDir(options)
  await requireNoHost(dataDir)
  const file = openConfigFile(context, dataDir)
  const text = await inDataDir(dataDir, () => file.read())
  const current = readCurrent(file, text)
  const mayAsk = questions.mayAsk && output.format !== 'json'
  const origin = await findOriginRepository(process.cwd())
  const given = givenAnswers(options, { mayAsk, origin, dataDir })
  const tools = await findTools(process.env)
  printTools(context, tools)
  const configuredDriver = current.stored.tracker?.driver
  const answers = await askAnswers(given, { questions, output, dataDir, configuredDriver, origin })
  requireOwnKey(current, answers)
  const planned = planConfig(current, { ...answers, agent: tools.agent })
  const decided = decideChange(current, planned.patch, findTlsFault)
  if (!decided.ok) throw usageError(`${file.path} ${decided.refusal.message}`)
  if (planned.changes.length > 0) {
    printPlanned(context, file.path, planned)
    if (options.yes !== true && !(await questions.confirm('Write it?', true))) {
      output.note('Nothing was changed.')
      return undefined
    }
    const writing = { dataDir, expected: text, text: decided.value.text, answers }
    await inDataDir(dataDir, () => writeConfig(file, writing))
  }
  printWritten(context, file.path, { planned, answers, tools, effective: decided.value.effective })
  printAmbiguity(context, decided.value.effective)
  return undefined
}

// ---- what is there -------------------------------------------------------------------------------------------------

/** With an address in the environment the host may be on another machine. */
function findDataDir({ dataDir }: InitOptions): string {
  if ((process.env.SWITCHYARD_URL ?? '') === '') return resolveDataDir(dataDir)
  throw usageError(
    'SWITCHYARD_URL names a host, and init writes the configuration of a host that does not run yet',
    'unset SWITCHYARD_URL, or: switchyard config set KEY VALUE',
  )
}

const HOST_CURE = 'switchyard config set KEY VALUE, or stop the host first'

async function requireNoHost(dataDir: string): Promise<void> {
  const host = await findRunningHost(dataDir)
  if (host !== undefined) throw hostRuns(dataDir, host.pid)
}

const hostRuns = (dataDir: string, pid: number): ExitError =>
  refusedError(`a host runs for ${dataDir}, as process ${pid}; nothing was changed`, HOST_CURE)

function openConfigFile({ output }: InitContext, dataDir: string): ConfigFileOnDisk {
  const warn = (_: unknown, message: string) => output.warn(message)
  const log: Log = { debug: () => {}, info: () => {}, warn, error: warn }
  return new ConfigFileOnDisk(join(dataDir, 'config.json'), realClock, log)
}

function readCurrent({ path }: ConfigFileOnDisk, text: string | undefined): CompletedConfig {
  const read = readConfig(text)
  if (read.ok) return read.value
  throw new ExitError(
    EXIT.config,
    `${path} does not validate: ${settingSentence(read.refusal.message)}`,
    'switchyard config edit',
  )
}

/** The key of one service must not reach another one. */
function requireOwnKey(
  { effective: { tracker } }: CompletedConfig,
  { driver }: Pick<InitAnswers, 'driver'>,
): void {
  if (driver === tracker.driver || (tracker.apiKey ?? '') === '' || isFolder(TRACKER_FACTS[driver])) return
  throw refusedError(
    `tracker.apiKey is a key of ${tracker.driver}, and ${driver} must not get it; nothing was changed`,
    'switchyard serve, and then: switchyard config unset tracker.apiKey',
  )
}

interface InitDefaults {
  readonly mayAsk: boolean
  readonly origin: string | undefined
  readonly dataDir: string
}

/** Answers of the options. Without a terminal these and the defaults answer everything. */
function givenAnswers(options: InitOptions, { mayAsk, origin, dataDir }: InitDefaults): GivenAnswers {
  const { tracker: driver, repo, label, allOpen, folder } = options
  if (repo !== undefined && !isRepository(repo))
    throw usageError(`--repo ${repo} is no repository; it is like acme/api`)
  if (allOpen === true && label !== undefined) throw usageError('--label and --all-open exclude one another')
  const repository = repo ?? (mayAsk ? undefined : origin)
  const rule = allOpen === true ? ({ is: 'all' } as const) : undefined
  const given: GivenAnswers = {
    ...(driver === undefined ? {} : { driver }),
    ...(repository === undefined ? {} : { repository }),
    ...(rule === undefined ? {} : { starts: rule }),
    ...(folder === undefined ? {} : { folder: resolve(folder) }),
    label,
  }
  if (mayAsk)
    return label === undefined || driver === undefined
      ? given
      : { starts: ruleOfLabel(driver, label), ...given }
  const missing = [
    ...(driver === undefined ? ['--tracker'] : []),
    ...(repository === undefined ? ['--repo'] : []),
    ...(options.yes === true ? [] : ['--yes']),
  ]
  if (driver === undefined || missing.length > 0)
    throw usageError(
      `without a terminal init needs ${missing.join(', ')}`,
      completedCommand(options, driver, repository),
    )
  return { folder: join(dataDir, 'tickets'), starts: ruleOfLabel(driver, label), ...given }
}

/** The command as it was given, with what it lacks. */
function completedCommand(
  { label, allOpen, folder }: InitOptions,
  driver = folder === undefined ? 'github' : 'local',
  repository = 'acme/api',
): string {
  const which = label === undefined ? (allOpen === true ? ' --all-open' : '') : ` --label ${quoteWord(label)}`
  const where = folder === undefined ? '' : ` --folder ${quoteWord(folder)}`
  return `switchyard init --tracker ${driver} --repo ${repository}${which}${where} --yes`
}

// ---- what is written -----------------------------------------------------------------------------------------------

interface ConfigWriting {
  readonly dataDir: string
  /** The text that was read before the questions. */
  readonly expected: string | undefined
  readonly text: string
  readonly answers: Omit<InitAnswers, 'agent'>
}

async function writeConfig(
  file: ConfigFileOnDisk,
  { dataDir, expected, text, answers }: ConfigWriting,
): Promise<void> {
  await makeOwnerOnly(dataDir, ['state', 'config.json'])
  const lock = lockOf(dataDir)
  try {
    // First, because a configuration may not name a folder that can't be there.
    if (answers.folder !== undefined) await makeTicketFolder(answers.folder)
    const outcome = await file.replace(expected, text)
    if (outcome.is === 'changed')
      throw refusedError(`${file.path} was edited meanwhile; nothing was changed`, 'switchyard init')
  } finally {
    lock.release()
  }
}

async function makeTicketFolder(folder: string): Promise<void> {
  try {
    await makeFolder(folder)
  } catch (error) {
    throw refusedError(
      `the folder of the tickets can't be made: ${messageOf(error)}; nothing was changed`,
      'switchyard init --folder PATH',
    )
  }
}

function lockOf(dataDir: string): ReturnType<typeof acquireLock> {
  try {
    return acquireLock(dataDir, { clock: realClock, random: realRandom })
  } catch (error) {
    if (error instanceof DataDirInUse) throw refusedError(error.message, HOST_CURE)
    throw error
  }
}

// ---- what is printed -----------------------------------------------------------------------------------------------

type PrintContext = Pick<CommandContext<ClientOptions>, 'output' | 'options'>

function printTools({ output }: PrintContext, { found, problems }: FoundTools): void {
  output.note(`Found: ${found.length === 0 ? 'nothing that runs need' : found.join(', ')}`)
  for (const problem of problems) output.note(`Missing: ${problem}`)
}

/** The question needs these lines, so `--quiet` does not leave them out before one. */
function printPlanned({ output, options }: PrintContext, path: string, { changes }: PlannedConfig): void {
  const columns = Math.min(output.stderr.width, LINE_COLUMNS_MAX)
  const lines: string[] = []
  for (const change of changes.map((each) => output.stderr.clean(each))) {
    const joined = `${lines.at(-1) ?? '  '}${lines.length === 0 ? '' : ', '}${change}`
    if (lines.length > 0 && joined.length > columns) lines.push(`  ${change}`)
    else lines.splice(-1, 1, joined)
  }
  const text = [`To be written to ${shortenHome(path)}:`, ...lines].join('\n')
  if (options.yes !== true || output.hasNotes) output.writeError(`${text}\n`)
}

const LINE_COLUMNS_MAX = 80

interface WrittenConfig {
  readonly planned: PlannedConfig
  readonly answers: Omit<InitAnswers, 'agent'>
  readonly tools: FoundTools
  readonly effective: ServiceConfig
}

/** Issues are read with the token of the code host. */
const needsTrackerKey = (driver: TrackerDriverName): boolean =>
  !isFolder(TRACKER_FACTS[driver]) && TRACKER_FACTS[driver].listsRepositoryIssues !== true

function printWritten(
  { output, options }: PrintContext,
  path: string,
  { planned, answers, tools, effective }: WrittenConfig,
): void {
  const isChanged = planned.changes.length > 0
  if (output.format === 'json') {
    output.json({ path, written: isChanged, changes: planned.patch })
    return
  }
  const result = isChanged ? 'Written.' : 'The configuration says all of it already.'
  if (output.format === 'id') output.data(path)
  else if (!output.stdout.isTerminal) output.data(`${isChanged ? 'written' : 'unchanged'}: ${path}`)
  // The variable of this terminal may not be set in another one.
  const complete = (command: string) => output.completeCommands(command, dataDirElsewhere(options.dataDir))
  const serve = complete('switchyard serve')
  const connects = [
    ...(needsTrackerKey(answers.driver) ? ['connect tracker'] : []),
    ...(isFolder(CODE_HOST_FACTS[effective.codehost.driver]) ? [] : ['connect codehost']),
    ...(tools.agent === undefined ? [] : [`connect ${tools.agent}`]),
    'resume',
  ].map((words) => complete(`switchyard ${words}`))
  if (!output.hasNotes) return
  const short = [`${result} Next: ${serve}; then in another terminal:`, `  ${connects.join('; ')}`]
  // A command that is to be copied is never cut.
  const long = [
    `${result} Next:`,
    `  ${serve}`,
    'Then in another terminal:',
    ...connects.map((command) => `  ${command}`),
  ]
  const fits = short.every((line) => columnsOf(line) <= output.stderr.width)
  output.writeError(`${(fits ? short : long).join('\n')}\n`)
}

function printAmbiguity({ output }: PrintContext, effective: ServiceConfig): void {
  const keys = findAmbiguousRepos(effective)
  if (keys.length === 0) return
  output.note(
    `Each ticket fits ${keys.join(', ')}, so none starts. Give each a label: switchyard config set repos.${keys[0]}.label NAME`,
  )
}
