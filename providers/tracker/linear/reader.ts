/**
 * Reads issues from Linear in affordable portions.
 *
 * A query costs by what it could return: the requested length of a list counts, not its items. Changes are therefore
 * listed with two fields each, and only changed issues are read in full. An issue with unusually many labels or
 * relations is read again with longer lists.
 */
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { readField, readInstant, readList, readText } from '../../http/reply-fields.ts'
import type { LinearClient } from './client.ts'
import {
  BLOCKED_MAX,
  CHANGES_QUERY,
  ELIGIBLE_QUERY,
  ISSUES_BY_ID_QUERY,
  type IssueProblem,
  LARGEST_SIZES,
  type LinearFilter,
  type LinearIssue,
  LONG_ISSUE_QUERY,
  parseIssue,
  USUAL_SIZES,
} from './issue.ts'

/** Newest changes of the first query; more are requested only when these do not suffice. */
const CHANGES_FIRST_READ = 50
const CHANGES_MAX = 250
/** After many changes at once, reading further back costs as much as a full read. */
const CHANGES_PAGES_MAX = 4
/** A page costs about 3,000 points; a query may cost 10,000. */
const ISSUES_PER_PAGE = 50
/** Issues of one page that are read again with longer lists. */
const LONG_ISSUES_MAX = 20

export interface IssuesRead {
  readonly issues: readonly LinearIssue[]
  /** Errors of the reply; issues missing because of them may still exist. */
  readonly problems: readonly string[]
  /** Problems of single issues. */
  readonly issueProblems: readonly IssueProblem[]
}

export interface IssuesPage extends IssuesRead {
  /** Absent after the last page. */
  readonly nextCursor?: string
  /** Newest change of any issue. */
  readonly newestChange?: string
}

export interface IssuesById extends IssuesRead {
  /** Issues that do not exist or may not be read. */
  readonly missing: readonly string[]
}

/** Blocked issues are queried separately, because a new blocker does not touch an issue's time. */
export interface BlockedIssues {
  readonly ids: ReadonlySet<string>
  /** The list holds all blocked issues. */
  readonly isComplete: boolean
}

export interface IssueChanges {
  /** Changed issues within the scope: instant by id. */
  readonly entered: ReadonlyMap<string, string>
  /** All changed issues, archived ones included: instant by id. */
  readonly touched: ReadonlyMap<string, string>
  /** Issues of the scope that have a blocker, open or closed. */
  readonly blocked: BlockedIssues
  readonly problems: readonly string[]
  /** Further changes exist that are newer than `known`. */
  readonly isTruncated: boolean
}

export class IssueReader {
  readonly #client: LinearClient

  constructor(client: LinearClient) {
    this.#client = client
  }

  /** Issues of the scope, newest change first. */
  async readPage(scope: LinearFilter, after: string | undefined): Promise<Result<IssuesPage>> {
    const variables = { scope, first: ISSUES_PER_PAGE, ...(after === undefined ? {} : { after }) }
    const reply = await this.#send(ELIGIBLE_QUERY, variables)
    if (!reply.ok) return reply
    const { data, problems } = reply.value
    if (!hasList(data, 'issues')) return refuseMissingList(problems)
    const read = await this.#parseIssues(readList(data, 'issues', 'nodes'), problems)
    if (!read.ok) return read
    const hasMore = readField(data, 'issues', 'pageInfo', 'hasNextPage') === true
    const nextCursor = hasMore ? readText(data, 'issues', 'pageInfo', 'endCursor') : undefined
    const newestChange = readInstant(readList(data, 'newest', 'nodes')[0], 'updatedAt')
    return yes({
      ...read.value,
      ...(nextCursor === undefined ? {} : { nextCursor }),
      ...(newestChange === undefined ? {} : { newestChange }),
    })
  }

  /** Lists changes since an instant. Changes up to `known` may be missing. */
  async readChanges(scope: LinearFilter, since: string, known: string): Promise<Result<IssueChanges>> {
    const few = await this.#readChangesPage(scope, { gte: since }, known, CHANGES_FIRST_READ)
    return few.ok && few.value.isTruncated ? this.#readOlderChanges(scope, since, known) : few
  }

  /** Reads further back while that yields more changes. */
  async #readOlderChanges(scope: LinearFilter, since: string, known: string): Promise<Result<IssueChanges>> {
    const newest = await this.#readChangesPage(scope, { gte: since }, known, CHANGES_MAX)
    let all = newest
    for (let pages = 1; all.ok && all.value.isTruncated && pages < CHANGES_PAGES_MAX; pages++) {
      const oldest = [...all.value.touched.values()].at(-1)
      if (oldest === undefined) break
      const older = await this.#readChangesPage(scope, { gte: since, lte: oldest }, known, CHANGES_MAX)
      if (!older.ok) return older
      const isStuck = [...older.value.touched.keys()].every((id) => all.ok && all.value.touched.has(id))
      all = yes(mergeChanges(all.value, older.value))
      if (isStuck) break
    }
    return all
  }

  async readByIds(ids: readonly string[]): Promise<Result<IssuesById>> {
    const all = {
      issues: [] as LinearIssue[],
      problems: [] as string[],
      issueProblems: [] as IssueProblem[],
      missing: [] as string[],
    }
    for (let from = 0; from < ids.length; from += ISSUES_PER_PAGE) {
      const read = await this.#readPortion(ids.slice(from, from + ISSUES_PER_PAGE))
      if (!read.ok) return read
      all.issues.push(...read.value.issues)
      all.problems.push(...read.value.problems)
      all.issueProblems.push(...read.value.issueProblems)
      all.missing.push(...read.value.missing)
    }
    return yes(all)
  }

  async #readPortion(ids: readonly string[]): Promise<Result<IssuesById>> {
    const reply = await this.#send(ISSUES_BY_ID_QUERY, { filter: { id: { in: ids } }, first: ids.length })
    if (!reply.ok) return reply
    const { data, problems } = reply.value
    if (!hasList(data, 'issues')) return refuseMissingList(problems)
    const nodes = readList(data, 'issues', 'nodes')
    const read = await this.#parseIssues(nodes, problems)
    if (!read.ok) return read
    const found = new Set(nodes.map((node) => readText(node, 'id')))
    // After errors, an absent issue may still exist.
    const missingIds = problems.length > 0 ? [] : ids.filter((id) => !found.has(id))
    return yes({ ...read.value, missing: missingIds })
  }

  async #readChangesPage(
    scope: LinearFilter,
    when: LinearFilter,
    known: string,
    first: number,
  ): Promise<Result<IssueChanges>> {
    const touched = { updatedAt: when }
    const reply = await this.#send(CHANGES_QUERY, {
      entered: { and: [scope, touched] },
      touched,
      blocked: { and: [scope, { hasBlockedByRelations: { eq: true } }] },
      first,
    })
    if (!reply.ok) return reply
    const { data, problems } = reply.value
    if (!['entered', 'touched', 'blocked'].every((list) => hasList(data, list)))
      return refuseMissingList(problems)
    const nodes = readList(data, 'touched', 'nodes')
    const instants = readUpdateTimes(nodes)
    const oldest = [...instants.values()].at(-1)
    return yes({
      entered: readUpdateTimes(readList(data, 'entered', 'nodes')),
      touched: instants,
      blocked: toBlockedIssues(readList(data, 'blocked', 'nodes')),
      problems,
      isTruncated: nodes.length >= first && (oldest === undefined || oldest > known),
    })
  }

  async #parseIssues(nodes: readonly unknown[], problems: readonly string[]): Promise<Result<IssuesRead>> {
    const read = nodes.filter((node) => node !== null).map((node) => parseIssue(node, USUAL_SIZES))
    const issueProblems = read.flatMap((result) => (result.ok ? [] : [result.problem]))
    const issues = read.flatMap((result) => (result.ok ? [result.issue] : []))
    for (const issue of issues.filter(({ isTruncated }) => isTruncated).slice(0, LONG_ISSUES_MAX)) {
      const whole = await this.#readLongIssue(issue)
      if (!whole.ok) return whole
      issues[issues.indexOf(issue)] = whole.value
    }
    issueProblems.push(...issues.filter(({ isTruncated }) => isTruncated).map(toTruncationProblem))
    return yes({ issues, problems, issueProblems })
  }

  async #readLongIssue(issue: LinearIssue): Promise<Result<LinearIssue>> {
    const reply = await this.#send(LONG_ISSUE_QUERY, { id: issue.tracked.ticket.id })
    if (!reply.ok) return reply.refusal.kind === 'unknown' ? yes(issue) : reply
    const read = parseIssue(readField(reply.value.data, 'issue'), LARGEST_SIZES)
    return yes(read.ok ? read.issue : issue)
  }

  /** Polls have low urgency. */
  #send(document: string, variables: object) {
    return this.#client.send({ document, variables, urgency: 'background' })
  }
}

const hasList = (data: unknown, list: string): boolean => Array.isArray(readField(data, list, 'nodes'))

/** A missing list is not an empty list. */
function refuseMissingList(problems: readonly string[]): Refused {
  return no('failed', problems[0] ?? 'Linear answered without the issues that it was asked for')
}

/** The page read first is newer and takes precedence; the older page decides whether more follows. */
function mergeChanges(newer: IssueChanges, older: IssueChanges): IssueChanges {
  return {
    entered: new Map([...older.entered, ...newer.entered]),
    touched: new Map([...newer.touched, ...[...older.touched].filter(([id]) => !newer.touched.has(id))]),
    blocked: newer.blocked,
    problems: [...new Set([...newer.problems, ...older.problems])],
    isTruncated: older.isTruncated,
  }
}

function readUpdateTimes(nodes: readonly unknown[]): Map<string, string> {
  return new Map(
    nodes.flatMap((node): [string, string][] => {
      const [id, updatedAt] = [readText(node, 'id'), readInstant(node, 'updatedAt')]
      return id === undefined || updatedAt === undefined ? [] : [[id, updatedAt]]
    }),
  )
}

function toBlockedIssues(nodes: readonly unknown[]): BlockedIssues {
  const ids = new Set(nodes.flatMap((node) => readText(node, 'id') ?? []))
  return { ids, isComplete: nodes.length < BLOCKED_MAX }
}

function toTruncationProblem({ tracked: { ticket } }: LinearIssue): IssueProblem {
  const { id, updatedAt, identifier } = ticket
  return {
    id,
    updatedAt,
    message: `${printable(identifier)} has too many labels or relations to read all of them; remove some`,
  }
}
