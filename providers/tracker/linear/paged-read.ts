/** The reading of all that could be eligible, page by page: how far it is. */
import { IssueCache } from './issue-cache.ts'
import type { IssuesPage } from './reader.ts'

/** Reading them costs some 60 points each. */
export const LINEAR_TICKETS_MAX = 1_000

export class PagedRead {
  readonly cache = new IssueCache()
  readonly problems: string[] = []
  /** Where the next page begins. */
  cursor: string | undefined
  pageCount = 0
  isDone = false
  /** Errors kept something from us. */
  hasProblems = false
  /** When anything had changed last as it began. */
  newestChange: string | undefined

  addPage(page: IssuesPage): void {
    this.cache.store(page, () => true)
    this.problems.push(...page.problems)
    this.hasProblems ||= page.problems.length > 0
    if (this.pageCount === 0) this.newestChange = page.newestChange ?? newestUpdate(page)
    this.pageCount += 1
    this.cursor = page.nextCursor
    const isFull = this.cache.size >= LINEAR_TICKETS_MAX
    this.isDone = page.nextCursor === undefined || isFull
    if (isFull && page.nextCursor !== undefined) this.problems.push(TRUNCATION_PROBLEM)
  }
}

const TRUNCATION_PROBLEM = `of the tickets that could be eligible only the ${LINEAR_TICKETS_MAX} that changed last are read; narrow tracker.eligible`

function newestUpdate({ issues }: IssuesPage): string | undefined {
  const instants = issues.map(({ tracked }) => tracked.ticket.updatedAt)
  return instants.sort().at(-1)
}
