/**
 * Plans which events of a run's log one request reads, and where the pages before and after it begin.
 *
 * The indexes of a log count up from 0, so a page is a range of indexes: to plan it costs nothing, however long the log
 * is. A request without `tail`, `before` and `limit` is no page; it reads to the end.
 */
import { EVENTS_PAGE_DEFAULT } from '../../protocol/limits.ts'
import { problemAt } from '../../protocol/schema-errors.ts'
import type { EventQuery } from '../ports/store.ts'
import { no, type Result, yes } from '../result.ts'

/** At most one of `after`, `before` and `tail`. */
export interface EventPageQuery {
  /** Only events with a higher index. */
  readonly after?: number
  /** Only events right before this index. */
  readonly before?: number
  /** The last events, as many. */
  readonly tail?: number
  readonly limit?: number
}

export interface EventPage {
  readonly read: EventQuery
  /** The pages beside this one; undefined where the log has no further events. */
  readonly prev?: { readonly before: number; readonly limit: number }
  readonly next?: { readonly after: number; readonly limit: number }
}

/** @param end the index of the next event of the log */
export function planEventPage(query: EventPageQuery, end: number): Result<EventPage> {
  const problem = findConflict(query)
  if (problem !== undefined) return no('invalid', problem)
  const { after = -1, before, tail, limit = before === undefined ? undefined : EVENTS_PAGE_DEFAULT } = query
  if (tail !== undefined) return yes(pageUntil(end, tail, end))
  if (limit === undefined) return yes({ read: { after } })
  if (before !== undefined) return yes(pageUntil(Math.min(before, end), limit, end))
  // The log may have grown when the page is read, and then the page has more events.
  return yes({ read: { after, limit }, ...neighbors(after + 1, after + 1 + limit, limit, end) })
}

function pageUntil(until: number, limit: number, end: number): EventPage {
  const from = Math.max(0, until - limit)
  return { read: { after: from - 1, before: until }, ...neighbors(from, until, limit, end) }
}

function neighbors(from: number, until: number, limit: number, end: number): Omit<EventPage, 'read'> {
  const before = Math.min(from, end)
  return {
    ...(before > 0 ? { prev: { before, limit } } : {}),
    ...(until < end ? { next: { after: until - 1, limit } } : {}),
  }
}

function findConflict({ after, before, tail, limit }: EventPageQuery): string | undefined {
  if (before !== undefined && after !== undefined) return excludes('before', 'after')
  if (tail !== undefined && after !== undefined) return excludes('tail', 'after')
  if (tail !== undefined && before !== undefined) return excludes('tail', 'before')
  if (tail !== undefined && limit !== undefined)
    return problemAt(['query', 'limit'], 'may not stand beside tail, which names the number of events itself')
  return undefined
}

const excludes = (name: string, given: string): string =>
  problemAt(['query', name], `may not stand beside ${given}: give one of after, before and tail`)
