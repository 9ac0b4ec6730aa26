/** Finds the runs that opened pull requests: the API lists both, joined by the address of the pull request. */
import type { Client } from '../../client/client.ts'
import type { PullSummary } from '../../protocol/pulls.ts'
import type { Run } from '../../protocol/run.ts'

type FoundPull = Pick<PullSummary, 'url' | 'headBranch'>

/** So many of the newest runs are read for every list. */
export const RUNS_PAGE = 200
/** Older runs are read only for branches with a name of ours, because pull requests of other people have no run. */
const PAGES_MAX = 5
const OWN_BRANCH = /^switchyard\//

/**
 * The newest run of each pull request, by its address.
 *
 * @param newest the first page of runs, where the caller has read it
 */
export async function findRunsOfPulls(
  client: Client,
  pulls: readonly FoundPull[],
  newest?: readonly Run[],
): Promise<ReadonlyMap<string, Run>> {
  const found = new Map<string, Run>()
  const urls = new Set(pulls.map(({ url }) => url))
  const isMissing = ({ url, headBranch }: FoundPull) => OWN_BRANCH.test(headBranch) && !found.has(url)
  let page = newest ?? (await client.listRuns({ limit: RUNS_PAGE }))
  for (let pages = 1; ; pages += 1) {
    for (const run of page)
      if (run.prUrl !== undefined && urls.has(run.prUrl) && !found.has(run.prUrl)) found.set(run.prUrl, run)
    const before = page.at(-1)?.id
    if (before === undefined || page.length < RUNS_PAGE || pages === PAGES_MAX || !pulls.some(isMissing))
      break
    page = await client.listRuns({ limit: RUNS_PAGE, before })
  }
  return found
}
