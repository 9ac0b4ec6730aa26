/**
 * Builds the command that starts agentB, Codex.
 *
 * The configuration folder is in memory: Codex writes refreshed logins there, which must not reach a disk, and earlier
 * executions must not configure later ones. Only the session records are on the retained disk, in a folder of this
 * execution, for reading the usage. Codex ignores the configuration of a checkout, because it is not marked as trusted,
 * but reads its AGENTS.md.
 */
import { HOME, WORK } from '../../sandbox/inside-paths.ts'
import type { AgentCommand, AgentTask, LocatedAgent } from '../agent.ts'
import {
  buildAgentCommand,
  exportSecretLines,
  recreateFolderLines,
  removeFolderLines,
  SECRET_FILE,
} from '../command-line.ts'

/** Not below /tmp, because Codex refuses to create its linked helper programs there. */
const CONFIG_FOLDER = '/dev/shm/codex'
/** Folder of skills and plugins that several agents read. */
const SKILLS_FOLDER = `${HOME}/.agents`
/** Relative to home; holds one folder per execution. */
export const SESSIONS_FOLDER = '.codex-sessions'

export function buildAgentBCommand(task: AgentTask, found: LocatedAgent): AgentCommand {
  const script = [
    ...recreateFolderLines(CONFIG_FOLDER),
    ...removeFolderLines(SKILLS_FOLDER),
    ...recordsLines(task),
    ...loginLines(task),
  ]
  return buildAgentCommand({
    task,
    found,
    script,
    args: agentArguments(task),
    environment: { ...environment, ...renewalVariable(task) },
  })
}

/** Codex reports the end of a limit as a local time of day, so the time zone is fixed. */
const environment = { CODEX_HOME: CONFIG_FOLDER, TZ: 'UTC' }

/** The session id is a UUID made by the worker. */
function recordsLines({ sessionId }: AgentTask): string[] {
  if (!/^[0-9a-fA-F-]{1,64}$/.test(sessionId)) throw new Error(`not a session id: ${sessionId}`)
  const own = `${HOME}/${SESSIONS_FOLDER}`
  return [
    `if [ -L ${own} ]; then rm -f ${own}; fi`,
    ...recreateFolderLines(`${own}/${sessionId}`),
    `ln -s ${own}/${sessionId} ${CONFIG_FOLDER}/sessions`,
  ]
}

function loginLines({ credential }: AgentTask): string[] {
  if (credential === undefined) return []
  if (credential.kind === 'api-key') return exportSecretLines('CODEX_API_KEY')
  return [`(umask 077 && cat ${SECRET_FILE} > ${CONFIG_FOLDER}/auth.json)`]
}

/**
 * Disables everything that contacts others than the model: analytics go to the vendor, plugins come from a public
 * repository, and apps reach accounts that the login's owner has connected, such as mail and files.
 */
const DISABLED_SETTINGS = ['analytics.enabled=false', 'features.plugins=false', 'features.apps=false']

const PROVIDER = 'switchyard'

/**
 * Names the worker's proxy as the provider of the model. Codex would first try a WebSocket otherwise, and with the login
 * of a plan it also asks for things that are no model, at an address of its own.
 */
function modelApiSettings({ modelApiUrl, credential }: AgentTask): string[] {
  if (modelApiUrl === undefined) return []
  const provider = [
    `name=${JSON.stringify(PROVIDER)}`,
    `base_url=${JSON.stringify(modelApiUrl)}`,
    'wire_api="responses"',
    'requires_openai_auth=true',
    'supports_websockets=false',
  ]
  const plan = `chatgpt_base_url=${JSON.stringify(`${new URL(modelApiUrl).origin}/`)}`
  return [
    `model_providers.${PROVIDER}={${provider.join(',')}}`,
    `model_provider=${JSON.stringify(PROVIDER)}`,
    ...(credential?.kind === 'login' ? [plan] : []),
  ]
}

/** After a refusal, Codex tries to renew its login, which is a placeholder. The worker refuses that. */
function renewalVariable({ modelApiUrl, credential }: AgentTask): Record<string, string> {
  if (modelApiUrl === undefined || credential?.kind !== 'login') return {}
  return { CODEX_REFRESH_TOKEN_URL_OVERRIDE: `${new URL(modelApiUrl).origin}/oauth/token` }
}

function agentArguments(task: AgentTask): string[] {
  const { model, effort } = task.agent
  return [
    ...['exec', '--json', '--skip-git-repo-check', '-C', WORK, '--dangerously-bypass-approvals-and-sandbox'],
    ...[...DISABLED_SETTINGS, ...modelApiSettings(task)].flatMap((setting) => ['-c', setting]),
    ...(model === undefined || model === '' ? [] : [`--model=${model}`]),
    ...(effort === undefined ? [] : ['-c', `model_reasoning_effort="${effort}"`]),
    '-',
  ]
}
