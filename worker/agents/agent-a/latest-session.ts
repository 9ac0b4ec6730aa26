/**
 * Finds the session of agentA that a returning person used last.
 *
 * Clearing or branching a session starts a new one in the same folder. When you come back, you continue the session
 * with the latest answer. In sessions other than the run's own, only answers at a terminal count, because an agent may
 * start further agents for its work. A session without answers cannot be continued.
 */
import type { AgentFiles } from '../agent.ts'
import { field, isObject, type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'
import { isPathSafe } from '../usage-tally.ts'
import { PROJECTS_FOLDER } from './command.ts'

/** Limits, because an agent can create any number of folders and files. */
const PROJECTS_MAX = 100
const SESSIONS_MAX = 200
/** Strict, because the id becomes a command line argument. */
const SESSION_FILE = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$/
/** A fast test that skips most lines before parsing. */
const IS_ANSWER = /"assistant"/
const NEVER = Number.NEGATIVE_INFINITY

/** Returns the run's own session when there is no later one. */
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
    const sessions = (await files.list(folder)).flatMap((name) => SESSION_FILE.exec(name)?.[1] ?? [])
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
