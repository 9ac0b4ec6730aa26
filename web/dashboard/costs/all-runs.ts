/** Reads every run that the host has, page by page, because an old run may have cost something of late. */

import { useRef } from 'preact/hooks'
import { addRuns } from '../state/add-runs.ts'
import { host } from '../state/host.ts'
import { type Request, useRequest } from '../state/use-request.ts'

const PAGE = 500

/** Has its data once all runs are among the records. */
export function useAllRuns(): Request<true> {
  const isRead = useRef(false)
  return useRequest('all runs', async (signal) => {
    if (!isRead.current) await readAll(signal)
    isRead.current = true
    return true as const
  })
}

async function readAll(signal: AbortSignal): Promise<void> {
  let before: string | undefined
  for (;;) {
    const page = await host.listRuns({ limit: PAGE, ...(before === undefined ? {} : { before }) }, { signal })
    signal.throwIfAborted()
    addRuns(page)
    before = page.at(-1)?.id
    if (page.length < PAGE) return
  }
}
