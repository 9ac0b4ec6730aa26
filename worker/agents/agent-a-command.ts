/**
 * How agentA, Claude Code, is started.
 *
 * Its folder keeps the transcripts and nothing else: settings, servers, memories and login files that an earlier
 * execution left there are removed before it starts. What the repository says is read (its CLAUDE.md, brought in
 * through the user's), what the repository configures is not used: a settings file in a checkout may name another
 * address for the API, and would be handed the key. Hence `--setting-sources user`, and no servers but those named.
 */
import { HOME, WORK } from '../sandbox/arguments.ts'
import type { AgentCommand, AgentTask, LocatedAgent } from './agent.ts'
import { buildAgentCommand, exportSecretLines } from './command-line.ts'

/** Below home: where transcripts are. */
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
    environment,
    texts: { ...configFiles, [STATE_FILE]: toJsonLine(initialState) },
  })
}

export const environment = {
  IS_SANDBOX: '1',
  CLAUDE_CONFIG_DIR: CONFIG_FOLDER,
  CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_ERROR_REPORTING: '1',
  DISABLE_TELEMETRY: '1',
}

export const configFiles = {
  [SETTINGS_FILE]: toJsonLine({
    cleanupPeriodDays: TRANSCRIPT_DAYS,
    skipDangerousModePermissionPrompt: true,
  }),
  [MEMORY_FILE]: `@${WORK}/CLAUDE.md\n@${WORK}/.claude/CLAUDE.md\n`,
}

/** What it would otherwise ask a person first. */
export const initialState = {
  hasCompletedOnboarding: true,
  // Whether a session that is old and long is to be summed up first.
  resumeReturnDismissed: true,
  projects: { [WORK]: { hasTrustDialogAccepted: true, hasClaudeMdExternalIncludesApproved: true } },
}

export function toJsonLine(value: object): string {
  return `${JSON.stringify(value)}\n`
}

/**
 * Folders may have been made unwritable, which their owner can undo. Every program that is started here holds the
 * agent up, and a new home needs next to none.
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

/** What `claude setup-token` prints is easily taken for a key, and works only as what it is. */
export function loginLines({ credential }: Pick<AgentTask, 'credential'>): string[] {
  if (credential === undefined) return []
  return exportSecretLines(isApiKey(credential) ? 'ANTHROPIC_API_KEY' : 'CLAUDE_CODE_OAUTH_TOKEN')
}

export function isApiKey({ kind, value }: NonNullable<AgentTask['credential']>): boolean {
  return kind === 'api-key' && !value.trim().startsWith('sk-ant-oat')
}

/** As a person has it, too. */
export const permissionArguments: readonly string[] = [
  ...['--permission-mode', 'bypassPermissions', '--setting-sources', 'user', '--strict-mcp-config'],
]

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

export function flagArguments(flag: string, value: string | number | undefined): string[] {
  return value === undefined || value === '' ? [] : [flag, String(value)]
}
