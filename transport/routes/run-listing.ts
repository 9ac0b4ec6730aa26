/**
 * Answers with a list of runs: one page where the query has a limit, otherwise all runs, which may be many years of them.
 *
 * A long list is read and sent in batches. All such lists share one queue of batches, one in a turn of the event loop:
 * however many clients read, the loop is never blocked for longer than a batch.
 */
import type { HostApi, RunPage } from '../../actors/api/host-api.ts'
import { TurnQueue } from '../../core/turn-queue.ts'
import type { QueryOf } from '../../protocol/routes.ts'
import type { Run } from '../../protocol/run.ts'
import { type Download, type Headers, json, jsonArrayDownload, type Reply, refusalReply } from '../reply.ts'

type RunListQuery = QueryOf<'listRuns'>

/** Runs of some kilobytes each: a batch takes a few milliseconds. */
const BATCH_RUNS = 200

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
    return Promise.resolve(jsonArrayDownload(this.#readOn(query, page.value)))
  }

  async *#readOn(query: RunListQuery, first: RunPage): AsyncGenerator<readonly string[]> {
    let page = first
    for (;;) {
      yield page.runs.map((run) => JSON.stringify(run))
      const before = page.runs.at(-1)?.id
      if (!page.more || before === undefined) return
      const next = await this.#batches.run(async () =>
        this.#hostApi.runs({ ...query, before, limit: BATCH_RUNS }),
      )
      // The head is sent, so only a broken connection tells the client that the list is not complete.
      if (!next.ok) throw new Error(next.refusal.message)
      page = next.value
    }
  }
}

/** The Link header of the next page: the same query, continued after the last run. Unknown parameters are left out. */
function nextPage(query: RunListQuery, last: Run): Headers {
  const next = new URLSearchParams()
  if (query.limit !== undefined) next.set('limit', String(query.limit))
  for (const status of query.status ?? []) next.append('status', status)
  if (query.ticket !== undefined) next.set('ticket', query.ticket)
  next.set('before', last.id)
  return [['link', `</api/runs?${next}>; rel="next"`]]
}
