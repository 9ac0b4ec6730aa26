/**
 * How agentC, Gemini CLI, is started.
 *
 * Its folder is in memory and new each time, so that nothing an earlier execution left configures this one. It has to
 * take the checkout for trusted in order to work at all, and then reads `.env` files there: the address of the API is
 * therefore given, because what is in the environment already is not changed by a file. Extensions and servers that
 * the checkout names are not started.
 */
import { HOME } from '../sandbox/arguments.ts'
import type { AgentCommand, AgentFound, AgentTask } from './agent.ts'
import { commandLine, freshFolder, removed, SECRET_FILE, secretAs } from './command-line.ts'

const FOLDER = '/dev/shm/gemini'
const SETTINGS = '/run/agent/settings.json'
const API = 'https://generativelanguage.googleapis.com'
/** A name that nothing has. */
const NONE = 'none'

export function agentCCommand(task: AgentTask, found: AgentFound): AgentCommand {
  const script = [...folder, ...login(task)]
  const texts = { [SETTINGS]: settings(task) }
  return commandLine({ task, found, script, args: args(task), environment, texts })
}

const environment = { GOOGLE_GEMINI_BASE_URL: API, GEMINI_TELEMETRY_ENABLED: 'false' }

const folder: readonly string[] = [
  ...freshFolder(FOLDER),
  ...removed(`${HOME}/.agents`),
  ...removed(`${HOME}/.gemini`),
  `ln -s ${FOLDER} ${HOME}/.gemini`,
  `cp ${SETTINGS} ${FOLDER}/settings.json`,
  `chmod u+w ${FOLDER}/settings.json`,
]

const isLogin = ({ credential }: AgentTask): boolean => credential?.kind === 'login'

function settings(task: AgentTask): string {
  const selectedType = isLogin(task) ? 'oauth-personal' : 'gemini-api-key'
  const quiet = { general: { enableAutoUpdate: false }, privacy: { usageStatisticsEnabled: false } }
  return `${JSON.stringify({ security: { auth: { selectedType } }, ...quiet })}\n`
}

function login(task: AgentTask): string[] {
  if (task.credential === undefined) return []
  if (!isLogin(task)) return secretAs('GEMINI_API_KEY')
  return [`(umask 077 && cat ${SECRET_FILE} > ${FOLDER}/oauth_creds.json)`]
}

function args({ agent: { model } }: AgentTask): string[] {
  return [
    ...['--output-format', 'stream-json', '--yolo', '--skip-trust'],
    ...[`--extensions=${NONE}`, `--allowed-mcp-server-names=${NONE}`],
    ...(model === undefined || model === '' ? [] : [`--model=${model}`]),
  ]
}
