/**
 * Answers with a list of runs: one page where the query has a limit, otherwise all runs, which may be many years of them.
 *
 * A long list is sent in batches, no faster than the client reads, and a search reads batches until it has found enough.
 * All of them share one queue of batches, one in a turn of the event loop: however many clients read, the loop is never
 * blocked for longer than a batch. A client that reads slowly costs the memory of the batch that it is sent.
 */
import type { HostApi, RunPage } from '../../actors/api/host-api.ts'
import { createdAtOf } from '../../core/ids.ts'
import type { RunQuery } from '../../core/ports.ts'
import { RunSummarizer } from '../../core/run/run-summary.ts'
import { TurnQueue } from '../../core/turn-queue.ts'
import { RUNS_SKIPPED_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { createRunFilter, rankOf } from '../../protocol/run-filter.ts'
import type { RunListQuery, RunSummaryQuery } from '../../protocol/run-query.ts'
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

/** Runs of some kilobytes each: a batch takes a few milliseconds, and as few even where all tickets are long. */
const BATCH_RUNS = 50
/** The instant of a run is read just after its id is made. */
const ID_EARLIER_MS_MAX = 60_000

export class RunListing {
  readonly #hostApi: Pick<HostApi, 'runs' | 'listedRun' | 'config'>
  readonly #batches = new TurnQueue(setImmediate)

  constructor(hostApi: Pick<HostApi, 'runs' | 'listedRun' | 'config'>) {
    this.#hostApi = hostApi
  }

  answer(query: RunListQuery): Reply | Promise<Reply | Download> {
    const { limit, sort = 'newest' } = query
    if (sort !== 'newest')
      return limit === undefined
        ? refusal(400, '/query/sort: needs a limit')
        : this.#sortedPage({ ...query, limit, sort })
    if (query.skip !== undefined) return refusal(400, '/query/skip: needs a sort that is not newest')
    if (isSearch(query))
      return limit === undefined
        ? Promise.resolve(jsonArrayDownload(this.#read(this.#searchOf(query, toText))))
        : this.#foundPage({ ...query, limit })
    const first = this.#hostApi.runs({ ...indexed(query), limit: limit ?? BATCH_RUNS })
    if (!first.ok) return refusalReply(first.refusal)
    const { runs, more } = first.value
    const last = runs.at(-1)
    if (!more || last === undefined) return json(runs)
    if (limit !== undefined) return json(runs, 200, nextPage({ ...query, before: last.id }))
    const all = { query: indexed(query), take: toText }
    return Promise.resolve(jsonArrayDownload(this.#read(all, batchOf(first.value, all))))
  }

  async summarize(query: RunSummaryQuery): Promise<Reply> {
    const summarizer = new RunSummarizer(query, this.#hostApi.config())
    for await (const _ of this.#read({ query: {}, take: (run) => summarizer.add(run) }));
    return json(summarizer.summary())
  }

  async #foundPage(query: RunListQuery & { readonly limit: number }): Promise<Reply> {
    const { limit } = query
    const found: (readonly [id: string, text: string])[] = []
    for await (const runs of this.#read(this.#searchOf(query, (run) => [run.id, toText(run)] as const))) {
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
  async #sortedPage(query: SortedQuery): Promise<Reply> {
    const { limit, sort, skip = 0 } = query
    const end = skip + limit
    let found: RankedRun[] = []
    const search = this.#searchOf(query, (run) => ({ id: run.id, rank: rankOf(run, sort) }))
    for await (const runs of this.#read(search)) {
      found.push(...runs)
      if (found.length > 2 * end) found = inOrder(found).slice(0, end + 1)
    }
    const ordered = inOrder(found)
    const texts: string[] = []
    for (let at = skip; at < Math.min(end, ordered.length); at += BATCH_RUNS)
      texts.push(...(await this.#textsOf(ordered.slice(at, Math.min(at + BATCH_RUNS, end)))))
    const isFollowed = ordered.length > end && end <= RUNS_SKIPPED_MAX
    return jsonArrayReply(texts, isFollowed ? nextPage({ ...query, skip: end }) : [])
  }

  /** The runs as they are by now. */
  #textsOf(found: readonly RankedRun[]): Promise<readonly string[]> {
    return this.#batches.run(async () =>
      found.flatMap(({ id }) => {
        const run = this.#hostApi.listedRun(id)
        return run.ok ? [toText(run.value)] : []
      }),
    )
  }

  #searchOf<T>(query: RunListQuery, take: (run: Run) => T): RunReading<T> {
    const since = query.since === undefined ? undefined : Date.parse(query.since) - ID_EARLIER_MS_MAX
    return {
      query: indexed(query),
      fits: createRunFilter(query, this.#hostApi.config()),
      take,
      ...(since === undefined ? {} : { since }),
    }
  }

  async *#read<T>(reading: RunReading<T>, first?: RunBatch<T>): AsyncGenerator<readonly T[]> {
    let batch = first ?? (await this.#readBatch(reading, {}))
    for (;;) {
      yield batch.items
      const { before } = batch
      if (before === undefined) return
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

const toText = (run: Run): string => JSON.stringify(run)

/** The part of a query that the store answers by its indexes. */
function indexed({ status, ticket, before }: RunListQuery): RunQuery {
  return {
    ...(before === undefined ? {} : { before }),
    ...(status === undefined ? {} : { status }),
    ...(ticket === undefined ? {} : { ticket }),
  }
}

const INDEXED: readonly string[] = ['limit', 'before', 'status', 'ticket', 'sort']
const isSearch = (query: RunListQuery): boolean => Object.keys(query).some((name) => !INDEXED.includes(name))

interface RunReading<T> {
  readonly query: RunQuery
  readonly fits?: (run: Run) => boolean
  readonly take: (run: Run) => T
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
