/**
 * The records that the host has sent, one of each thing, from which every page draws.
 *
 * A hello replaces what it contains; runs that ended earlier stay, since pages may have asked for them.
 */
import { batch, signal } from '@preact/signals'
import { hasEnded } from '../../../client/run-events.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import type { DashboardFrame, HelloFrame } from '../../../protocol/dashboard.ts'
import type { Run, Ticket } from '../../../protocol/run.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import type { HealthResponse, WorkerView } from '../../../protocol/worker.ts'

export const runs = signal<ReadonlyMap<string, Run>>(new Map())
export const tickets = signal<readonly Ticket[]>([])
export const workers = signal<readonly WorkerView[]>([])
export const config = signal<HelloFrame['config'] | undefined>(undefined)
export const tracker = signal<TrackerStatus>({ state: 'disconnected' })
export const attention = signal<readonly AttentionItem[]>([])
export const health = signal<HealthResponse | undefined>(undefined)
/** Whether the first hello has come; before it, empty lists mean nothing. */
export const isLoaded = signal(false)

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
  const ended = [...before].filter(([, run]) => hasEnded(run))
  return new Map([...ended, ...hello.runs.map((run) => [run.id, run] as const)])
}

function applyOther(frame: DashboardFrame): void {
  if (frame.type === 'tickets') tickets.value = frame.tickets
  else if (frame.type === 'workers') workers.value = frame.workers
  else if (frame.type === 'config') config.value = frame.config
  else if (frame.type === 'linear-status') tracker.value = frame.linearStatus
  else if (frame.type === 'attention') attention.value = frame.items
}

/** Adds runs that a request has read; what was pushed meanwhile is newer than a list. */
export function addRuns(read: readonly Run[], { areNewer = false } = {}): void {
  const changed = new Map(runs.value)
  for (const run of read) if (areNewer || !changed.has(run.id)) changed.set(run.id, run)
  runs.value = changed
}
