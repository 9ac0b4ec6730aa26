/**
 * The tree of all commands. A start builds only the command that is named, and each command loads what it does only
 * when it runs.
 */
import { Command, type CommandUnknownOpts, Help } from '@commander-js/extra-typings'
import { dashboardCommand, inspectCommand } from '../pages/pages-command.ts'
import { startedAs, VERSION } from '../process/this-program.ts'
import { oauthHelperCommand } from '../programs/oauth-helper/oauth-helper-command.ts'
import { quickstartCommand } from '../programs/quickstart/quickstart-command.ts'
import { serveCommand } from '../programs/serve/serve-command.ts'
import { superviseCommand } from '../programs/supervise/supervise-command.ts'
import { workerCommand } from '../programs/worker/worker-command.ts'
import { apiCommand, pathsCommand, versionCommand } from './api/api-command.ts'
import { attachCommand } from './attach/attach-command.ts'
import { throwUsageErrors } from './command/usage-errors.ts'
import { costsCommand } from './costs/costs-command.ts'
import { auditCommand, checkDataCommand } from './data/data-command.ts'
import { deployCommand } from './deploy/deploy-command.ts'
import { doctorCommand } from './doctor/doctor-command.ts'
import { completeCommand, completionCommand, helpCommand } from './help/help-command.ts'
import { initCommand } from './init/init-command.ts'
import { mcpCommand } from './mcp/mcp-command.ts'
import { memoriesCommand } from './memories/memories-command.ts'
import { pullsCommand } from './pulls/pulls-command.ts'
import {
  cancelVerb,
  discardVerb,
  followUpVerb,
  logsCommand,
  releaseVerb,
  retryVerb,
  runsCommand,
} from './runs/runs-command.ts'
import { serviceCommand } from './service/service-command.ts'
import { configCommand, connectCommand } from './settings/settings-command.ts'
import { explainCommand, pauseCommand, resumeCommand, statusCommand } from './status/status-command.ts'
import { startCommand, ticketsCommand } from './tickets/tickets-command.ts'
import { topCommand } from './top/top-command.ts'
import { workersCommand } from './workers/workers-command.ts'

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
  program.helpInformation = () => withStartWords(ROOT_HELP)
  for (const name of names) program.addCommand(builderOf(name)(), { hidden: HIDDEN.has(name) })
  throwUsageErrors(program, words)
  nameProgram(program)
  return program
}

/** Help begins with the words by which this program was started, so that a person can copy its lines. */
function nameProgram(command: CommandUnknownOpts): void {
  const { commandUsage } = new Help()
  command.configureHelp({ commandUsage: (named) => withStartWords(commandUsage(named)) })
  for (const verb of command.commands) nameProgram(verb)
}

const withStartWords = (text: string): string =>
  text.replace(/(?<=^|^Usage: |; )switchyard\b/gm, startedAs().join(' '))

function builderOf(name: string): () => CommandUnknownOpts {
  const builder = COMMANDS[name]
  if (builder === undefined) throw new Error(`There is no command ${name}.`)
  return builder
}

/** The first page of help: every command by what people do with it, in one screen. A test compares it with the tree. */
export const ROOT_HELP = `Usage: switchyard COMMAND [ARGUMENTS] [OPTIONS]
Turn tickets into pull requests with coding agents on machines of your own.
Every day
  status                    Show what runs, what waits and what needs you
  start TICKET | "WORDS"    Queue a ticket, or a new one made from words
  logs RUN                  Print a run's log from its first line; -f follows
  explain TICKET|RUN        Say why it waits or failed, gate by gate
  top, dashboard            Watch it all on a live board; in a browser
  inspect                   Watch the actors on their live state charts
  attach RUN                Open the session of a finished run
  pause, resume             Stop dispatching runs; go on
Nouns
  tickets, runs, pulls      What rolls in, what is worked on, what comes out
  cancel, retry, followup, release, discard RUN
                            As in runs
  workers                   The machines: list, add, drain, revoke
  memories, costs           What runs have learnt; what they have cost
Set up
  init                      Ask, then write a first configuration
  connect PROVIDER          Connect tracker, codehost, storage or an agent
  config, paths             Read and change settings; say where files are
  doctor, check-data        Check this machine and name each cure; the data
  audit                     Show who did what from which source
  service, completion       Start at login; complete words and ids
  deploy                    Print manifests for workers in Kubernetes
  api METHOD PATH           Send one request to the host
  version, help TOPIC       Say which version; explain exit, environment, json
Programs
  serve, worker, supervise  The host; a worker; a worker's supervisor
  quickstart, oauth-helper  The example; the public OAuth helper
  mcp                       Serve tools to an agent in an editor
Options  --json, -o table|id|json, --data-dir PATH, --color auto|always|never,
         --yes, --quiet, --debug, --help, --version; switchyard NOUN --help
`
