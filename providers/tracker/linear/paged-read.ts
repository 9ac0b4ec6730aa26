/** The reading of all that could be eligible, page by page: how far it is. */
import { KnownIssues } from './issue-cache.ts'
import type { IssuesPage } from './reader.ts'

/** Reading them costs some 60 points each. */
export const LINEAR_TICKETS_MAX = 1_000

export class Reading {
  readonly known = new KnownIssues()
  readonly problems: string[] = []
  /** Where the next page begins. */
  after: string | undefined
  pages = 0
  isDone = false
  /** Errors kept something from us. */
  isPatchy = false
  /** When anything had changed last as it began. */
  mark: string | undefined

  take(page: IssuesPage): void {
    this.known.put(page, () => true)
    this.problems.push(...page.problems)
    this.isPatchy ||= page.problems.length > 0
    if (this.pages === 0) this.mark = page.newest ?? newestOf(page)
    this.pages += 1
    this.after = page.next
    const isFull = this.known.size >= LINEAR_TICKETS_MAX
    this.isDone = page.next === undefined || isFull
    if (isFull && page.next !== undefined) this.problems.push(tooMany)
  }
}

const tooMany = `of the tickets that could be eligible only the ${LINEAR_TICKETS_MAX} that changed last are read; narrow tracker.eligible`

function newestOf({ issues }: IssuesPage): string | undefined {
  const instants = issues.map(({ tracked }) => tracked.ticket.updatedAt)
  return instants.sort().at(-1)
}
