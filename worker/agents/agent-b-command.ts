/**
 * How agentB, Codex, is started.
 *
 * Its folder is in memory: a login is written back there when it refreshes itself, and must not end on a disk. So
 * nothing that an earlier execution left configures a later one, either. Only the session's records are on the
 * retained disk, in a folder of this execution's own, for its usage. A checkout's own configuration is not used,
 * because Codex takes the checkout for untrusted; its AGENTS.md is read all the same.
 */
import { HOME, WORK } from '../sandbox/arguments.ts'
import type { AgentCommand, AgentTask, LocatedAgent } from './agent.ts'
import {
  buildAgentCommand,
  exportSecretLines,
  recreateFolderLines,
  removeFolderLines,
  SECRET_FILE,
} from './command-line.ts'

/** Not below /tmp, where it refuses to put what it links to. */
const CONFIG_FOLDER = '/dev/shm/codex'
/** Skills and plugins of the home, which several agents read. */
const SKILLS_FOLDER = `${HOME}/.agents`
/** Below home: a folder an execution. */
export const SESSIONS_FOLDER = '.codex-sessions'

export function buildAgentBCommand(task: AgentTask, found: LocatedAgent): AgentCommand {
  const script = [
    ...recreateFolderLines(CONFIG_FOLDER),
    ...removeFolderLines(SKILLS_FOLDER),
    ...recordsLines(task),
    ...loginLines(task),
  ]
  return buildAgentCommand({ task, found, script, args: agentArguments(task), environment })
}

/** A limit's end is told as a time of day, which is worth nothing without knowing whose. */
const environment = { CODEX_HOME: CONFIG_FOLDER, TZ: 'UTC' }

/** A session's id is a UUID, made by the worker. */
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
 * Off: what calls others than the model. Figures go to the vendor, plugins come from a public repository, and apps are
 * whatever a login's owner has connected elsewhere, mail and files among it, which no ticket is to reach.
 */
const DISABLED_SETTINGS = ['analytics.enabled=false', 'features.plugins=false', 'features.apps=false']

function agentArguments({ agent: { model, effort } }: AgentTask): string[] {
  return [
    ...['exec', '--json', '--skip-git-repo-check', '-C', WORK, '--dangerously-bypass-approvals-and-sandbox'],
    ...DISABLED_SETTINGS.flatMap((setting) => ['-c', setting]),
    ...(model === undefined || model === '' ? [] : [`--model=${model}`]),
    ...(effort === undefined ? [] : ['-c', `model_reasoning_effort="${effort}"`]),
    '-',
  ]
}
