/**
 * What is asked of Linear about its issues, and in which portions.
 *
 * A question costs points by what it could answer, not by what it does: a list counts as many times as it is asked to
 * be long at most. So changes are asked for with two fields each, and only what changed is read whole. An issue with
 * more labels or relations than the usual is read once more, by itself, with longer lists.
 */
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import type { LinearDesk } from './client.ts'
import type { Filter } from './eligible-filter.ts'
import { at, instantAt, listAt, textAt } from './fields.ts'
import { type Issue, type IssueNote, readIssue } from './issue.ts'
import { BLOCKED_MAX, BY_ID, CHANGES, LARGEST, LONG, PAGE, USUAL } from './queries.ts'

/** Of the newest changes; more are asked for only when that many are not enough. */
const CHANGES_FIRST = 50
const CHANGES_MAX = 250
/** Somebody changed many at once: read back so far, then reading all that could be eligible is no dearer. */
const CHANGES_PAGES_MAX = 4
/** Some 3,000 points; a question may cost 10,000. */
const ISSUES_A_PAGE = 50
/** Read once more for their long lists, of one page. */
const LONG_MAX = 20

export interface IssuesRead {
  readonly issues: readonly Issue[]
  /** What an error kept from us; what was not told may be there all the same. */
  readonly problems: readonly string[]
  /** What single issues have to be mended for. */
  readonly notes: readonly IssueNote[]
}

export interface IssuesPage extends IssuesRead {
  /** Absent: it was the last. */
  readonly next?: string
  /** When anything there changed last. */
  readonly newest?: string
}

export interface IssuesById extends IssuesRead {
  /** There are no such issues any more, or they may not be seen. */
  readonly missing: readonly string[]
}

/** It moves no issue's time when another one begins to block it. */
export interface Blocked {
  readonly ids: ReadonlySet<string>
  /** There are no others. */
  readonly isAll: boolean
}

export interface Changes {
  /** Changed, and of the scope: by id, when. */
  readonly entered: ReadonlyMap<string, string>
  /** Changed, whatever it is, archived ones too. */
  readonly touched: ReadonlyMap<string, string>
  /** Of the scope, the issues that have a blocker, be it done or not. */
  readonly blocked: Blocked
  readonly problems: readonly string[]
  /** There are more than these, and they are newer than what was known. */
  readonly isCut: boolean
}

export class IssueReader {
  readonly #desk: LinearDesk

  constructor(desk: LinearDesk) {
    this.#desk = desk
  }

  /** Of the scope, the newest changes first. */
  async page(scope: Filter, after: string | undefined): Promise<Result<IssuesPage>> {
    const variables = { scope, first: ISSUES_A_PAGE, ...(after === undefined ? {} : { after }) }
    const asked = await this.#ask(PAGE, variables)
    if (!asked.ok) return asked
    const { data, problems } = asked.value
    if (!isThere(data, 'issues')) return missing(problems)
    const read = await this.#issuesOf(listAt(data, 'issues', 'nodes'), problems)
    if (!read.ok) return read
    const hasMore = at(data, 'issues', 'pageInfo', 'hasNextPage') === true
    const next = hasMore ? textAt(data, 'issues', 'pageInfo', 'endCursor') : undefined
    const newest = instantAt(listAt(data, 'newest', 'nodes')[0], 'updatedAt')
    return yes({
      ...read.value,
      ...(next === undefined ? {} : { next }),
      ...(newest === undefined ? {} : { newest }),
    })
  }

  /** Whatever changed since an instant. What is not newer than `known` may be missing from it. */
  async changes(scope: Filter, since: string, known: string): Promise<Result<Changes>> {
    const few = await this.#changes(scope, { gte: since }, known, CHANGES_FIRST)
    return few.ok && few.value.isCut ? this.#manyChanges(scope, since, known) : few
  }

  /** The newest first, and further back as long as that leads anywhere. */
  async #manyChanges(scope: Filter, since: string, known: string): Promise<Result<Changes>> {
    const newest = await this.#changes(scope, { gte: since }, known, CHANGES_MAX)
    let all = newest
    for (let pages = 1; all.ok && all.value.isCut && pages < CHANGES_PAGES_MAX; pages++) {
      const oldest = [...all.value.touched.values()].at(-1)
      if (oldest === undefined) break
      const older = await this.#changes(scope, { gte: since, lte: oldest }, known, CHANGES_MAX)
      if (!older.ok) return older
      const isStuck = [...older.value.touched.keys()].every((id) => all.ok && all.value.touched.has(id))
      all = yes(together(all.value, older.value))
      if (isStuck) break
    }
    return all
  }

  async issues(ids: readonly string[]): Promise<Result<IssuesById>> {
    const all = {
      issues: [] as Issue[],
      problems: [] as string[],
      notes: [] as IssueNote[],
      missing: [] as string[],
    }
    for (let from = 0; from < ids.length; from += ISSUES_A_PAGE) {
      const read = await this.#portion(ids.slice(from, from + ISSUES_A_PAGE))
      if (!read.ok) return read
      all.issues.push(...read.value.issues)
      all.problems.push(...read.value.problems)
      all.notes.push(...read.value.notes)
      all.missing.push(...read.value.missing)
    }
    return yes(all)
  }

  async #portion(ids: readonly string[]): Promise<Result<IssuesById>> {
    const asked = await this.#ask(BY_ID, { filter: { id: { in: ids } }, first: ids.length })
    if (!asked.ok) return asked
    const { data, problems } = asked.value
    if (!isThere(data, 'issues')) return missing(problems)
    const nodes = listAt(data, 'issues', 'nodes')
    const read = await this.#issuesOf(nodes, problems)
    if (!read.ok) return read
    const there = new Set(nodes.map((node) => textAt(node, 'id')))
    // What an error kept from us is not gone.
    const gone = problems.length > 0 ? [] : ids.filter((id) => !there.has(id))
    return yes({ ...read.value, missing: gone })
  }

  async #changes(scope: Filter, when: Filter, known: string, first: number): Promise<Result<Changes>> {
    const touched = { updatedAt: when }
    const asked = await this.#ask(CHANGES, {
      entered: { and: [scope, touched] },
      touched,
      blocked: { and: [scope, { hasBlockedByRelations: { eq: true } }] },
      first,
    })
    if (!asked.ok) return asked
    const { data, problems } = asked.value
    if (!['entered', 'touched', 'blocked'].every((list) => isThere(data, list))) return missing(problems)
    const nodes = listAt(data, 'touched', 'nodes')
    const instants = instantsOf(nodes)
    const oldest = [...instants.values()].at(-1)
    return yes({
      entered: instantsOf(listAt(data, 'entered', 'nodes')),
      touched: instants,
      blocked: blockedOf(listAt(data, 'blocked', 'nodes')),
      problems,
      isCut: nodes.length >= first && (oldest === undefined || oldest > known),
    })
  }

  async #issuesOf(nodes: readonly unknown[], problems: readonly string[]): Promise<Result<IssuesRead>> {
    const read = nodes.filter((node) => node !== null).map((node) => readIssue(node, USUAL))
    const notes = read.flatMap((one) => (one.ok ? [] : [one.note]))
    const issues = read.flatMap((one) => (one.ok ? [one.issue] : []))
    for (const issue of issues.filter(({ isCut }) => isCut).slice(0, LONG_MAX)) {
      const whole = await this.#long(issue)
      if (!whole.ok) return whole
      issues[issues.indexOf(issue)] = whole.value
    }
    notes.push(...issues.filter(({ isCut }) => isCut).map(cutShort))
    return yes({ issues, problems, notes })
  }

  async #long(issue: Issue): Promise<Result<Issue>> {
    const asked = await this.#ask(LONG, { id: issue.tracked.ticket.id })
    if (!asked.ok) return asked.refusal.kind === 'unknown' ? yes(issue) : asked
    const read = readIssue(at(asked.value.data, 'issue'), LARGEST)
    return yes(read.ok ? read.issue : issue)
  }

  /** Nobody waits for a look. */
  #ask(document: string, variables: object) {
    return this.#desk.ask({ document, variables, urgency: 'background' })
  }
}

const isThere = (data: unknown, list: string): boolean => Array.isArray(at(data, list, 'nodes'))

/** A list that is missing as a whole is no empty one. */
function missing(problems: readonly string[]): Refused {
  return no('failed', problems[0] ?? 'Linear answered without the issues that it was asked for')
}

/** What was seen first is the newer word, and ends where the older one begins. */
function together(newer: Changes, older: Changes): Changes {
  return {
    entered: new Map([...older.entered, ...newer.entered]),
    touched: new Map([...newer.touched, ...[...older.touched].filter(([id]) => !newer.touched.has(id))]),
    blocked: newer.blocked,
    problems: [...new Set([...newer.problems, ...older.problems])],
    isCut: older.isCut,
  }
}

function instantsOf(nodes: readonly unknown[]): Map<string, string> {
  return new Map(
    nodes.flatMap((node): [string, string][] => {
      const [id, updatedAt] = [textAt(node, 'id'), instantAt(node, 'updatedAt')]
      return id === undefined || updatedAt === undefined ? [] : [[id, updatedAt]]
    }),
  )
}

function blockedOf(nodes: readonly unknown[]): Blocked {
  const ids = new Set(nodes.flatMap((node) => textAt(node, 'id') ?? []))
  return { ids, isAll: nodes.length < BLOCKED_MAX }
}

function cutShort({ tracked: { ticket } }: Issue): IssueNote {
  const { id, updatedAt, identifier } = ticket
  return {
    id,
    updatedAt,
    says: `${printable(identifier)} has too many labels or relations to read them all; remove some`,
  }
}
