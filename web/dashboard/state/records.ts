/**
 * The records that the host has sent, one of each thing, from which every page draws.
 *
 * A hello replaces what it contains. Runs and tickets are asked for by those who show them, and change by pushes.
 */
import { batch, signal } from '@preact/signals'
import type { AttentionItem, AttentionResponse } from '../../../protocol/attention.ts'
import type { ChangesFrame, ChangesHello } from '../../../protocol/dashboard.ts'
import type { Run } from '../../../protocol/run.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import type { HealthResponse, WorkerView } from '../../../protocol/worker.ts'

export const runs = signal<ReadonlyMap<string, Run>>(new Map())
export const workers = signal<readonly WorkerView[]>([])
export const config = signal<ChangesHello['config'] | undefined>(undefined)
export const tracker = signal<TrackerStatus>({ state: 'disconnected' })
export const attention = signal<readonly AttentionItem[]>([])
/** How many older items the list leaves out. */
export const attentionMore = signal(0)
/** Whether the host has said what needs a person; before it, an empty list means nothing. */
export const isAttentionRead = signal(false)
export const health = signal<HealthResponse | undefined>(undefined)
/** Whether the runs of the first hello are read; before it, empty lists mean nothing. */
export const isLoaded = signal(false)
/** How many hellos have come. */
export const hellos = signal(0)
/** Whether the runs that ended today are all there: the newest ended runs are read before them. */
export const isTodayRead = signal(false)
/** Whether all runs with an open pull request are there. */
export const arePullsRead = signal(false)

/** Applies frames in their order, with one change of the page. */
export function applyFrames(frames: readonly ChangesFrame[]): void {
  batch(() => {
    let changed: Map<string, Run> | undefined
    for (const frame of frames) {
      if (frame.type === 'runs-changed') {
        changed ??= new Map(runs.value)
        for (const run of frame.changed) changed.set(run.id, run)
        for (const id of frame.removed) changed.delete(id)
      } else applyOther(frame)
    }
    if (changed !== undefined) runs.value = changed
  })
}

function applyOther(frame: ChangesFrame): void {
  if (frame.type === 'hello') {
    workers.value = frame.workers
    config.value = frame.config
    tracker.value = frame.linearStatus
    hellos.value += 1
  } else if (frame.type === 'workers') workers.value = frame.workers
  else if (frame.type === 'config') config.value = frame.config
  else if (frame.type === 'linear-status') tracker.value = frame.linearStatus
  else if (frame.type === 'attention') setAttention(frame)
}

export function setAttention({ items, more = 0 }: AttentionResponse): void {
  batch(() => {
    attention.value = items
    attentionMore.value = more
    isAttentionRead.value = true
  })
}
