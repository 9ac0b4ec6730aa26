/**
 * In which of agentA's sessions a person who comes back was last.
 *
 * Whoever clears or branches a session goes on in another one, begun in the same folder, and wants to find that again.
 * So it is the one in which something was answered last. Of sessions other than the run's own only what was answered at
 * a terminal counts: an agent may have started others of its kind for its work. An answer there must be, for a session
 * without any cannot be gone on with.
 */
import type { AgentFiles } from './agent.ts'
import { PROJECTS_FOLDER } from './agent-a-command.ts'
import { field, isObject, type JsonObject, objectAt, parseObject, textAt } from './json-lines.ts'
import { isPathSafe } from './usage-tally.ts'

/** An agent can make any number of folders, and of files. */
const PROJECTS_MAX = 100
const SESSIONS_MAX = 200
/** Becomes an argument. */
const SESSION_FILE = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$/
/** Most of a transcript is about something else. */
const IS_ANSWER = /"assistant"/
const NEVER = Number.NEGATIVE_INFINITY

/** The run's own session, when there is no other. */
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

/** Sessions are looked for only where they were begun. */
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

/** Wall milliseconds. What another session was begun as a copy of was not said in it. */
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
