/**
 * Builds the commands that start agentA, Claude Code, for a run and for a person at a terminal.
 *
 * The configuration folder keeps only transcripts between executions; settings, servers, memories and login files are
 * removed before each start. The repository's instructions are used: the user's CLAUDE.md imports the checkout's. The
 * repository's configuration is not used, because a settings file in a checkout could redirect the API, and with it
 * the key, to another address. Hence `--setting-sources user` and `--strict-mcp-config`.
 */
import { HOME, WORK } from '../../sandbox/inside-paths.ts'
import type { AgentCommand, AgentTask, LocatedAgent, TerminalTask } from '../agent.ts'
import { buildAgentCommand, exportSecretLines, recreateFolderLines } from '../command-line.ts'

/** Folder of the transcripts, relative to home. */
export const PROJECTS_FOLDER = '.claude/projects'
export const CONFIG_FOLDER = `${HOME}/.claude`
export const SETTINGS_FILE = '/run/agent/settings.json'
const STATE_FILE = '/run/agent/.claude.json'
export const MEMORY_FILE = '/run/agent/CLAUDE.md'

/** Longer than any sandbox is kept. */
const TRANSCRIPT_DAYS = 400

export function buildAgentACommand(task: AgentTask, found: LocatedAgent): AgentCommand {
  return buildAgentCommand({
    task,
    found,
    script: [
      ...cleanupLines,
      `install -m 0600 ${SETTINGS_FILE} ${MEMORY_FILE} ${STATE_FILE} ${CONFIG_FOLDER}/`,
      ...loginLines(task),
    ],
    args: agentArguments(task),
    environment: { ...environment, ...modelApiVariable(task) },
    texts: { ...configFiles, [STATE_FILE]: toJsonLine(initialState) },
  })
}

function agentArguments({ agent, resume, sessionId, maxTurns, maxCostUsd }: AgentTask): string[] {
  return [
    ...['-p', '--output-format', 'stream-json', '--verbose'],
    ...permissionArguments,
    ...(resume === undefined ? ['--session-id', sessionId] : ['--resume', resume]),
    ...flagArguments('--model', agent.model),
    ...flagArguments('--effort', agent.effort),
    ...flagArguments('--max-turns', maxTurns),
    ...flagArguments('--max-budget-usd', maxCostUsd),
  ]
}

// ---- at a terminal -------------------------------------------------------------------------------------------------

const MEMORY_FOLDER = '/dev/shm/claude'
const TERMINAL_STATE_FILE = '/run/cred/.claude.json'
/** The agent recognizes an approved key by this many of its last characters. */
const KEY_END_CHARS = 20

/**
 * Continues a session with the same permissions.
 *
 * All first-start questions are answered in advance. The configuration folder is in memory, except for the
 * transcripts, because it holds the end of the API key and possibly a login that the person made. So these never reach
 * a disk and vanish with the sandbox.
 */
export function buildAgentATerminalCommand(task: TerminalTask, found: LocatedAgent): AgentCommand {
  return buildAgentCommand({
    task,
    found,
    script: [
      ...cleanupLines,
      ...recreateFolderLines(MEMORY_FOLDER),
      `ln -s ${CONFIG_FOLDER}/projects ${MEMORY_FOLDER}/projects`,
      `install -m 0600 ${SETTINGS_FILE} ${MEMORY_FILE} ${TERMINAL_STATE_FILE} ${MEMORY_FOLDER}/`,
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
    secrets: { [TERMINAL_STATE_FILE]: toJsonLine({ ...initialState, ...approvedKey(task) }) },
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

// ---- shared by both ------------------------------------------------------------------------------------------------

export const environment = {
  IS_SANDBOX: '1',
  CLAUDE_CONFIG_DIR: CONFIG_FOLDER,
  CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_ERROR_REPORTING: '1',
  DISABLE_TELEMETRY: '1',
}

/** Absent: the vendor's own address. */
export function modelApiVariable({ modelApiUrl }: Pick<AgentTask, 'modelApiUrl'>): Record<string, string> {
  return modelApiUrl === undefined ? {} : { ANTHROPIC_BASE_URL: modelApiUrl }
}

export const configFiles = {
  [SETTINGS_FILE]: toJsonLine({
    cleanupPeriodDays: TRANSCRIPT_DAYS,
    skipDangerousModePermissionPrompt: true,
  }),
  [MEMORY_FILE]: `@${WORK}/CLAUDE.md\n@${WORK}/.claude/CLAUDE.md\n`,
}

/** Answers the questions that the agent would otherwise ask a person first. */
export const initialState = {
  hasCompletedOnboarding: true,
  // Skips the question whether to summarize an old, long session first.
  resumeReturnDismissed: true,
  projects: { [WORK]: { hasTrustDialogAccepted: true, hasClaudeMdExternalIncludesApproved: true } },
}

export function toJsonLine(value: object): string {
  return `${JSON.stringify(value)}\n`
}

/**
 * Shell lines that reset the configuration folder. An agent may have removed its own write permissions, so these are
 * restored first. Each program delays the agent's start, so a new home folder takes the short path.
 */
export const cleanupLines: readonly string[] = [
  `if [ -L ${CONFIG_FOLDER} ] || { [ -e ${CONFIG_FOLDER} ] && [ ! -d ${CONFIG_FOLDER} ]; }; then rm -rf ${CONFIG_FOLDER}; fi`,
  `if [ ! -e ${CONFIG_FOLDER} ]; then mkdir -m 0700 ${CONFIG_FOLDER} ${CONFIG_FOLDER}/projects; else`,
  `chmod -R u+rwX ${CONFIG_FOLDER}`,
  `find ${CONFIG_FOLDER} -mindepth 1 -maxdepth 1 ! -name projects -exec rm -rf {} +`,
  `if [ -L ${CONFIG_FOLDER}/projects ]; then rm -f ${CONFIG_FOLDER}/projects; fi`,
  `mkdir -p -m 0700 ${CONFIG_FOLDER}/projects`,
  `find ${CONFIG_FOLDER}/projects -mindepth 2 -maxdepth 2 -name memory -exec rm -rf {} +`,
  'fi',
]

/**
 * Exports the credential. Users often configure the output of `claude setup-token` as an API key; `isApiKey` detects
 * that.
 */
export function loginLines({ credential }: Pick<AgentTask, 'credential'>): string[] {
  if (credential === undefined) return []
  return exportSecretLines(isApiKey(credential) ? 'ANTHROPIC_API_KEY' : 'CLAUDE_CODE_OAUTH_TOKEN')
}

export function isApiKey({ kind, value }: NonNullable<AgentTask['credential']>): boolean {
  return kind === 'api-key' && !value.trim().startsWith('sk-ant-oat')
}

/** Used without and with a person at the terminal. */
export const permissionArguments: readonly string[] = [
  ...['--permission-mode', 'bypassPermissions', '--setting-sources', 'user', '--strict-mcp-config'],
]

export function flagArguments(flag: string, value: string | number | undefined): string[] {
  return value === undefined || value === '' ? [] : [flag, String(value)]
}
