/**
 * The records that the host has sent, one of each thing, from which every page draws.
 *
 * A hello replaces what it contains; runs that ended earlier stay, since pages may have asked for them.
 */
import { batch, signal } from '@preact/signals'
import { hasEnded } from '../../../client/run-events.ts'
import type { AttentionItem, AttentionResponse } from '../../../protocol/attention.ts'
import type { DashboardFrame, HelloFrame } from '../../../protocol/dashboard.ts'
import { HELLO_FINISHED_RUNS } from '../../../protocol/limits.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import type { HealthResponse, WorkerView } from '../../../protocol/worker.ts'

export const runs = signal<ReadonlyMap<string, Run>>(new Map())
export const tickets = signal<readonly Ticket[]>([])
export const workers = signal<readonly WorkerView[]>([])
export const config = signal<HelloFrame['config'] | undefined>(undefined)
export const tracker = signal<TrackerStatus>({ state: 'disconnected' })
export const attention = signal<readonly AttentionItem[]>([])
/** How many older items the list leaves out. */
export const attentionMore = signal(0)
/** Whether the host has said what needs a person; before it, an empty list means nothing. */
export const isAttentionRead = signal(false)
export const health = signal<HealthResponse | undefined>(undefined)
/** Whether the first hello has come; before it, empty lists mean nothing. */
export const isLoaded = signal(false)
/** How many hellos have come. */
export const hellos = signal(0)
/** Whether the runs that ended today are all there: a hello has the newest ended runs only. */
export const isTodayRead = signal(false)
/** Whether all runs with an open pull request are there. */
export const arePullsRead = signal(false)

/** Applies frames in their order, with one change of the page. */
export function applyFrames(frames: readonly DashboardFrame[]): void {
  batch(() => {
    let changed: Map<string, Run> | undefined
    for (const frame of frames) {
      if (frame.type === 'hello') changed = applyHello(frame, changed ?? runs.value)
      else if (frame.type === 'run-updated') {
        changed ??= new Map(runs.value)
        changed.set(frame.run.id, frame.run)
      } else applyOther(frame)
    }
    if (changed !== undefined) runs.value = changed
  })
}

function applyHello(hello: HelloFrame, before: ReadonlyMap<string, Run>): Map<string, Run> {
  tickets.value = hello.tickets
  workers.value = hello.workers
  config.value = hello.config
  tracker.value = hello.linearStatus
  isLoaded.value = true
  const hasAll = hello.runs.filter(hasEnded).length < HELLO_FINISHED_RUNS
  isTodayRead.value = hasAll
  arePullsRead.value = hasAll
  hellos.value += 1
  const ended = [...before].filter(([, run]) => hasEnded(run))
  return new Map([...ended, ...hello.runs.map((run) => [run.id, run] as const)])
}

function applyOther(frame: DashboardFrame): void {
  if (frame.type === 'tickets') tickets.value = frame.tickets
  else if (frame.type === 'workers') workers.value = frame.workers
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

/**
 * Adds runs that a request has read; what was pushed meanwhile is newer than the answer.
 *
 * @param before the records when the request began; without them only what is missing is added
 */
export function addRuns(read: readonly Run[], before?: ReadonlyMap<string, Run>): void {
  const changed = new Map(runs.value)
  for (const run of read) if (changed.get(run.id) === before?.get(run.id)) changed.set(run.id, run)
  runs.value = changed
}
