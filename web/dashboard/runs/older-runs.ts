/** Reads runs that the dashboard socket did not bring, page by page, while somebody wants to see them. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { showError } from '../../elements/toasts.ts'
import { host } from '../state/host.ts'
import { live } from '../state/live.ts'
import { addRuns } from '../state/records.ts'

const PAGE = 500

export interface OlderRuns {
  readonly isReading: boolean
  /** Whether every run that the host has is there. */
  readonly isComplete: boolean
}

/** All runs, read in pages, so that counts and searches are about all of them. */
export function useOlderRuns(): OlderRuns {
  const isComplete = useSignal(false)
  const isReading = useSignal(false)
  const isLive = live.value.state === 'live'
  useEffect(() => {
    if (!isLive || isComplete.value) return undefined
    const controller = new AbortController()
    isReading.value = true
    readAll(controller.signal)
      .then(() => {
        isComplete.value = !controller.signal.aborted
      })
      .catch((error: unknown) => {
        if (!controller.signal.aborted) showError(error)
      })
      .finally(() => {
        isReading.value = false
      })
    return () => controller.abort()
  }, [isLive])
  return { isReading: isReading.value, isComplete: isComplete.value }
}

async function readAll(signal: AbortSignal): Promise<void> {
  let before: string | undefined
  for (;;) {
    const page = await host.listRuns({ limit: PAGE, ...(before === undefined ? {} : { before }) }, { signal })
    if (signal.aborted) return
    addRuns(page)
    before = page.at(-1)?.id
    if (page.length < PAGE) return
  }
}
