/**
 * How a person goes on with a session of agentA's: the same agent with the same permissions, on a terminal.
 *
 * Everything that it asks a person who comes for the first time is answered beforehand. One of the answers is the end
 * of the key, and a person may log in by hand; so its folder is in memory here, all but the transcripts, and is gone
 * with the sandbox, however that ends. Nothing of it is ever on a disk.
 */
import type { AgentCommand, LocatedAgent, TerminalTask } from './agent.ts'
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
  permissionArguments,
  SETTINGS_FILE,
  toJsonLine,
} from './agent-a-command.ts'
import { buildAgentCommand, recreateFolderLines } from './command-line.ts'

const MEMORY_FOLDER = '/dev/shm/claude'
const STATE_FILE = '/run/cred/.claude.json'
/** By so many of its last characters it knows a key that a person has said yes to. */
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
    environment: { ...environment, CLAUDE_CONFIG_DIR: MEMORY_FOLDER },
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
