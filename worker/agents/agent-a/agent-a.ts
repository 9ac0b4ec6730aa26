/** The driver of agentA, Claude Code. */
import type { PriceTable } from '../../../core/run/price.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import type { UsageEntry } from '../../../protocol/usage.ts'
import type { AgentDriver, AgentFiles } from '../agent.ts'
import { field, isObject, type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'
import { locateProgram, probeAgent, type SearchPlace } from '../locate-agent.ts'
import { withRedaction } from '../redacting-listener.ts'
import { buildSnapshot, createTallyFactory, isPathSafe, type UsageTally } from '../usage-tally.ts'
import { buildAgentACommand, buildAgentATerminalCommand, PROJECTS_FOLDER } from './command.ts'
import { createAgentAListener } from './listener.ts'
import {
  agentATranscripts,
  emptyAnswers,
  readSession,
  type SessionAnswers,
  type SessionUsage,
  type TranscriptReading,
} from './transcript.ts'

const AGENT_A_PROGRAM = {
  program: 'claude',
  installCommand: 'sudo npm install --global --prefix /usr/local @anthropic-ai/claude-code',
  loginFiles: ['.claude/.credentials.json'],
  loginVariables: ['CLAUDE_CODE_OAUTH_TOKEN', 'ANTHROPIC_API_KEY'],
}

export function createAgentA(where: SearchPlace, prices: PriceTable): AgentDriver {
  return {
    provider: 'agentA',
    locate: () => locateProgram(AGENT_A_PROGRAM, where),
    probe: () => probeAgent(AGENT_A_PROGRAM, where),
    buildCommand: buildAgentACommand,
    buildTerminalCommand: buildAgentATerminalCommand,
    transcripts: agentATranscripts,
    findLatestSession,
    createListener: (task) => withRedaction(createAgentAListener(task, task.prices ?? prices), task),
    readUsage: (files, sessionId, andSince) =>
      readAgentAUsage(files, { sessionId, othersSince: andSince }, prices),
  }
}

// ---- usage ---------------------------------------------------------------------------------------------------------

/** A limit, because an agent can create any number of folders. */
const PROJECTS_MAX = 100
/** Transcripts of the session per project folder, including nested agents. */
const OWN_TRANSCRIPTS_MAX = 1_001
/** Transcripts of all other sessions together. */
const OTHER_TRANSCRIPTS_MAX = 2_000
const SESSION_FILE = /^([A-Za-z0-9_-]{1,100})\.jsonl$/

interface UsageQuery {
  readonly sessionId: string
  /** Usage of other sessions counts from this instant on. Absent: it does not count. */
  readonly othersSince?: string | undefined
}

/**
 * Reads the usage of an agentA session and its nested agents from the transcripts.
 *
 * Clearing or branching a session starts another session with its own transcripts; a branch starts with a copy of the
 * original. The usage of such sessions since a person took over is added to the original session. Each answer counts
 * once, however many transcripts contain it.
 */
async function readAgentAUsage(
  files: AgentFiles,
  { sessionId, othersSince }: UsageQuery,
  prices: PriceTable,
): Promise<UsageSnapshot[]> {
  if (!isPathSafe(sessionId)) return []
  const createTally = createTallyFactory(prices, files.readAt)
  const projects = (await files.list(PROJECTS_FOLDER)).filter(isPathSafe).slice(0, PROJECTS_MAX)
  const [own, answers]: [SessionUsage[], SessionAnswers] = [[], emptyAnswers()]
  for (const projectKey of projects)
    own.push(
      await readSession(
        { projectKey, sessionId },
        { files, createTally, transcriptsLeft: OWN_TRANSCRIPTS_MAX },
        answers,
      ),
    )
  if (othersSince === undefined) return buildSnapshots(own, [])
  const reading = { files, createTally, transcriptsLeft: OTHER_TRANSCRIPTS_MAX }
  const others = await readOtherEntries(projects, sessionId, reading)
  return buildSnapshots(
    own,
    others.filter(({ at }) => Date.parse(at) >= Date.parse(othersSince)),
  )
}

/** Adds the usage of other sessions to the first of the session's own transcripts that has entries. */
function buildSnapshots(own: readonly SessionUsage[], others: readonly UsageEntry[]): UsageSnapshot[] {
  const carrier = own.find(({ main }) => main.size > 0) ?? own[0]
  const all = own.flatMap((session) => [
    buildSnapshot(session.source, [...session.main.entries(), ...(session === carrier ? others : [])]),
    ...session.nested.map(({ source, tally }) => buildSnapshot(source, tally.entries())),
  ])
  return all.filter((snapshot) => snapshot !== undefined)
}

async function readOtherEntries(
  projects: readonly string[],
  own: string,
  reading: TranscriptReading,
): Promise<UsageEntry[]> {
  const tallies: UsageTally[] = []
  for (const projectKey of projects)
    for (const sessionId of await listSessions(reading, projectKey)) {
      if (sessionId === own || reading.transcriptsLeft <= 0) continue
      const { main, nested } = await readSession({ projectKey, sessionId }, reading)
      tallies.push(main, ...nested.map(({ tally }) => tally))
    }
  return tallies.flatMap((tally) => tally.entries())
}

async function listSessions({ files }: TranscriptReading, projectKey: string): Promise<string[]> {
  const names = await files.list(`${PROJECTS_FOLDER}/${projectKey}`)
  return names.flatMap((name) => SESSION_FILE.exec(name)?.[1] ?? [])
}

// ---- the latest session --------------------------------------------------------------------------------------------

const SESSIONS_MAX = 200
/** Strict, because the id becomes a command line argument. */
const RESUMABLE_SESSION_FILE = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$/
/** A fast test that skips most lines before parsing. */
const IS_ANSWER = /"assistant"/
const NEVER = Number.NEGATIVE_INFINITY

/**
 * Finds the session of agentA that a returning person used last.
 *
 * Clearing or branching a session starts a new one in the same folder. When you come back, you continue the session
 * with the latest answer. In sessions other than the run's own, only answers at a terminal count, because an agent may
 * start further agents for its work. A session without answers cannot be continued.
 *
 * Returns the run's own session when there is no later one.
 */
export async function findLatestSession(files: AgentFiles, own: string): Promise<string> {
  const { folder, sessions } = await findSessionFolder(files, own)
  const others = sessions.filter((id) => id !== own).slice(0, SESSIONS_MAX)
  if (others.length === 0) return own
  let [latest, answeredAt] = [own, await lastAnswerAt(files, `${folder}/${own}.jsonl`, () => true)]
  for (const id of others) {
    const at = await lastAnswerAt(files, `${folder}/${id}.jsonl`, isFromTerminal)
    if (at > answeredAt) [latest, answeredAt] = [id, at]
  }
  return latest
}

/** Later sessions are in the same project folder as the run's own. */
async function findSessionFolder(
  files: AgentFiles,
  own: string,
): Promise<{ folder: string; sessions: string[] }> {
  const projects = (await files.list(PROJECTS_FOLDER)).filter(isPathSafe).slice(0, PROJECTS_MAX)
  for (const project of projects) {
    const folder = `${PROJECTS_FOLDER}/${project}`
    const sessions = (await files.list(folder)).flatMap(
      (name) => RESUMABLE_SESSION_FILE.exec(name)?.[1] ?? [],
    )
    if (sessions.includes(own)) return { folder, sessions }
  }
  return { folder: '', sessions: [] }
}

/**
 * Returns the instant of the last answer in wall-clock milliseconds. Answers copied from a forked session don't count.
 */
async function lastAnswerAt(
  files: AgentFiles,
  path: string,
  counts: (line: JsonObject) => boolean,
): Promise<number> {
  let last = NEVER
  for await (const text of files.lines(path)) {
    const line = IS_ANSWER.test(text) ? parseObject(text) : undefined
    if (line === undefined || !isAnswer(line) || !counts(line)) continue
    const at = Date.parse(textAt(line, 'timestamp') ?? '')
    if (at > last) last = at
  }
  return last
}

function isAnswer(line: JsonObject): boolean {
  if (textAt(line, 'type') !== 'assistant' || field(line, 'isSidechain') === true) return false
  return textAt(objectAt(line, 'message'), 'model') !== '<synthetic>' && !isObject(field(line, 'forkedFrom'))
}

const isFromTerminal = (line: JsonObject): boolean => textAt(line, 'entrypoint') === 'cli'
