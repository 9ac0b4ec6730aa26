/** Finds the runs that opened pull requests: the API lists both, joined by the address of the pull request. */
import type { Client } from '../../client/client.ts'
import type { Run } from '../../protocol/run.ts'

const PAGE = 200
/** Older runs are not looked through, because a pull request of somebody else has no run at all. */
const PAGES_MAX = 5

/** The newest run of each pull request, by its address. */
export async function findRunsOfPulls(
  client: Client,
  urls: readonly string[],
): Promise<ReadonlyMap<string, Run>> {
  const found = new Map<string, Run>()
  const wanted = new Set(urls)
  let before: string | undefined
  for (let pages = 0; pages < PAGES_MAX && found.size < wanted.size; pages += 1) {
    const page = await client.listRuns({ limit: PAGE, ...(before === undefined ? {} : { before }) })
    for (const run of page)
      if (run.prUrl !== undefined && wanted.has(run.prUrl) && !found.has(run.prUrl)) found.set(run.prUrl, run)
    before = page.at(-1)?.id
    if (page.length < PAGE) break
  }
  return found
}
