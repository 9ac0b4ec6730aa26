/** The driver of agentB, Codex. Sessions cannot be resumed, because Codex reports no session id. */
import type { PriceTable } from '../../../core/run/price.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import { HOME, WORK } from '../../sandbox/inside-paths.ts'
import type { AgentCommand, AgentDriver, AgentFiles, AgentTask, LocatedAgent } from '../agent.ts'
import {
  buildAgentCommand,
  exportSecretLines,
  PROJECT_KEY,
  recreateFolderLines,
  removeFolderLines,
  SECRET_FILE,
} from '../command-line.ts'
import { type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'
import { locateProgram, probeAgent, type SearchPlace } from '../locate-agent.ts'
import { withRedaction } from '../redacting-listener.ts'
import { createTallyFactory, isPathSafe, type UsageTally } from '../usage-tally.ts'
import { createAgentBListener, readThreadTokens } from './listener.ts'

const AGENT_B_PROGRAM = {
  program: 'codex',
  installCommand: 'sudo npm install --global --prefix /usr/local @openai/codex',
  loginFiles: ['.codex/auth.json'],
  loginVariables: [],
}

export function createAgentB(where: SearchPlace, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentB',
    locate: () => locateProgram(AGENT_B_PROGRAM, where),
    probe: () => probeAgent(AGENT_B_PROGRAM, where),
    buildCommand: buildAgentBCommand,
    createListener: (task) => withRedaction(createAgentBListener(task, task.prices ?? prices), task),
    readUsage: (files, sessionId) => readAgentBUsage(files, sessionId, prices),
  }
}

// ---- usage ---------------------------------------------------------------------------------------------------------

const RECORDS_MAX = 1_000
/** Nested folders for year, month and day. */
const DATE_FOLDERS = [/^\d{4}$/, /^\d{2}$/, /^\d{2}$/]
const RECORD_FILE = /^rollout-.+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$/

/**
 * Reads the usage of an agentB execution from its session records: one file per thread, one line per response.
 *
 * The model is recorded before the turn that uses it. A thread that started as a copy of another also contains the
 * other's lines; each response counts in the first file that contains it.
 *
 * `sessionId` names the folder of the execution's records; the records have thread ids of their own.
 */
async function readAgentBUsage(
  files: AgentFiles,
  sessionId: string,
  prices: PriceTable,
): Promise<UsageSnapshot[]> {
  if (!isPathSafe(sessionId)) return []
  const counted = new Set<string>()
  const snapshots: UsageSnapshot[] = []
  const createTally = createTallyFactory(prices, files.readAt)
  for (const path of (await listRecords(files, `${SESSIONS_FOLDER}/${sessionId}`)).slice(0, RECORDS_MAX)) {
    const snapshot = await readThread(files, path, new ThreadUsage(counted, createTally()))
    if (snapshot !== undefined) snapshots.push(snapshot)
  }
  return snapshots
}

/** Sorted by start time, which is the order of the names. */
async function listRecords(files: AgentFiles, top: string): Promise<string[]> {
  let folders = [top]
  for (const name of DATE_FOLDERS) folders = await listMatching(files, folders, name)
  return listMatching(files, folders, RECORD_FILE)
}

async function listMatching(files: AgentFiles, folders: readonly string[], name: RegExp): Promise<string[]> {
  const found: string[] = []
  for (const folder of folders.slice(0, RECORDS_MAX)) {
    const names = (await files.list(folder)).filter((entry) => name.test(entry))
    found.push(...names.slice(0, RECORDS_MAX - found.length).map((entry) => `${folder}/${entry}`))
  }
  return found
}

async function readThread(
  files: AgentFiles,
  path: string,
  thread: ThreadUsage,
): Promise<UsageSnapshot | undefined> {
  for await (const text of files.lines(path)) {
    // A fast test that skips most lines before parsing.
    const line = /"(?:turn_context|token_usage_record)"/.test(text) ? parseObject(text) : undefined
    if (line !== undefined) thread.addLine(line)
  }
  return thread.snapshot(RECORD_FILE.exec(path.slice(path.lastIndexOf('/') + 1))?.[1] ?? '')
}

class ThreadUsage {
  readonly #counted: Set<string>
  readonly #tally: UsageTally
  #model: string | undefined
  #session: string | undefined

  constructor(counted: Set<string>, tally: UsageTally) {
    this.#counted = counted
    this.#tally = tally
  }

  addLine(line: JsonObject): void {
    const payload = objectAt(line, 'payload')
    if (textAt(line, 'type') === 'turn_context') this.#model = textAt(payload, 'model') ?? this.#model
    if (textAt(line, 'type') === 'token_usage_record') this.#record(payload, textAt(line, 'timestamp'))
  }

  #record(payload: JsonObject, at: string | undefined): void {
    const id = textAt(payload, 'response_id') ?? `${textAt(payload, 'turn_id')} ${at}`
    if (this.#counted.has(id)) return
    this.#session = textAt(payload, 'session_id') ?? this.#session
    const use = readThreadTokens(objectAt(payload, 'usage'))
    if (this.#tally.add({ id, at, model: this.#model, use })) this.#counted.add(id)
  }

  /** A thread that another thread started is a nested agent of that thread. */
  snapshot(threadId: string): UsageSnapshot | undefined {
    const session = this.#session
    const isNested = session !== undefined && session !== threadId && /^[0-9a-f-]{36}$/.test(session)
    const ids = isNested ? { sessionId: session, subagentId: threadId } : { sessionId: threadId }
    return this.#tally.snapshot({ projectKey: PROJECT_KEY, ...ids })
  }
}

// ---- the command ---------------------------------------------------------------------------------------------------

/** Not below /tmp, because Codex refuses to create its linked helper programs there. */
const CONFIG_FOLDER = '/dev/shm/codex'
/** Folder of skills and plugins that several agents read. */
const SKILLS_FOLDER = `${HOME}/.agents`
/** Relative to home; holds one folder per execution. */
const SESSIONS_FOLDER = '.codex-sessions'

/**
 * Builds the command that starts agentB, Codex.
 *
 * The configuration folder is in memory: Codex writes refreshed logins there, which must not reach a disk, and earlier
 * executions must not configure later ones. Only the session records are on the retained disk, in a folder of this
 * execution, for reading the usage. Codex ignores the configuration of a checkout, because it is not marked as trusted,
 * but reads its AGENTS.md.
 */
function buildAgentBCommand(task: AgentTask, found: LocatedAgent): AgentCommand {
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
