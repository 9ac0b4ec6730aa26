/**
 * How a person goes on with a session of agentA's: the same agent with the same permissions, on a terminal.
 *
 * Everything that it asks a person who comes for the first time is answered beforehand. One of the answers is the end
 * of the key, and a person may log in by hand; so its folder is in memory here, all but the transcripts, and is gone
 * with the sandbox, however that ends. Nothing of it is ever on a disk.
 */
import type { AgentCommand, AgentFound, SessionTask } from './agent.ts'
import {
  environment,
  FOLDER,
  given,
  isKey,
  json,
  login,
  MEMORY,
  own,
  SETTINGS,
  state,
  swept,
  texts,
} from './agent-a-command.ts'
import { commandLine, freshFolder } from './command-line.ts'

const IN_MEMORY = '/dev/shm/claude'
const STATE = '/run/cred/.claude.json'
/** By so many of its last characters it knows a key that a person has said yes to. */
const KEY_END_CHARS = 20

export function agentASession(task: SessionTask, found: AgentFound): AgentCommand {
  return commandLine({
    task,
    found,
    script: [
      ...swept,
      ...freshFolder(IN_MEMORY),
      `ln -s ${FOLDER}/projects ${IN_MEMORY}/projects`,
      `install -m 0600 ${SETTINGS} ${MEMORY} ${STATE} ${IN_MEMORY}/`,
      ...login(task),
    ],
    args: ['--resume', task.resume, ...own, ...given('--model', task.agent.model), ...effort(task)],
    environment: { ...environment, CLAUDE_CONFIG_DIR: IN_MEMORY },
    texts,
    secrets: { [STATE]: json({ ...state, ...approved(task) }) },
  })
}

function effort({ agent }: SessionTask): string[] {
  return given('--effort', agent.effort)
}

function approved({ credential }: SessionTask): object {
  if (credential === undefined || !isKey(credential)) return {}
  const [key = ''] = credential.value.split('\n')
  return { customApiKeyResponses: { approved: [key.slice(-KEY_END_CHARS)], rejected: [] } }
}
