/** Progress of a full read of all issues that may be eligible, page by page. */
import { IssueCache } from './issue-cache.ts'
import type { IssuesPage } from './reader.ts'

/** Limit for issues of a full read, which cost about 60 points each. */
export const LINEAR_TICKETS_MAX = 1_000

export class PagedRead {
  readonly cache = new IssueCache()
  readonly problems: string[] = []
  /** Start of the next page. */
  cursor: string | undefined
  pageCount = 0
  isDone = false
  /** Some pages held errors, so issues may be missing. */
  hasProblems = false
  /** Newest change in Linear when the read began. */
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

const TRUNCATION_PROBLEM = `only the ${LINEAR_TICKETS_MAX} most recently changed of the tickets that may be eligible are read; narrow tracker.eligible`

function newestUpdate({ issues }: IssuesPage): string | undefined {
  const instants = issues.map(({ tracked }) => tracked.ticket.updatedAt)
  return instants.sort().at(-1)
}
