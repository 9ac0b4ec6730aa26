/**
 * Reads the runs that ended since an instant: what the counts and the amounts of a day are made of.
 *
 * The host lists runs by their creation. Pages are read one after the other, until no run of a whole page ended so
 * late; a run that was followed up long after its neighbours in the list lies beyond.
 */
import type { Run } from '../protocol/run.ts'
import type { CallOptions, Client } from './client.ts'

const PAGE = 500
/** A day has fewer runs, and a host that answers strangely is not asked for ever. */
const PAGES_MAX = 20

/**
 * Returns whether the end was reached.
 *
 * @param onPage receives finished runs, of which the last ones ended earlier
 */
export async function readFinishedSince(
  client: Pick<Client, 'listRuns'>,
  since: number,
  onPage: (runs: readonly Run[]) => void,
  options: CallOptions = {},
): Promise<boolean> {
  const status: Run['status'][] = ['completed', 'failed', 'cancelled']
  let before: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const page = await client.listRuns(
      { status, limit: PAGE, ...(before === undefined ? {} : { before }) },
      options,
    )
    onPage(page)
    before = page.at(-1)?.id
    const hasLate = page.some(({ finishedAt = '' }) => Date.parse(finishedAt) >= since)
    if (page.length < PAGE || !hasLate) return true
  }
  return false
}
