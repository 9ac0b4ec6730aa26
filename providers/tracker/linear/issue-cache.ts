/**
 * The issues that are known, each as it was read last, and what is the matter with single ones.
 *
 * An issue is listed when Linear found that it could be eligible. One that no longer is stays known, so that it is seen
 * where it went.
 */
import type { TrackedTicket } from '../../../core/ports.ts'
import { TICKET_PROBLEMS_MAX } from '../../../protocol/limits.ts'
import type { IssueProblem, LinearIssue } from './issue.ts'
import type { BlockedIssues, IssuesRead } from './reader.ts'

interface CachedIssue {
  readonly issue: LinearIssue
  readonly isListed: boolean
}

export class IssueCache {
  readonly #entries = new Map<string, CachedIssue>()
  /** For as long as the issue does not change. */
  readonly #issueProblems = new Map<string, IssueProblem>()
  /** Asked for, and not there. */
  readonly #missingIds = new Set<string>()
  /** Of which Linear says otherwise than their own reading whether anything blocks them. */
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

  /** Asking for the others again would tell nothing new. */
  selectUnknown(ids: Iterable<string>): string[] {
    return [...ids].filter(
      (id) => !this.#entries.has(id) && !this.#missingIds.has(id) && !this.#issueProblems.has(id),
    )
  }

  /** Whatever somebody here waits for, or would if it were opened again. */
  blockerIds(): ReadonlySet<string> {
    return new Set(this.tickets().flatMap(({ ticket }) => ticket.blockedBy))
  }

  /** Those that hold up a listed one or one of these, and are not known themselves. */
  selectUnknownBlockers(requested: ReadonlySet<string>): string[] {
    const waiting = [...this.#entries].filter(([id, { isListed: listed }]) => listed || requested.has(id))
    return this.selectUnknown(new Set(waiting.flatMap(([, { issue }]) => issue.openBlockers)))
  }

  /** Listed ones that something began to block, or nothing blocks any more, since they were read. */
  selectDoubtful({ ids, isComplete: isAll }: BlockedIssues): string[] {
    const isDoubtful = ([id, { issue, isListed: listed }]: readonly [string, CachedIssue]): boolean => {
      if (!listed || this.#disputedIds.has(id)) return false
      const isBlocked = issue.tracked.ticket.blockedBy.length > 0
      return ids.has(id) ? !isBlocked : isAll && isBlocked
    }
    return [...this.#entries].filter(isDoubtful).map(([id]) => id)
  }

  /** Listed here, and not known there. */
  selectListedMissingFrom(other: IssueCache): string[] {
    return [...this.#entries]
      .filter(([id, { isListed: listed }]) => listed && !other.has(id))
      .map(([id]) => id)
  }

  // ---- changes -------------------------------------------------------------------------------------------------------

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

  /** Having been read, they are as they were: asking again and again would tell nothing new. */
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

  /** Deleted, or hidden from us: as far as anybody here is concerned, it is done with. */
  markMissing(ids: readonly string[], earlier: IssueCache): void {
    for (const id of ids) {
      this.#missingIds.add(id)
      const entry = earlier.#entries.get(id)
      if (entry === undefined) continue
      const tracked = { ...entry.issue.tracked, closed: true }
      this.#entries.set(id, { issue: { ...entry.issue, tracked, openBlockers: [] }, isListed: false })
    }
  }

  /** Those that are not known here, as they were there. */
  copyFrom(ids: readonly string[], earlier: IssueCache): void {
    for (const id of ids) {
      const entry = earlier.#entries.get(id)
      if (entry !== undefined && !this.#entries.has(id)) this.#entries.set(id, entry)
    }
  }

  /** A reading that took long may be behind what was seen meanwhile, and a ticket must not seem to go back. */
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

/** Of one form, so they compare as texts. */
const updatedAtOf = ({ issue }: CachedIssue): string => issue.tracked.ticket.updatedAt
