/**
 * Answers with a list of runs: one page where the query has a limit, otherwise all runs, which may be many years of
 * them.
 *
 * A long list is sent in batches, no faster than the client reads, and a search reads batches until it has found
 * enough. All of them share one queue of batches, one in a turn of the event loop: however many clients read, the loop
 * is never blocked for longer than a batch. A client that reads slowly costs the memory of the batch that it is sent,
 * and nothing more is read for one that has gone.
 */
import type { HostApi, RunPage } from '../../actors/api/host-api.ts'
import { createdAtOf } from '../../core/ids.ts'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { OutgoingPush } from '../../core/ports/connections.ts'
import type { RunQuery } from '../../core/ports/store.ts'
import { RunSummarizer } from '../../core/run/run-summary.ts'
import { TurnQueue } from '../../core/turn-queue.ts'
import type { Run } from '../../protocol/run.ts'
import { createRunFilter, rankOf } from '../../protocol/run-filter.ts'
import type { RunListQuery, RunSummary, RunSummaryQuery } from '../../protocol/run-query.ts'
import {
  type Download,
  type Headers,
  json,
  jsonArrayDownload,
  jsonArrayReply,
  type Reply,
  refusal,
  refusalReply,
} from '../reply.ts'
import type { Presence } from './route-table.ts'

/** Summaries of runs that the host keeps up to date at once, each with the ids of the runs that it found. */
const RUN_SUMMARIES_KEPT_MAX = 8

/** Runs of some kilobytes each: a batch takes a few milliseconds, and as few even where all tickets are long. */
const BATCH_RUNS = 50
/** The instant of a run is read just after its id is made. */
const ID_EARLIER_MS_MAX = 60_000

type ListedApi = Pick<HostApi, 'runs' | 'listedRun' | 'config' | 'onPush'>

export class RunListing {
  readonly #hostApi: ListedApi
  readonly #batches = new TurnQueue(setImmediate)
  readonly #summaries: RunSummaries

  constructor(hostApi: ListedApi, clock: Pick<Clock, 'monotonic'>) {
    this.#hostApi = hostApi
    this.#summaries = new RunSummaries(hostApi, clock, async (take, presence) => {
      for await (const _ of this.#read({ query: {}, take, presence }));
    })
  }

  answer(query: RunListQuery, presence: Presence): Reply | Promise<Reply | Download> {
    const { limit, sort = 'newest' } = query
    if (sort !== 'newest')
      return limit === undefined
        ? refusal(400, '/query/sort: needs a limit')
        : this.#sortedPage({ ...query, limit, sort }, presence)
    if (query.skip !== undefined) return refusal(400, '/query/skip: needs a sort that is not newest')
    if (isSearch(query))
      return limit === undefined
        ? Promise.resolve(jsonArrayDownload(this.#read(this.#searchOf(query, presence, textOf(query)))))
        : this.#foundPage({ ...query, limit }, presence)
    const first = this.#hostApi.runs({ ...indexed(query), limit: limit ?? BATCH_RUNS })
    if (!first.ok) return refusalReply(first.refusal)
    const { runs, more } = first.value
    const last = runs.at(-1)
    const toText = textOf(query)
    if (!more || last === undefined) return jsonArrayReply(runs.map(toText), [])
    if (limit !== undefined) return jsonArrayReply(runs.map(toText), nextPage({ ...query, before: last.id }))
    const all = { query: indexed(query), take: toText, presence }
    return Promise.resolve(jsonArrayDownload(this.#read(all, batchOf(first.value, all))))
  }

  async summarize(query: RunSummaryQuery, presence: Presence): Promise<Reply> {
    const summary = await this.#summaries.answer(query, presence)
    return summary === undefined ? NOBODY_WAITS : json(summary)
  }

  async #foundPage(query: RunListQuery & { readonly limit: number }, presence: Presence): Promise<Reply> {
    const { limit } = query
    const found: (readonly [id: string, text: string])[] = []
    const toText = textOf(query)
    const search = this.#searchOf(query, presence, (run) => [run.id, toText(run)] as const)
    for await (const runs of this.#read(search)) {
      found.push(...runs)
      if (found.length > limit) break
    }
    const page = found.slice(0, limit)
    const [before] = page.at(-1) ?? []
    return jsonArrayReply(
      page.map(([, text]) => text),
      found.length > limit && before !== undefined ? nextPage({ ...query, before }) : [],
    )
  }

  /**
   * The order is that of all runs, so all of them are read. The ranks of those that may be on the page are kept, and the
   * page's runs are read again, because the texts of ten thousand runs would be hundreds of megabytes.
   */
  async #sortedPage(query: SortedQuery, presence: Presence): Promise<Reply> {
    const { limit, sort, skip = 0 } = query
    const end = skip + limit
    let found: RankedRun[] = []
    const search = this.#searchOf(query, presence, (run) => ({ id: run.id, rank: rankOf(run, sort) }))
    for await (const runs of this.#read(search)) {
      found.push(...runs)
      if (found.length > 2 * end) found = inOrder(found).slice(0, end + 1)
    }
    const ordered = inOrder(found)
    const texts: string[] = []
    for (let at = skip; at < Math.min(end, ordered.length); at += BATCH_RUNS)
      texts.push(...(await this.#textsOf(ordered.slice(at, Math.min(at + BATCH_RUNS, end)), textOf(query))))
    return jsonArrayReply(texts, ordered.length > end ? nextPage({ ...query, skip: end }) : [])
  }

  /** The runs as they are by now. */
  #textsOf(found: readonly RankedRun[], toText: (run: Run) => string): Promise<readonly string[]> {
    return this.#batches.run(async () =>
      found.flatMap(({ id }) => {
        const run = this.#hostApi.listedRun(id)
        return run.ok ? [toText(run.value)] : []
      }),
    )
  }

  #searchOf<T>(query: RunListQuery, presence: Presence, take: (run: Run) => T): RunReading<T> {
    const since = query.since === undefined ? undefined : Date.parse(query.since) - ID_EARLIER_MS_MAX
    return {
      query: indexed(query),
      fits: createRunFilter(query, this.#hostApi.config()),
      take,
      presence,
      ...(since === undefined ? {} : { since }),
    }
  }

  async *#read<T>(reading: RunReading<T>, first?: RunBatch<T>): AsyncGenerator<readonly T[]> {
    let batch = first ?? (await this.#readBatch(reading, {}))
    for (;;) {
      yield batch.items
      const { before } = batch
      if (before === undefined || reading.presence.hasGone) return
      batch = await this.#readBatch(reading, { before })
    }
  }

  #readBatch<T>(reading: RunReading<T>, from: Pick<RunQuery, 'before'>): Promise<RunBatch<T>> {
    return this.#batches.run(async () => {
      const page = this.#hostApi.runs({ ...reading.query, ...from, limit: BATCH_RUNS })
      // The head is sent, so only a broken connection tells the client that the list is not complete.
      if (!page.ok) throw new Error(page.refusal.message)
      return batchOf(page.value, reading)
    })
  }
}

type SortedQuery = RunListQuery & {
  readonly limit: number
  readonly sort: Exclude<RunListQuery['sort'], 'newest' | undefined>
}

interface RankedRun {
  readonly id: string
  readonly rank: number
}

const inOrder = (found: readonly RankedRun[]): RankedRun[] =>
  found.toSorted((a, b) => b.rank - a.rank || (a.id < b.id ? 1 : -1))

const NOBODY_WAITS = refusal(503, 'the client has gone')

const textOf = ({ omit }: RunListQuery): ((run: Run) => string) =>
  omit === undefined
    ? (run) => JSON.stringify(run)
    : (run) => JSON.stringify({ ...run, ticket: { ...run.ticket, description: '' } })

/** The part of a query that the store answers by its indexes. */
function indexed({ status, ticket, before }: RunListQuery): RunQuery {
  return {
    ...(before === undefined ? {} : { before }),
    ...(status === undefined ? {} : { status }),
    ...(ticket === undefined ? {} : { ticket }),
  }
}

const NO_SEARCH: readonly string[] = ['limit', 'before', 'status', 'ticket', 'sort', 'omit']
const isSearch = (query: RunListQuery): boolean =>
  Object.keys(query).some((name) => !NO_SEARCH.includes(name))

interface RunReading<T> {
  readonly query: RunQuery
  readonly fits?: (run: Run) => boolean
  readonly take: (run: Run) => T
  readonly presence: Presence
  /**
   * No run with an id from before this instant fits. A clock that is set back makes the instants of runs earlier than
   * those of older runs; ids stay in order, and none is earlier than the clock said.
   */
  readonly since?: number
}

/** Holds no runs: they take several times the memory of their texts. */
interface RunBatch<T> {
  readonly items: readonly T[]
  /** The run that the next batch begins after; absent when there is none. */
  readonly before: string | undefined
}

function batchOf<T>({ runs, more }: RunPage, { fits, take, since }: RunReading<T>): RunBatch<T> {
  const last = runs.at(-1)
  const isOver =
    last === undefined || !more || (since !== undefined && Date.parse(createdAtOf(last.id) ?? '') < since)
  return {
    items: (fits === undefined ? runs : runs.filter(fits)).map(take),
    before: isOver ? undefined : last.id,
  }
}

/** The Link header of a page of the same query. Unknown parameters are left out. */
function nextPage(query: RunListQuery): Headers {
  const next = new URLSearchParams()
  const { before, ...kept } = query
  const entries = Object.entries(before === undefined ? kept : { ...kept, before })
  for (const [name, value] of entries)
    for (const each of Array.isArray(value) ? value : [value]) next.append(name, String(each))
  return [['link', `</api/runs?${next}>; rel="next"`]]
}

// ---- summaries -----------------------------------------------------------------------------------------------------

const KEPT_MS = 60_000

/** Passes every run to `take`, and ends early when nobody waits for the answer any more. */
type ReadAllRuns = (take: (run: Run) => void, presence: Presence) => Promise<void>

interface KeptSummary {
  readonly summarizer: RunSummarizer
  readonly askers: Set<Presence>
  /** While the runs are read: those that were pushed meanwhile, which are newer than what is read. */
  pushed: Set<string> | undefined
  /** Resolves to whether every run was read. */
  isRead: Promise<boolean>
  askedAt: number
}

/**
 * RunSummaries counts the runs that a summary asks for once, and from then on only those that change.
 *
 * Each page asks again whenever a total changes, and reading ten thousand runs takes a second of processor time. A
 * summary is as old as the dashboards' last push of a changed run. Names that no run has any more stay until the summary
 * is forgotten: after a minute without a question, and when the settings change, which tell the agent of a run.
 */
class RunSummaries {
  readonly #hostApi: Pick<HostApi, 'config' | 'onPush'>
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #readAll: ReadAllRuns
  /** By the query, the one that was asked for last at the end. */
  readonly #kept = new Map<string, KeptSummary>()
  #settings: object | undefined
  #stopListening: Cancel | undefined

  constructor(
    hostApi: Pick<HostApi, 'config' | 'onPush'>,
    clock: Pick<Clock, 'monotonic'>,
    readAll: ReadAllRuns,
  ) {
    this.#hostApi = hostApi
    this.#clock = clock
    this.#readAll = readAll
  }

  /** Returns undefined when the client has gone meanwhile. */
  async answer(query: RunSummaryQuery, presence: Presence): Promise<RunSummary | undefined> {
    if (this.#settings !== this.#hostApi.config()) this.#forgetAll()
    const key = JSON.stringify(query)
    const summary = this.#kept.get(key) ?? this.#begin(key, query)
    this.#kept.delete(key)
    this.#kept.set(key, summary)
    for (const [oldest] of this.#kept) if (this.#kept.size > RUN_SUMMARIES_KEPT_MAX) this.#kept.delete(oldest)
    summary.askedAt = this.#clock.monotonic()
    summary.askers.add(presence)
    const isRead = await summary.isRead
    summary.askers.delete(presence)
    return isRead ? summary.summarizer.summary() : undefined
  }

  #begin(key: string, query: RunSummaryQuery): KeptSummary {
    const settings = this.#hostApi.config()
    this.#settings = settings
    this.#stopListening ??= this.#hostApi.onPush((push) => this.#onPush(push))
    const summary: KeptSummary = {
      summarizer: new RunSummarizer(query, settings),
      askers: new Set(),
      pushed: new Set(),
      isRead: Promise.resolve(false),
      askedAt: 0,
    }
    this.#kept.set(key, summary)
    summary.isRead = this.#read(summary).finally(() => {
      summary.pushed = undefined
    })
    const forget = (): void => {
      if (this.#kept.get(key) === summary) this.#kept.delete(key)
    }
    summary.isRead.then((isRead) => isRead || forget(), forget)
    return summary
  }

  async #read(summary: KeptSummary): Promise<boolean> {
    const { summarizer, askers } = summary
    const presence: Presence = {
      get hasGone() {
        return askers.size > 0 && [...askers].every(({ hasGone }) => hasGone)
      },
    }
    await this.#readAll((run) => {
      if (summary.pushed?.has(run.id) !== true) summarizer.put(run)
    }, presence)
    return !presence.hasGone
  }

  #onPush(push: OutgoingPush): void {
    if (push.type !== 'run-updated') return
    const oldest = this.#clock.monotonic() - KEPT_MS
    for (const [key, summary] of this.#kept) {
      if (summary.askedAt < oldest && summary.askers.size === 0) this.#kept.delete(key)
      else {
        summary.pushed?.add(push.run.id)
        summary.summarizer.put(push.run)
      }
    }
    if (this.#kept.size === 0) this.#forgetAll()
  }

  #forgetAll(): void {
    this.#kept.clear()
    this.#stopListening?.()
    this.#stopListening = undefined
  }
}
