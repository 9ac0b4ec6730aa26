/**
 * Reads the usage of an agentA session and its nested agents from the transcripts.
 *
 * Clearing or branching a session starts another session with its own transcripts; a branch starts with a copy of the
 * original. The usage of such sessions since a person took over is added to the original session. Each answer counts
 * once, however many transcripts contain it.
 */
import type { PriceTable } from '../../../core/run/price.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import type { UsageEntry } from '../../../protocol/usage.ts'
import type { AgentFiles } from '../agent.ts'
import { buildSnapshot, createTallyFactory, isPathSafe, type UsageTally } from '../usage-tally.ts'
import { PROJECTS_FOLDER } from './command.ts'
import {
  emptyAnswers,
  readSession,
  type SessionAnswers,
  type SessionUsage,
  type TranscriptReading,
} from './transcript.ts'

/** A limit, because an agent can create any number of folders. */
const PROJECTS_MAX = 100
/** Transcripts of the session per project folder, including nested agents. */
const OWN_TRANSCRIPTS_MAX = 1_001
/** Transcripts of all other sessions together. */
const OTHER_TRANSCRIPTS_MAX = 2_000
const SESSION_FILE = /^([A-Za-z0-9_-]{1,100})\.jsonl$/

export interface UsageQuery {
  readonly sessionId: string
  /** Usage of other sessions counts from this instant on. Absent: it does not count. */
  readonly othersSince?: string | undefined
}

export async function readAgentAUsage(
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
