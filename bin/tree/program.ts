/**
 * The tree of all commands. A start builds only the command that is named, and each command loads what it does only
 * when it runs.
 */
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings'
import { VERSION } from '../version.ts'
import { auditCommand } from './audit.ts'
import { checkDataCommand } from './check-data.ts'
import { completeCommand, completionCommand } from './completion.ts'
import { configCommand } from './config.ts'
import { connectCommand } from './connect.ts'
import { costsCommand } from './costs.ts'
import { deployCommand } from './deploy.ts'
import { doctorCommand } from './doctor.ts'
import {
  apiCommand,
  attachCommand,
  explainCommand,
  logsCommand,
  pathsCommand,
  pauseCommand,
  resumeCommand,
  startCommand,
  statusCommand,
  ticketsCommand,
  topCommand,
  versionCommand,
} from './everyday.ts'
import { helpCommand } from './help.ts'
import { initCommand } from './init.ts'
import { memoriesCommand } from './memories.ts'
import { dashboardCommand, inspectCommand } from './pages.ts'
import { mcpCommand, oauthHelperCommand, quickstartCommand, serveCommand, workerCommand } from './programs.ts'
import { pullsCommand } from './pulls.ts'
import { ROOT_HELP } from './root-help.ts'
import { cancelVerb, discardVerb, followUpVerb, releaseVerb, retryVerb, runsCommand } from './runs.ts'
import { serviceCommand } from './service.ts'
import { superviseCommand } from './supervise.ts'
import { throwUsageErrors } from './usage-errors.ts'
import { workersCommand } from './workers.ts'

/** The builder of each command at the top of the tree, by the command's name. */
const COMMANDS: Readonly<Record<string, () => CommandUnknownOpts>> = {
  status: statusCommand,
  start: startCommand,
  logs: logsCommand,
  explain: explainCommand,
  top: topCommand,
  attach: attachCommand,
  dashboard: dashboardCommand,
  inspect: inspectCommand,
  pause: pauseCommand,
  resume: resumeCommand,
  tickets: ticketsCommand,
  runs: runsCommand,
  cancel: cancelVerb,
  retry: retryVerb,
  followup: followUpVerb,
  release: releaseVerb,
  discard: discardVerb,
  workers: workersCommand,
  pulls: pullsCommand,
  memories: memoriesCommand,
  costs: costsCommand,
  init: initCommand,
  connect: connectCommand,
  config: configCommand,
  deploy: deployCommand,
  doctor: doctorCommand,
  'check-data': checkDataCommand,
  audit: auditCommand,
  service: serviceCommand,
  completion: completionCommand,
  paths: pathsCommand,
  api: apiCommand,
  version: versionCommand,
  serve: serveCommand,
  worker: workerCommand,
  supervise: superviseCommand,
  quickstart: quickstartCommand,
  'oauth-helper': oauthHelperCommand,
  mcp: mcpCommand,
  help: () => helpCommand(createProgram),
  complete: () => completeCommand(createProgram),
}
/** Commands that no person types. */
const HIDDEN: ReadonlySet<string> = new Set(['complete'])

/** The whole tree. */
export function createProgram(): Command {
  return createRoot(Object.keys(COMMANDS), [])
}

/**
 * The named command alone, or the whole tree when the first word names none, so that unknown words are still answered
 * with a suggestion.
 */
export function createProgramFor(words: readonly string[]): Command {
  const name = words[0] ?? ''
  return createRoot(Object.hasOwn(COMMANDS, name) ? [name] : Object.keys(COMMANDS), words)
}

function createRoot(names: readonly string[], words: readonly string[]): Command {
  const program = new Command('switchyard').version(VERSION).exitOverride().enablePositionalOptions()
  program.helpInformation = () => ROOT_HELP
  for (const name of names) program.addCommand(builderOf(name)(), { hidden: HIDDEN.has(name) })
  throwUsageErrors(program, words)
  return program
}

function builderOf(name: string): () => CommandUnknownOpts {
  const builder = COMMANDS[name]
  if (builder === undefined) throw new Error(`There is no command ${name}.`)
  return builder
}
