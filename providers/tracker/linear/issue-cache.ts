/**
 * Caches the issues of Linear as last read, with their problems.
 *
 * A listed issue is one that Linear's filter found eligible. An issue that leaves the filter stays cached, so that its
 * new state is seen.
 */
import type { TrackedTicket } from '../../../core/ports/tracker.ts'
import { TICKET_PROBLEMS_MAX } from '../../../protocol/limits.ts'
import type { IssueProblem, LinearIssue } from './issue.ts'
import type { BlockedIssues, IssuesRead } from './reader.ts'

interface CachedIssue {
  readonly issue: LinearIssue
  readonly isListed: boolean
}

export class IssueCache {
  readonly #entries = new Map<string, CachedIssue>()
  /** Problems by issue id, valid until the issue changes. */
  readonly #issueProblems = new Map<string, IssueProblem>()
  /** Ids that were requested and do not exist. */
  readonly #missingIds = new Set<string>()
  /** Issues whose own reading disagrees with Linear's filter about being blocked. */
  readonly #disputedIds = new Set<string>()

  get size(): number {
    return this.#entries.size
  }

  has(id: string): boolean {
    return this.#entries.has(id)
  }

  isListed(id: string): boolean {
    return this.#entries.get(id)?.isListed === true
  }

  tickets(): TrackedTicket[] {
    return [...this.#entries.values()].map(({ issue }) => issue.tracked)
  }

  issueProblems(): string[] {
    return [...this.#issueProblems.values()].map(({ message }) => message)
  }

  isStale(id: string, updatedAt: string): boolean {
    const entry = this.#entries.get(id)
    const known = entry === undefined ? undefined : updatedAtOf(entry)
    return known !== updatedAt && this.#issueProblems.get(id)?.updatedAt !== updatedAt
  }

  /** Ids worth reading: neither cached, nor missing, nor with a known problem. */
  selectUnknown(ids: Iterable<string>): string[] {
    return [...ids].filter(
      (id) => !this.#entries.has(id) && !this.#missingIds.has(id) && !this.#issueProblems.has(id),
    )
  }

  /** All blockers of cached issues, closed ones included, because they may be reopened. */
  blockerIds(): ReadonlySet<string> {
    return new Set(this.tickets().flatMap(({ ticket }) => ticket.blockedBy))
  }

  /** Uncached blockers of listed or requested issues. */
  selectUnknownBlockers(requested: ReadonlySet<string>): string[] {
    const waiting = [...this.#entries].filter(([id, { isListed }]) => isListed || requested.has(id))
    return this.selectUnknown(new Set(waiting.flatMap(([, { issue }]) => issue.openBlockers)))
  }

  /** Listed issues that became blocked or unblocked since they were read. */
  selectDoubtful({ ids, isComplete }: BlockedIssues): string[] {
    const isDoubtful = ([id, { issue, isListed: listed }]: readonly [string, CachedIssue]): boolean => {
      if (!listed || this.#disputedIds.has(id)) return false
      const isBlocked = issue.tracked.ticket.blockedBy.length > 0
      return ids.has(id) ? !isBlocked : isComplete && isBlocked
    }
    return [...this.#entries].filter(isDoubtful).map(([id]) => id)
  }

  /** Ids listed here and absent from the other cache. */
  selectListedMissingFrom(fresh: IssueCache): string[] {
    return [...this.#entries].filter(([id, { isListed }]) => isListed && !fresh.has(id)).map(([id]) => id)
  }

  // ---- changes ------------------------------------------------------------------------------------------------------

  store({ issues, issueProblems }: IssuesRead, isListed: (id: string) => boolean): void {
    for (const issue of issues) {
      const { id } = issue.tracked.ticket
      this.#entries.set(id, { issue, isListed: isListed(id) })
      this.#issueProblems.delete(id)
      this.#missingIds.delete(id)
      this.#disputedIds.delete(id)
    }
    for (const problem of issueProblems.slice(0, TICKET_PROBLEMS_MAX))
      this.#issueProblems.set(problem.id, problem)
  }

  /** These issues were just read and are correct, so reading them again would not help. */
  markDisputed(blocked: BlockedIssues): void {
    for (const id of this.selectDoubtful(blocked)) this.#disputedIds.add(id)
  }

  setListed(id: string, isListed: boolean): void {
    const entry = this.#entries.get(id)
    if (entry !== undefined) this.#entries.set(id, { ...entry, isListed })
  }

  unlistAll(): void {
    for (const id of this.#entries.keys()) this.setListed(id, false)
  }

  /** A deleted or hidden issue counts as closed. */
  markMissing(ids: readonly string[], earlier: IssueCache): void {
    for (const id of ids) {
      this.#missingIds.add(id)
      const entry = earlier.#entries.get(id)
      if (entry === undefined) continue
      const tracked = { ...entry.issue.tracked, closed: true }
      this.#entries.set(id, { issue: { ...entry.issue, tracked, openBlockers: [] }, isListed: false })
    }
  }

  /** Copies the given issues from an earlier cache unless they are cached here. */
  copyFrom(ids: readonly string[], earlier: IssueCache): void {
    for (const id of ids) {
      const entry = earlier.#entries.get(id)
      if (entry !== undefined && !this.#entries.has(id)) this.#entries.set(id, entry)
    }
  }

  /** Takes over issues that changed during a long read, so that no ticket goes back to an older state. */
  copyNewer(current: IssueCache): void {
    for (const [id, entry] of this.#entries) {
      const newer = current.#entries.get(id)
      if (newer !== undefined && updatedAtOf(newer) > updatedAtOf(entry))
        this.#entries.set(id, { ...entry, issue: newer.issue })
    }
  }

  applyMove(id: string, state: string, closed: boolean): void {
    const entry = this.#entries.get(id)
    if (entry === undefined) return
    const { tracked } = entry.issue
    const moved = { ...tracked, ticket: { ...tracked.ticket, state }, closed }
    this.#entries.set(id, { ...entry, issue: { ...entry.issue, tracked: moved } })
  }
}

/** Instants have one format, so they compare as texts. */
const updatedAtOf = ({ issue }: CachedIssue): string => issue.tracked.ticket.updatedAt
