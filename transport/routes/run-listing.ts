/**
 * Answers with a list of runs: one page where the query has a limit, otherwise all runs, which may be many years of them.
 *
 * A long list is read and sent in batches, no faster than the client reads. All such lists share one queue of batches,
 * one in a turn of the event loop: however many clients read, the loop is never blocked for longer than a batch. A
 * client that reads slowly costs the memory of the batch that it is sent.
 */
import type { HostApi, RunPage } from '../../actors/api/host-api.ts'
import { TurnQueue } from '../../core/turn-queue.ts'
import type { QueryOf } from '../../protocol/routes.ts'
import type { Run } from '../../protocol/run.ts'
import { type Download, type Headers, json, jsonArrayDownload, type Reply, refusalReply } from '../reply.ts'

type RunListQuery = QueryOf<'listRuns'>

/** Runs of some kilobytes each: a batch takes a few milliseconds, and as few even where all tickets are long. */
const BATCH_RUNS = 50

export class RunListing {
  readonly #hostApi: Pick<HostApi, 'runs'>
  readonly #batches = new TurnQueue(setImmediate)

  constructor(hostApi: Pick<HostApi, 'runs'>) {
    this.#hostApi = hostApi
  }

  answer(query: RunListQuery): Reply | Promise<Reply | Download> {
    const page = this.#hostApi.runs({ ...query, limit: query.limit ?? BATCH_RUNS })
    if (!page.ok) return refusalReply(page.refusal)
    const { runs, more } = page.value
    const last = runs.at(-1)
    if (!more || last === undefined) return json(runs)
    if (query.limit !== undefined) return json(runs, 200, nextPage(query, last))
    return Promise.resolve(jsonArrayDownload(this.#readOn(query, batchOf(page.value))))
  }

  async *#readOn(query: RunListQuery, first: RunBatch): AsyncGenerator<readonly string[]> {
    let batch = first
    for (;;) {
      yield batch.texts
      const { before } = batch
      if (before === undefined) return
      batch = await this.#batches.run(async () => this.#readBatch({ ...query, before, limit: BATCH_RUNS }))
    }
  }

  #readBatch(query: RunListQuery): RunBatch {
    const page = this.#hostApi.runs(query)
    // The head is sent, so only a broken connection tells the client that the list is not complete.
    if (!page.ok) throw new Error(page.refusal.message)
    return batchOf(page.value)
  }
}

/** Holds no runs: they take several times the memory of their texts. */
interface RunBatch {
  readonly texts: readonly string[]
  /** The run that the next batch begins after; absent when there is none. */
  readonly before: string | undefined
}

const batchOf = ({ runs, more }: RunPage): RunBatch => ({
  texts: runs.map((run) => JSON.stringify(run)),
  before: more ? runs.at(-1)?.id : undefined,
})

/** The Link header of the next page: the same query, continued after the last run. Unknown parameters are left out. */
function nextPage(query: RunListQuery, last: Run): Headers {
  const next = new URLSearchParams()
  if (query.limit !== undefined) next.set('limit', String(query.limit))
  for (const status of query.status ?? []) next.append('status', status)
  if (query.ticket !== undefined) next.set('ticket', query.ticket)
  next.set('before', last.id)
  return [['link', `</api/runs?${next}>; rel="next"`]]
}
