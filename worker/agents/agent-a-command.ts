/**
 * How agentA, Claude Code, is started.
 *
 * Its folder keeps the transcripts and nothing else: settings, servers, memories and login files that an earlier
 * execution left there are removed before it starts. What the repository says is read (its CLAUDE.md, brought in
 * through the user's), what the repository configures is not used: a settings file in a checkout may name another
 * address for the API, and would be handed the key. Hence `--setting-sources user`, and no servers but those named.
 */
import { HOME, WORK } from '../sandbox/arguments.ts'
import type { AgentCommand, AgentFound, AgentTask } from './agent.ts'
import { commandLine, secretAs } from './command-line.ts'

/** Below home: where transcripts are. */
export const PROJECTS = '.claude/projects'
export const FOLDER = `${HOME}/.claude`
export const SETTINGS = '/run/agent/settings.json'
const STATE = '/run/agent/.claude.json'
export const MEMORY = '/run/agent/CLAUDE.md'

/** Longer than any sandbox is kept. */
const TRANSCRIPT_DAYS = 400

export function agentACommand(task: AgentTask, found: AgentFound): AgentCommand {
  return commandLine({
    task,
    found,
    script: [...swept, `install -m 0600 ${SETTINGS} ${MEMORY} ${STATE} ${FOLDER}/`, ...login(task)],
    args: args(task),
    environment,
    texts: { ...texts, [STATE]: json(state) },
  })
}

export const environment = {
  IS_SANDBOX: '1',
  CLAUDE_CONFIG_DIR: FOLDER,
  CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_ERROR_REPORTING: '1',
  DISABLE_TELEMETRY: '1',
}

export const texts = {
  [SETTINGS]: json({ cleanupPeriodDays: TRANSCRIPT_DAYS, skipDangerousModePermissionPrompt: true }),
  [MEMORY]: `@${WORK}/CLAUDE.md\n@${WORK}/.claude/CLAUDE.md\n`,
}

/** What it would otherwise ask a person first. */
export const state = {
  hasCompletedOnboarding: true,
  // Whether a session that is old and long is to be summed up first.
  resumeReturnDismissed: true,
  projects: { [WORK]: { hasTrustDialogAccepted: true, hasClaudeMdExternalIncludesApproved: true } },
}

export function json(value: object): string {
  return `${JSON.stringify(value)}\n`
}

/**
 * Folders may have been made unwritable, which their owner can undo. Every program that is started here holds the
 * agent up, and a new home needs next to none.
 */
export const swept: readonly string[] = [
  `if [ -L ${FOLDER} ] || { [ -e ${FOLDER} ] && [ ! -d ${FOLDER} ]; }; then rm -rf ${FOLDER}; fi`,
  `if [ ! -e ${FOLDER} ]; then mkdir -m 0700 ${FOLDER} ${FOLDER}/projects; else`,
  `chmod -R u+rwX ${FOLDER}`,
  `find ${FOLDER} -mindepth 1 -maxdepth 1 ! -name projects -exec rm -rf {} +`,
  `if [ -L ${FOLDER}/projects ]; then rm -f ${FOLDER}/projects; fi`,
  `mkdir -p -m 0700 ${FOLDER}/projects`,
  `find ${FOLDER}/projects -mindepth 2 -maxdepth 2 -name memory -exec rm -rf {} +`,
  'fi',
]

/** What `claude setup-token` prints is easily taken for a key, and works only as what it is. */
export function login({ credential }: Pick<AgentTask, 'credential'>): string[] {
  if (credential === undefined) return []
  return secretAs(isKey(credential) ? 'ANTHROPIC_API_KEY' : 'CLAUDE_CODE_OAUTH_TOKEN')
}

export function isKey({ kind, value }: NonNullable<AgentTask['credential']>): boolean {
  return kind === 'api-key' && !value.trim().startsWith('sk-ant-oat')
}

/** As a person has it, too. */
export const own: readonly string[] = [
  ...['--permission-mode', 'bypassPermissions', '--setting-sources', 'user', '--strict-mcp-config'],
]

function args({ agent, resume, sessionId, maxTurns, maxCostUsd }: AgentTask): string[] {
  return [
    ...['-p', '--output-format', 'stream-json', '--verbose'],
    ...own,
    ...(resume === undefined ? ['--session-id', sessionId] : ['--resume', resume]),
    ...given('--model', agent.model),
    ...given('--effort', agent.effort),
    ...given('--max-turns', maxTurns),
    ...given('--max-budget-usd', maxCostUsd),
  ]
}

export function given(flag: string, value: string | number | undefined): string[] {
  return value === undefined || value === '' ? [] : [flag, String(value)]
}
