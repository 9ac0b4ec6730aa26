/**
 * Builds the command with which a person continues a session of agentA at a terminal, with the same permissions.
 *
 * All first-start questions are answered in advance. The configuration folder is in memory, except for the transcripts,
 * because it holds the end of the API key and possibly a login that the person made. So these never reach a disk and
 * vanish with the sandbox.
 */
import type { AgentCommand, LocatedAgent, TerminalTask } from '../agent.ts'
import { buildAgentCommand, recreateFolderLines } from '../command-line.ts'
import {
  CONFIG_FOLDER,
  cleanupLines,
  configFiles,
  environment,
  flagArguments,
  initialState,
  isApiKey,
  loginLines,
  MEMORY_FILE,
  modelApiVariable,
  permissionArguments,
  SETTINGS_FILE,
  toJsonLine,
} from './command.ts'

const MEMORY_FOLDER = '/dev/shm/claude'
const STATE_FILE = '/run/cred/.claude.json'
/** The agent recognizes an approved key by this many of its last characters. */
const KEY_END_CHARS = 20

export function buildAgentATerminalCommand(task: TerminalTask, found: LocatedAgent): AgentCommand {
  return buildAgentCommand({
    task,
    found,
    script: [
      ...cleanupLines,
      ...recreateFolderLines(MEMORY_FOLDER),
      `ln -s ${CONFIG_FOLDER}/projects ${MEMORY_FOLDER}/projects`,
      `install -m 0600 ${SETTINGS_FILE} ${MEMORY_FILE} ${STATE_FILE} ${MEMORY_FOLDER}/`,
      ...loginLines(task),
    ],
    args: [
      '--resume',
      task.resume,
      ...permissionArguments,
      ...flagArguments('--model', task.agent.model),
      ...effortArguments(task),
    ],
    environment: { ...environment, ...modelApiVariable(task), CLAUDE_CONFIG_DIR: MEMORY_FOLDER },
    texts: configFiles,
    secrets: { [STATE_FILE]: toJsonLine({ ...initialState, ...approvedKey(task) }) },
  })
}

function effortArguments({ agent }: TerminalTask): string[] {
  return flagArguments('--effort', agent.effort)
}

function approvedKey({ credential }: TerminalTask): object {
  if (credential === undefined || !isApiKey(credential)) return {}
  const [key = ''] = credential.value.split('\n')
  return { customApiKeyResponses: { approved: [key.slice(-KEY_END_CHARS)], rejected: [] } }
}
