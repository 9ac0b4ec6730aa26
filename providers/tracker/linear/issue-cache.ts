/**
 * The issues that are known, each as it was read last, and what is the matter with single ones.
 *
 * An issue is listed when Linear found that it could be eligible. One that no longer is stays known, so that it is seen
 * where it went.
 */
import type { TrackedTicket } from '../../../core/ports.ts'
import { TICKET_PROBLEMS_MAX } from '../../../protocol/limits.ts'
import type { Issue, IssueNote } from './issue.ts'
import type { Blocked, IssuesRead } from './reader.ts'

interface Entry {
  readonly issue: Issue
  readonly listed: boolean
}

export class KnownIssues {
  readonly #entries = new Map<string, Entry>()
  /** For as long as the issue does not change. */
  readonly #notes = new Map<string, IssueNote>()
  /** Asked for, and not there. */
  readonly #gone = new Set<string>()
  /** Of which Linear says otherwise than their own reading whether anything blocks them. */
  readonly #disputed = new Set<string>()

  get size(): number {
    return this.#entries.size
  }

  has(id: string): boolean {
    return this.#entries.has(id)
  }

  isListed(id: string): boolean {
    return this.#entries.get(id)?.listed === true
  }

  tickets(): TrackedTicket[] {
    return [...this.#entries.values()].map(({ issue }) => issue.tracked)
  }

  notes(): string[] {
    return [...this.#notes.values()].map(({ says }) => says)
  }

  isStale(id: string, updatedAt: string): boolean {
    const entry = this.#entries.get(id)
    const known = entry === undefined ? undefined : changedAt(entry)
    return known !== updatedAt && this.#notes.get(id)?.updatedAt !== updatedAt
  }

  /** Asking for the others again would tell nothing new. */
  unknown(ids: Iterable<string>): string[] {
    return [...ids].filter((id) => !this.#entries.has(id) && !this.#gone.has(id) && !this.#notes.has(id))
  }

  /** Whatever somebody here waits for, or would if it were opened again. */
  waitedFor(): ReadonlySet<string> {
    return new Set(this.tickets().flatMap(({ ticket }) => ticket.blockedBy))
  }

  /** Those that hold up a listed one or one of these, and are not known themselves. */
  unknownBlockers(wished: ReadonlySet<string>): string[] {
    const waiting = [...this.#entries].filter(([id, { listed }]) => listed || wished.has(id))
    return this.unknown(new Set(waiting.flatMap(([, { issue }]) => issue.openBlockers)))
  }

  /** Listed ones that something began to block, or nothing blocks any more, since they were read. */
  doubted({ ids, isAll }: Blocked): string[] {
    const isDoubted = ([id, { issue, listed }]: readonly [string, Entry]): boolean => {
      if (!listed || this.#disputed.has(id)) return false
      const isBlocked = issue.tracked.ticket.blockedBy.length > 0
      return ids.has(id) ? !isBlocked : isAll && isBlocked
    }
    return [...this.#entries].filter(isDoubted).map(([id]) => id)
  }

  /** Listed here, and not known there. */
  listedBeyond(other: KnownIssues): string[] {
    return [...this.#entries].filter(([id, { listed }]) => listed && !other.has(id)).map(([id]) => id)
  }

  // ---- changes -------------------------------------------------------------------------------------------------------

  put({ issues, notes }: IssuesRead, isListed: (id: string) => boolean): void {
    for (const issue of issues) {
      const { id } = issue.tracked.ticket
      this.#entries.set(id, { issue, listed: isListed(id) })
      this.#notes.delete(id)
      this.#gone.delete(id)
      this.#disputed.delete(id)
    }
    for (const note of notes.slice(0, TICKET_PROBLEMS_MAX)) this.#notes.set(note.id, note)
  }

  /** Having been read, they are as they were: asking again and again would tell nothing new. */
  dispute(blocked: Blocked): void {
    for (const id of this.doubted(blocked)) this.#disputed.add(id)
  }

  relist(id: string, listed: boolean): void {
    const entry = this.#entries.get(id)
    if (entry !== undefined) this.#entries.set(id, { ...entry, listed })
  }

  unlistAll(): void {
    for (const id of this.#entries.keys()) this.relist(id, false)
  }

  /** Deleted, or hidden from us: as far as anybody here is concerned, it is done with. */
  lose(ids: readonly string[], earlier: KnownIssues): void {
    for (const id of ids) {
      this.#gone.add(id)
      const entry = earlier.#entries.get(id)
      if (entry === undefined) continue
      const tracked = { ...entry.issue.tracked, closed: true }
      this.#entries.set(id, { issue: { ...entry.issue, tracked, openBlockers: [] }, listed: false })
    }
  }

  /** Those that are not known here, as they were there. */
  keep(ids: readonly string[], earlier: KnownIssues): void {
    for (const id of ids) {
      const entry = earlier.#entries.get(id)
      if (entry !== undefined && !this.#entries.has(id)) this.#entries.set(id, entry)
    }
  }

  /** A reading that took long may be behind what was seen meanwhile, and a ticket must not seem to go back. */
  keepNewer(meanwhile: KnownIssues): void {
    for (const [id, entry] of this.#entries) {
      const newer = meanwhile.#entries.get(id)
      if (newer !== undefined && changedAt(newer) > changedAt(entry))
        this.#entries.set(id, { ...entry, issue: newer.issue })
    }
  }

  moved(id: string, state: string, closed: boolean): void {
    const entry = this.#entries.get(id)
    if (entry === undefined) return
    const { tracked } = entry.issue
    const moved = { ...tracked, ticket: { ...tracked.ticket, state }, closed }
    this.#entries.set(id, { ...entry, issue: { ...entry.issue, tracked: moved } })
  }
}

/** Of one form, so they compare as texts. */
const changedAt = ({ issue }: Entry): string => issue.tracked.ticket.updatedAt
