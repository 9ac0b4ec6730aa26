/** The driver of agentC, Gemini CLI. Nothing outlives its sandbox: no resumable session and no usage records. */
import type { PriceTable } from '../../../core/run/price.ts'
import { HOME } from '../../sandbox/inside-paths.ts'
import type { AgentCommand, AgentDriver, AgentTask, LocatedAgent } from '../agent.ts'
import {
  buildAgentCommand,
  exportSecretLines,
  recreateFolderLines,
  removeFolderLines,
  SECRET_FILE,
} from '../command-line.ts'
import { locateProgram, probeAgent, type SearchPlace } from '../locate-agent.ts'
import { withRedaction } from '../redacting-listener.ts'
import { createAgentCListener } from './listener.ts'

const AGENT_C_PROGRAM = {
  program: 'gemini',
  installCommand: 'sudo npm install --global --prefix /usr/local @google/gemini-cli',
  loginFiles: ['.gemini/oauth_creds.json'],
  loginVariables: ['GEMINI_API_KEY'],
}

export function createAgentC(where: SearchPlace, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentC',
    locate: () => locateProgram(AGENT_C_PROGRAM, where),
    probe: () => probeAgent(AGENT_C_PROGRAM, where),
    buildCommand: buildAgentCCommand,
    createListener: (task) => withRedaction(createAgentCListener(task.prices ?? prices), task),
    readUsage: async () => [],
  }
}

const CONFIG_FOLDER = '/dev/shm/gemini'
const SETTINGS_FILE = '/run/agent/settings.json'
const API_URL = 'https://generativelanguage.googleapis.com'
/** A name that no extension or server has. */
const NONE = 'none'

/**
 * Builds the command that starts agentC, Gemini CLI.
 *
 * The configuration folder is in memory and recreated each time, so that earlier executions cannot configure this one.
 * The agent works only in a trusted checkout and then reads its `.env` files. So the API address is set explicitly:
 * files do not override existing environment variables. Extensions and servers of the checkout are disabled.
 */
function buildAgentCCommand(task: AgentTask, found: LocatedAgent): AgentCommand {
  const script = [...folderLines, ...loginLines(task)]
  const texts = { [SETTINGS_FILE]: settingsJson(task) }
  const environment = {
    GOOGLE_GEMINI_BASE_URL: task.modelApiUrl ?? API_URL,
    GEMINI_TELEMETRY_ENABLED: 'false',
  }
  return buildAgentCommand({ task, found, script, args: agentArguments(task), environment, texts })
}

const folderLines: readonly string[] = [
  ...recreateFolderLines(CONFIG_FOLDER),
  ...removeFolderLines(`${HOME}/.agents`),
  ...removeFolderLines(`${HOME}/.gemini`),
  `ln -s ${CONFIG_FOLDER} ${HOME}/.gemini`,
  `cp ${SETTINGS_FILE} ${CONFIG_FOLDER}/settings.json`,
  `chmod u+w ${CONFIG_FOLDER}/settings.json`,
]

const isLogin = ({ credential }: AgentTask): boolean => credential?.kind === 'login'

function settingsJson(task: AgentTask): string {
  const selectedType = isLogin(task) ? 'oauth-personal' : 'gemini-api-key'
  const quiet = { general: { enableAutoUpdate: false }, privacy: { usageStatisticsEnabled: false } }
  return `${JSON.stringify({ security: { auth: { selectedType } }, ...quiet })}\n`
}

function loginLines(task: AgentTask): string[] {
  if (task.credential === undefined) return []
  if (!isLogin(task)) return exportSecretLines('GEMINI_API_KEY')
  return [`(umask 077 && cat ${SECRET_FILE} > ${CONFIG_FOLDER}/oauth_creds.json)`]
}

function agentArguments({ agent: { model } }: AgentTask): string[] {
  return [
    ...['--output-format', 'stream-json', '--yolo', '--skip-trust'],
    ...[`--extensions=${NONE}`, `--allowed-mcp-server-names=${NONE}`],
    ...(model === undefined || model === '' ? [] : [`--model=${model}`]),
  ]
}
