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
  addSessionCost,
  countSessions,
  newestInstant,
  type SessionCostPart,
  sessionCost,
  sessionCostPart,
} from '../../core/run/session-cost.ts'
import { SESSIONS_KEPT_MS } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface SessionCostsPorts {
  readonly keyValues: KeyValues
  readonly usage: UsageArchive
  /** Wall milliseconds. */
  readonly now: () => number
  /** The newest word on a run that is at rest; undefined for one that is not. */
  readonly finishedRun: (runId: string) => Run | undefined
  readonly changeRun: (run: Run) => void
  readonly requestCommit: () => void
}

/** As it is on disk. */
interface SessionRecord {
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
  readonly parts: Readonly<Record<string, SessionCostPart>>
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
  readonly #ports: SessionCostsPorts
  /** Not on disk yet. */
  #toWrite = new Map<string, SessionRecord | null>()
  readonly #writing = new Map<string, SessionRecord | null>()
  #commitWaiters: (() => void)[] = []
  /** Run → key of the session whose costs it is owed. */
  readonly #owed = new Map<string, string>()
  /** The exports of one session come one after the other. */
  readonly #exportsInOrder = new Map<string, Promise<void>>()

  constructor(ports: SessionCostsPorts) {
    this.#ports = ports
  }

  /** What was owed when the process ended still is. */
  start(): void {
    for (const [key, { owed, runId }] of [...this.#all()]) {
      if (owed === undefined) continue
      this.#owed.set(runId, key)
      if (this.#ports.finishedRun(runId) !== undefined) this.onRunFinished(runId)
    }
  }

  /** A person goes on with it. What it exports after this is one session more. */
  startSession({ id: runId, finishedAt }: Run, workerId: string, sessionId: string): void {
    if (!SESSION_ID.test(sessionId)) return
    const bootedAt = this.#ports.now()
    const endedAt = finishedAt ?? new Date(bootedAt).toISOString()
    const key = keyOf(workerId, sessionId)
    const before = this.#session(key)?.until
    const known = before === undefined ? {} : { before, until: before }
    this.#write(key, { runId, bootedAt, endedAt, parts: {}, ...known })
  }

  /** Whether this worker had the session booted for a person, be it before a restart or of a run that is discarded. */
  hasSession(workerId: string, sessionId: string): boolean {
    return SESSION_ID.test(sessionId) && this.#session(keyOf(workerId, sessionId)) !== undefined
  }

  /** An export that came outside any lease: its costs are on disk when this resolves, and it may be archived. */
  async addExport(workerId: string, key: UsageKey, entries: readonly UsageEntry[]): Promise<void> {
    const name = keyOf(workerId, key.sessionId)
    const accounted = (this.#exportsInOrder.get(name) ?? Promise.resolve()).then(() =>
      this.#account(name, key, entries),
    )
    const settled = accounted.catch(() => {})
    this.#exportsInOrder.set(name, settled)
    await accounted.finally(() => {
      if (this.#exportsInOrder.get(name) === settled) this.#exportsInOrder.delete(name)
    })
  }

  /** A run has come to rest: what it is owed is written now. */
  onRunFinished(runId: string): void {
    const key = this.#owed.get(runId)
    const session = key === undefined ? undefined : this.#session(key)
    this.#owed.delete(runId)
    if (key !== undefined && session !== undefined) this.#writeCosts(key, session)
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
    const waiting = this.#commitWaiters
    this.#toWrite = new Map()
    this.#commitWaiters = []
    for (const [key, session] of written) this.#writing.set(key, session)
    const writes = [...written].map(
      ([key, value]): Write => ({ table: 'key-value', collection: 'session', key, value }),
    )
    return {
      writes,
      onCommitted: () => {
        for (const [key, session] of written)
          if (this.#writing.get(key) === session) this.#writing.delete(key)
        for (const resolve of waiting) resolve()
      },
    }
  }

  // ---- accounting --------------------------------------------------------------------------------------------------

  async #account(name: string, key: UsageKey, entries: readonly UsageEntry[]): Promise<void> {
    const session = this.#session(name)
    if (session === undefined) return
    const project = projectPrefix(key)
    const since = session.sinces?.[project] ?? session.since ?? (await this.#accountedUntil(session, key))
    const current = this.#session(name)
    if (current === undefined) return
    // Booted again while the archive was read. What is archived next counts as accounted, so it goes with the new one.
    if (current.bootedAt !== session.bootedAt) return this.#account(name, key, entries)
    const part = sessionCostPart(entries, since, PRICES)
    const until = laterOf(current.until ?? '', newestInstant(entries))
    const parts = partsWith(current.parts, key, part)
    this.#writeCosts(name, { ...current, sinces: { ...current.sinces, [project]: since }, until, parts })
    await new Promise<void>((resolve) => this.#commitWaiters.push(resolve))
  }

  /** By what is archived, and by what sessions before it came to; where nothing is, by when the run ended. */
  async #accountedUntil(
    { endedAt, before = '' }: SessionRecord,
    { projectKey, sessionId }: UsageKey,
  ): Promise<string> {
    const { usage } = this.#ports
    const keys = (await usage.list(projectKey)).filter((key) => key.sessionId === sessionId)
    let newest = before
    for (const key of keys) newest = laterOf(newest, newestInstant(entriesOf(await usage.read(key))))
    return newest === '' ? endedAt : newest
  }

  #writeCosts(name: string, session: SessionRecord): void {
    const { owed: _, ...settled } = session
    const run = this.#ports.finishedRun(session.runId)
    const number = session.number ?? (run === undefined ? undefined : countSessions(run.costs) + 1)
    const entry = number === undefined ? undefined : sessionCost(Object.values(session.parts), number)
    if (run === undefined) {
      this.#owed.set(session.runId, name)
      this.#write(name, { ...session, owed: true })
    } else if (number === undefined || entry === undefined) this.#write(name, settled)
    else {
      this.#write(name, { ...settled, number })
      // Written once, and gone since: it was added up with others, which can't be undone.
      const foldedAway = session.number !== undefined && !run.costs.some(({ label }) => label === entry.label)
      if (!foldedAway) this.#ports.changeRun(addSessionCost(run, entry))
    }
  }

  // ---- on disk -----------------------------------------------------------------------------------------------------

  #session(key: string): SessionRecord | undefined {
    const unwritten = this.#toWrite.get(key) ?? this.#writing.get(key)
    // Only this class writes to the shelf.
    return unwritten ?? (this.#ports.keyValues.get('session', key) as SessionRecord | undefined)
  }

  *#all(): Iterable<readonly [string, SessionRecord]> {
    for (const [key, value] of this.#ports.keyValues.all('session')) yield [key, value as SessionRecord]
  }

  #write(key: string, session: SessionRecord | null): void {
    this.#toWrite.set(key, session)
    this.#ports.requestCommit()
  }
}

/** No object has a property of such a name by itself. */
const projectPrefix = ({ projectKey }: UsageKey): string => `${projectKey}/`

function partsWith(
  parts: SessionRecord['parts'],
  key: UsageKey,
  part: SessionCostPart,
): SessionRecord['parts'] {
  const { subagentId = '' } = key
  const name = `${projectPrefix(key)}${subagentId}`
  // Earlier releases named it so.
  const { [subagentId]: _, ...others } = parts
  const isNew = !Object.hasOwn(others, name)
  return isNew && Object.keys(others).length >= PARTS_MAX ? others : { ...others, [name]: part }
}

/** Of two instants, as records write them. */
const laterOf = (a: string, b: string): string => (a > b ? a : b)

/** What we wrote ourselves, unless somebody put something else there; then it says nothing. */
function entriesOf(text: string | undefined): readonly UsageEntry[] {
  try {
    const { entries } = JSON.parse(text ?? '{}') as { entries?: unknown }
    return Array.isArray(entries) ? (entries as UsageEntry[]).filter(({ at }) => typeof at === 'string') : []
  } catch {
    return []
  }
}
