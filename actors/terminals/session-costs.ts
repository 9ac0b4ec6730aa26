/**
 * What people's sessions cost, among the costs of their runs.
 *
 * When a session ends, its worker exports its usage once more, outside any lease: the whole of it, what the run's own
 * executions have used included. How far those were accounted is found out before the first of these exports replaces
 * what is archived, and kept; from then on a session's cost is worked out anew from what it says, so that an export
 * that comes twice changes nothing. Costs are written to runs at rest only. For one that is not, they wait.
 */
import type { KeyValues, UsageArchive, UsageKey, Write } from '../../core/ports.ts'
import { PRICES } from '../../core/run/price-table.ts'
import {
  newestOf,
  type SessionPart,
  sessionCost,
  sessionPart,
  sessionsIn,
  withSessionCost,
} from '../../core/run/session-cost.ts'
import { SESSIONS_KEPT_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface SessionCostPorts {
  readonly keyValues: KeyValues
  readonly usage: UsageArchive
  /** Wall milliseconds. */
  readonly now: () => number
  /** The newest word on a run that is at rest; undefined for one that is not. */
  readonly resting: (runId: string) => Run | undefined
  readonly change: (run: Run) => void
  readonly requestCommit: () => void
}

/** As it is on disk. */
interface Session {
  readonly runId: string
  readonly bootedAt: number
  /** The run's end, as records write it. */
  readonly endedAt: string
  /** What is younger is this session's: by project, each from its first export after the boot on. */
  readonly sinces?: Readonly<Record<string, string>>
  /** For all projects, as earlier releases had it. */
  readonly since?: string
  /** How far the sessions before it were accounted. */
  readonly before?: string
  /** The youngest instant accounted so far; in the archive, too, unless this process or the disk failed in between. */
  readonly until?: string
  /** By project and subagent, the session's own under the empty name. */
  readonly parts: Readonly<Record<string, SessionPart>>
  /** Of the sessions of its run, once it has a place among the costs. */
  readonly number?: number
  /** The run was not at rest: the costs are to be written once it is. */
  readonly owed?: true
}

/** Whoever exports more is not a worker of ours; and all of it is written with each. */
const PARTS_MAX = 1_024
/** Becomes a part of a key on disk; what is no such name can't come in an export either. */
const SESSION_ID = /^[A-Za-z0-9._-]{1,200}$/
const keyOf = (workerId: string, sessionId: string): string => `${workerId}/${sessionId}`

export class SessionCosts implements CommitParticipant {
  readonly #ports: SessionCostPorts
  /** Not on disk yet. */
  #toWrite = new Map<string, Session | null>()
  readonly #writing = new Map<string, Session | null>()
  #whenLanded: (() => void)[] = []
  /** Run → key of the session whose costs it is owed. */
  readonly #owed = new Map<string, string>()
  /** The exports of one session come one after the other. */
  readonly #turns = new Map<string, Promise<void>>()

  constructor(ports: SessionCostPorts) {
    this.#ports = ports
  }

  /** What was owed when the process ended still is. */
  start(): void {
    for (const [key, { owed, runId }] of [...this.#all()]) {
      if (owed === undefined) continue
      this.#owed.set(runId, key)
      if (this.#ports.resting(runId) !== undefined) this.rests(runId)
    }
  }

  /** A person goes on with it. What it exports after this is one session more. */
  booted({ id: runId, finishedAt }: Run, workerId: string, sessionId: string): void {
    if (!SESSION_ID.test(sessionId)) return
    const bootedAt = this.#ports.now()
    const endedAt = finishedAt ?? new Date(bootedAt).toISOString()
    const key = keyOf(workerId, sessionId)
    const before = this.#newest(key)?.until
    const known = before === undefined ? {} : { before, until: before }
    this.#write(key, { runId, bootedAt, endedAt, parts: {}, ...known })
  }

  /** Whether this worker had the session booted for a person, be it before a restart or of a run that is discarded. */
  knows(workerId: string, sessionId: string): boolean {
    return SESSION_ID.test(sessionId) && this.#newest(keyOf(workerId, sessionId)) !== undefined
  }

  /** An export that came outside any lease: its costs are on disk when this resolves, and it may be archived. */
  async exported(workerId: string, key: UsageKey, entries: readonly UsageEntry[]): Promise<void> {
    const name = keyOf(workerId, key.sessionId)
    const turn = (this.#turns.get(name) ?? Promise.resolve()).then(() => this.#account(name, key, entries))
    const settled = turn.catch(() => {})
    this.#turns.set(name, settled)
    await turn.finally(() => {
      if (this.#turns.get(name) === settled) this.#turns.delete(name)
    })
  }

  /** A run has come to rest: what it is owed is written now. */
  rests(runId: string): void {
    const key = this.#owed.get(runId)
    const session = key === undefined ? undefined : this.#newest(key)
    this.#owed.delete(runId)
    if (key !== undefined && session !== undefined) this.#enter(key, session)
  }

  /** Drops sessions so old that nobody exports them any more. */
  prune(): void {
    const before = this.#ports.now() - SESSIONS_KEPT_MS
    for (const [key, { bootedAt, owed }] of [...this.#all()])
      if (bootedAt < before && owed === undefined) this.#write(key, null)
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    const waiting = this.#whenLanded
    this.#toWrite = new Map()
    this.#whenLanded = []
    for (const [key, session] of written) this.#writing.set(key, session)
    const writes = [...written].map(
      ([key, value]): Write => ({ table: 'key-value', collection: 'session', key, value }),
    )
    return {
      writes,
      onCommitted: () => {
        for (const [key, session] of written)
          if (this.#writing.get(key) === session) this.#writing.delete(key)
        for (const landed of waiting) landed()
      },
    }
  }

  // ---- accounting --------------------------------------------------------------------------------------------------

  async #account(name: string, key: UsageKey, entries: readonly UsageEntry[]): Promise<void> {
    const session = this.#newest(name)
    if (session === undefined) return
    const place = placeOf(key)
    const since = session.sinces?.[place] ?? session.since ?? (await this.#accountedUntil(session, key))
    const now = this.#newest(name)
    if (now === undefined) return
    // Booted again while the archive was read. What is archived next counts as accounted, so it goes with the new one.
    if (now.bootedAt !== session.bootedAt) return this.#account(name, key, entries)
    const part = sessionPart(entries, since, PRICES)
    const until = later(now.until ?? '', newestOf(entries))
    const parts = partsWith(now.parts, key, part)
    this.#enter(name, { ...now, sinces: { ...now.sinces, [place]: since }, until, parts })
    await new Promise<void>((resolve) => this.#whenLanded.push(resolve))
  }

  /** By what is archived, and by what sessions before it came to; where nothing is, by when the run ended. */
  async #accountedUntil(
    { endedAt, before = '' }: Session,
    { projectKey, sessionId }: UsageKey,
  ): Promise<string> {
    const { usage } = this.#ports
    const keys = (await usage.list(projectKey)).filter((key) => key.sessionId === sessionId)
    let newest = before
    for (const key of keys) newest = later(newest, newestOf(entriesOf(await usage.read(key))))
    return newest === '' ? endedAt : newest
  }

  #enter(name: string, session: Session): void {
    const { owed: _, ...settled } = session
    const run = this.#ports.resting(session.runId)
    const number = session.number ?? (run === undefined ? undefined : sessionsIn(run.costs) + 1)
    const entry = number === undefined ? undefined : sessionCost(Object.values(session.parts), number)
    if (run === undefined) {
      this.#owed.set(session.runId, name)
      this.#write(name, { ...session, owed: true })
    } else if (number === undefined || entry === undefined) this.#write(name, settled)
    else {
      this.#write(name, { ...settled, number })
      // Written once, and gone since: it was added up with others, which can't be undone.
      const foldedAway = session.number !== undefined && !run.costs.some(({ label }) => label === entry.label)
      if (!foldedAway) this.#ports.change(withSessionCost(run, entry))
    }
  }

  // ---- on disk -----------------------------------------------------------------------------------------------------

  #newest(key: string): Session | undefined {
    const unwritten = this.#toWrite.get(key) ?? this.#writing.get(key)
    // Only this class writes to the shelf.
    return unwritten ?? (this.#ports.keyValues.get('session', key) as Session | undefined)
  }

  *#all(): Iterable<readonly [string, Session]> {
    for (const [key, value] of this.#ports.keyValues.all('session')) yield [key, value as Session]
  }

  #write(key: string, session: Session | null): void {
    this.#toWrite.set(key, session)
    this.#ports.requestCommit()
  }
}

/** No object has a property of such a name by itself. */
const placeOf = ({ projectKey }: UsageKey): string => `${projectKey}/`

function partsWith(parts: Session['parts'], key: UsageKey, part: SessionPart): Session['parts'] {
  const { subagentId = '' } = key
  const name = `${placeOf(key)}${subagentId}`
  // Earlier releases named it so.
  const { [subagentId]: _, ...others } = parts
  const isNew = !Object.hasOwn(others, name)
  return isNew && Object.keys(others).length >= PARTS_MAX ? others : { ...others, [name]: part }
}

/** Of two instants, as records write them. */
const later = (a: string, b: string): string => (a > b ? a : b)

/** What we wrote ourselves, unless somebody put something else there; then it says nothing. */
function entriesOf(text: string | undefined): readonly UsageEntry[] {
  try {
    const { entries } = JSON.parse(text ?? '{}') as { entries?: unknown }
    return Array.isArray(entries) ? (entries as UsageEntry[]).filter(({ at }) => typeof at === 'string') : []
  } catch {
    return []
  }
}
