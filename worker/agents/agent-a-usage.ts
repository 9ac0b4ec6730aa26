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
import { PROJECTS } from './agent-a-command.ts'
import {
  nothingSaid,
  type Reading,
  type SessionSaid,
  type SessionUse,
  sessionUse,
} from './agent-a-transcript.ts'
import { isPathSafe, snapshotOf, type UsageTally, usageTallies } from './usage-tally.ts'

/** An agent can make any number of folders. */
const PROJECTS_MAX = 100
/** Of the session, in each of those, nested agents included. */
const TRANSCRIPTS_MAX = 1_001
/** Of other sessions, all together. */
const OTHER_TRANSCRIPTS_MAX = 2_000
const SESSION_FILE = /^([A-Za-z0-9_-]{1,100})\.jsonl$/

export interface UsageOrder {
  readonly sessionId: string
  /** An instant from which on the use of other sessions counts, too. Absent: it never does. */
  readonly andSince?: string | undefined
}

export async function agentAUsage(
  files: AgentFiles,
  { sessionId, andSince }: UsageOrder,
  prices: PriceTable,
): Promise<UsageSnapshot[]> {
  if (!isPathSafe(sessionId)) return []
  const begin = usageTallies(prices, files.readAt)
  const projects = (await files.list(PROJECTS)).filter(isPathSafe).slice(0, PROJECTS_MAX)
  const [own, said]: [SessionUse[], SessionSaid] = [[], nothingSaid()]
  for (const projectKey of projects)
    own.push(await sessionUse({ projectKey, sessionId }, { files, begin, left: TRANSCRIPTS_MAX }, said))
  if (andSince === undefined) return snapshots(own, [])
  const reading = { files, begin, left: OTHER_TRANSCRIPTS_MAX }
  const others = await entriesOfOthers(projects, sessionId, reading)
  return snapshots(
    own,
    others.filter(({ at }) => Date.parse(at) >= Date.parse(andSince)),
  )
}

/** What others have used stands with the session's own, where it has a transcript that says anything. */
function snapshots(own: readonly SessionUse[], others: readonly UsageEntry[]): UsageSnapshot[] {
  const host = own.find(({ main }) => main.size > 0) ?? own[0]
  const all = own.flatMap((session) => [
    snapshotOf(session.place, [...session.main.entries(), ...(session === host ? others : [])]),
    ...session.nested.map(({ place, tally }) => snapshotOf(place, tally.entries())),
  ])
  return all.filter((snapshot) => snapshot !== undefined)
}

async function entriesOfOthers(
  projects: readonly string[],
  own: string,
  reading: Reading,
): Promise<UsageEntry[]> {
  const tallies: UsageTally[] = []
  for (const projectKey of projects)
    for (const sessionId of await sessionsIn(reading, projectKey)) {
      if (sessionId === own || reading.left <= 0) continue
      const { main, nested } = await sessionUse({ projectKey, sessionId }, reading)
      tallies.push(main, ...nested.map(({ tally }) => tally))
    }
  return tallies.flatMap((tally) => tally.entries())
}

async function sessionsIn({ files }: Reading, projectKey: string): Promise<string[]> {
  const names = await files.list(`${PROJECTS}/${projectKey}`)
  return names.flatMap((name) => SESSION_FILE.exec(name)?.[1] ?? [])
}
