/**
 * What agentA's transcripts tell of the use of a session and its nested agents.
 *
 * A person who clears or branches a session goes on in another one, with transcripts of its own, and a branch begins as
 * a copy of what it branched from. What such sessions have used since the person came belongs to the session that he
 * came for, each answer once, wherever else it stands.
 */
import type { PriceTable } from '../../core/run/price.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { AgentFiles } from './agent.ts'
import { PROJECTS_FOLDER } from './agent-a-command.ts'
import {
  emptyAnswers,
  readSession,
  type SessionAnswers,
  type SessionUsage,
  type TranscriptReading,
} from './agent-a-transcript.ts'
import { buildSnapshot, createTallyFactory, isPathSafe, type UsageTally } from './usage-tally.ts'

/** An agent can make any number of folders. */
const PROJECTS_MAX = 100
/** Of the session, in each of those, nested agents included. */
const OWN_TRANSCRIPTS_MAX = 1_001
/** Of other sessions, all together. */
const OTHER_TRANSCRIPTS_MAX = 2_000
const SESSION_FILE = /^([A-Za-z0-9_-]{1,100})\.jsonl$/

export interface UsageQuery {
  readonly sessionId: string
  /** An instant from which on the use of other sessions counts, too. Absent: it never does. */
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

/** What others have used stands with the session's own, where it has a transcript that says anything. */
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
