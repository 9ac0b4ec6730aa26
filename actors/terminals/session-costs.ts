/**
 * SessionCosts adds the cost of people's terminal sessions to the costs of their runs.
 *
 * When a session ends, its worker exports the agent's whole usage outside any lease, including that of the run's own
 * executions. Before the first export replaces the archived usage, SessionCosts stores how far the archive was already
 * accounted. Each export then recomputes the session's cost from usage after that instant, so a repeated export
 * changes nothing. Costs are written to finished runs only; those of an active run wait.
 */
import type { UsageArchive, UsageKey } from '../../core/ports/store.ts'
import { PRICES } from '../../core/run/price-table.ts'
import {
  addSessionCost,
  countSessions,
  newestInstant,
  type SessionCostPart,
  sessionCost,
  sessionCostPart,
} from '../../core/run/session-cost.ts'
import type { Run } from '../../protocol/run.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'

/** How long ended terminal sessions are remembered, for usage exports that arrive late. */
const SESSIONS_KEPT_MS = 31 * 24 * 3_600_000

export interface SessionCostsPorts extends StoredCollectionPorts {
  readonly usage: UsageArchive
  /** Wall clock in milliseconds. */
  readonly now: () => number
  readonly trustedClock: Pick<TrustedClock, 'now'>
  /** The newest record of a finished run; undefined while the run is active. */
  readonly finishedRun: (runId: string) => Run | undefined
  readonly changeRun: (run: Run) => void
}

/** A session as stored on disk, so its fields keep their names. */
interface SessionRecord {
  readonly runId: string
  readonly bootedAt: number
  /** When the run finished, as an ISO 8601 timestamp. */
  readonly endedAt: string
  /** By project: usage after this instant belongs to the session. Set by the first export after the boot. */
  readonly sinces?: Readonly<Record<string, string>>
  /** The same instant for all projects, as earlier releases stored it. */
  readonly since?: string
  /** Instant up to which earlier sessions were accounted. */
  readonly before?: string
  /** The latest instant accounted so far. The archive may lag behind it after a crash or a disk failure. */
  readonly until?: string
  /** Cost parts by project and subagent; the main agent's part has the empty subagent name. */
  readonly parts: Readonly<Record<string, SessionCostPart>>
  /** The session's number among the sessions of its run, once its costs have been written. */
  readonly number?: number
  /** The run was active: the costs are written once it has finished. */
  readonly owed?: true
}

/** No genuine worker exports more parts, and every export rewrites the whole record. */
const PARTS_MAX = 1_024
/** Session ids become part of a key on disk. Exports can't carry other ids either. */
const SESSION_ID = /^[A-Za-z0-9._-]{1,200}$/
const keyOf = (workerId: string, sessionId: string): string => `${workerId}/${sessionId}`

export class SessionCosts implements CommitParticipant {
  readonly #ports: SessionCostsPorts
  readonly #sessions: StoredCollection<SessionRecord>
  #commitWaiters: (() => void)[] = []
  /** By run: key of the session whose costs wait for the run to finish. */
  readonly #owed = new Map<string, string>()
  /** By session: resolves when its previous export is accounted, so that exports stay in order. */
  readonly #exportsInOrder = new Map<string, Promise<void>>()

  constructor(ports: SessionCostsPorts) {
    this.#ports = ports
    this.#sessions = new StoredCollection('session', ports)
  }

  /** Restores the costs that still waited for their runs when the process ended. */
  start(): void {
    for (const [key, { owed, runId }] of [...this.#sessions.listDurable()]) {
      if (owed === undefined) continue
      this.#owed.set(runId, key)
      if (this.#ports.finishedRun(runId) !== undefined) this.onRunFinished(runId)
    }
  }

  /** Records that a person resumed the agent session. Later exports of it count as a further session. */
  startSession({ id: runId, finishedAt }: Run, workerId: string, sessionId: string): void {
    if (!SESSION_ID.test(sessionId)) return
    const bootedAt = this.#ports.now()
    const endedAt = finishedAt ?? new Date(bootedAt).toISOString()
    const key = keyOf(workerId, sessionId)
    const before = this.#sessions.get(key)?.until
    const known = before === undefined ? {} : { before, until: before }
    this.#sessions.set(key, { runId, bootedAt, endedAt, parts: {}, ...known })
  }

  /** Whether this worker booted the session for a person; also true after a restart, or when the run was discarded. */
  hasSession(workerId: string, sessionId: string): boolean {
    return SESSION_ID.test(sessionId) && this.#sessions.get(keyOf(workerId, sessionId)) !== undefined
  }

  /** Accounts an export that came outside any lease. Resolves when its costs are on disk; then it may be archived. */
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

  /** Writes the costs that waited for this run to finish. */
  onRunFinished(runId: string): void {
    const key = this.#owed.get(runId)
    const session = key === undefined ? undefined : this.#sessions.get(key)
    this.#owed.delete(runId)
    if (key !== undefined && session !== undefined) this.#writeCosts(key, session)
  }

  /** Deletes sessions that are too old to be exported again. */
  prune(): void {
    const now = this.#ports.trustedClock.now()
    if (now === undefined) return
    const before = now - SESSIONS_KEPT_MS
    for (const [key, { bootedAt, owed }] of [...this.#sessions.listDurable()])
      if (bootedAt < before && owed === undefined) this.#sessions.set(key, null)
  }

  contribute(): CommitContribution | undefined {
    const contribution = this.#sessions.contribute()
    if (contribution === undefined) return undefined
    const waiting = this.#commitWaiters
    this.#commitWaiters = []
    return {
      ...contribution,
      onCommitted: () => {
        contribution.onCommitted()
        for (const resolve of waiting) resolve()
      },
    }
  }

  // ---- accounting --------------------------------------------------------------------------------------------------

  async #account(name: string, key: UsageKey, entries: readonly UsageEntry[]): Promise<void> {
    const session = this.#sessions.get(name)
    if (session === undefined) return
    const project = projectPrefix(key)
    const since = session.sinces?.[project] ?? session.since ?? (await this.#accountedUntil(session, key))
    const current = this.#sessions.get(name)
    if (current === undefined) return
    // The session was resumed again while the archive was read. Account this export to the newer record, because the
    // archive will count as accounted for it.
    if (current.bootedAt !== session.bootedAt) return this.#account(name, key, entries)
    const part = sessionCostPart(entries, since, PRICES)
    const until = laterOf(current.until ?? '', newestInstant(entries))
    const parts = partsWith(current.parts, key, part)
    this.#writeCosts(name, { ...current, sinces: { ...current.sinces, [project]: since }, until, parts })
    await new Promise<void>((resolve) => this.#commitWaiters.push(resolve))
  }

  /** The latest instant in the archive or in earlier sessions; the end of the run when neither has any. */
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
      this.#sessions.set(name, { ...session, owed: true })
    } else if (number === undefined || entry === undefined) this.#sessions.set(name, settled)
    else {
      this.#sessions.set(name, { ...settled, number })
      // An entry that was written and is missing now was merged with others, so it can't be updated any more.
      const isMerged = session.number !== undefined && !run.costs.some(({ label }) => label === entry.label)
      if (!isMerged) this.#ports.changeRun(addSessionCost(run, entry))
    }
  }
}

/** The slash keeps the name apart from inherited properties of objects. */
const projectPrefix = ({ projectKey }: UsageKey): string => `${projectKey}/`

function partsWith(
  parts: SessionRecord['parts'],
  key: UsageKey,
  part: SessionCostPart,
): SessionRecord['parts'] {
  const { subagentId = '' } = key
  const name = `${projectPrefix(key)}${subagentId}`
  // Earlier releases used the subagent id alone as the name.
  const { [subagentId]: _, ...others } = parts
  const isNew = !Object.hasOwn(others, name)
  return isNew && Object.keys(others).length >= PARTS_MAX ? others : { ...others, [name]: part }
}

/** The later of two ISO 8601 timestamps. */
const laterOf = (a: string, b: string): string => (a > b ? a : b)

/** Entries of an archived export; none when the file was replaced by something unreadable. */
function entriesOf(text: string | undefined): readonly UsageEntry[] {
  try {
    const { entries } = JSON.parse(text ?? '{}') as { entries?: unknown }
    return Array.isArray(entries) ? (entries as UsageEntry[]).filter(({ at }) => typeof at === 'string') : []
  } catch {
    return []
  }
}
