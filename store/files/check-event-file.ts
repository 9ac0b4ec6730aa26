/** Finds the events that readers of a run's event file would find damaged or missing. */
import type { EventFileRecord } from '../lmdb/event-buffer.ts'
import { type FileSum, selectSums } from '../lmdb/file-sums.ts'
import { type Reading, readFileSlice } from './event-file-slices.ts'

const SLICE_BYTES = 1024 * 1024

export interface UnreadableEvents {
  readonly from: number
  readonly to: number
  readonly why: string
}

/** @param sums the checksums of its parts, in any order */
export async function findLostEvents(
  file: { readonly runId: string; readonly path: string },
  record: EventFileRecord,
  sums: readonly FileSum[],
): Promise<readonly UnreadableEvents[]> {
  const lost: UnreadableEvents[] = []
  const ordered = [...sums].sort((a, b) => a.first - b.first)
  const reading: Reading = { ...file, next: 0 }
  let at = 0
  while (reading.next < record.next) {
    while ((ordered[at + 1]?.first ?? Number.POSITIVE_INFINITY) <= reading.next) at++
    const parts = selectSums(ordered.slice(at), reading.next, SLICE_BYTES)
    const found = await readFileSlice(reading, parts, record, (from, to, why) => {
      const last = lost.at(-1)
      if (last !== undefined && last.to + 1 === from && last.why === why) lost.splice(-1, 1, { ...last, to })
      else lost.push({ from, to, why })
      return { index: to, text: '' }
    })
    reading.next = found.next
    if (found.offset === undefined) delete reading.offset
    else reading.offset = found.offset
  }
  return lost
}
