/**
 * A push on its way to the listeners. Events of runs are so many that each comes as the JSON of its push: nobody here
 * reads them as objects.
 */
import type { DashboardPush } from '../protocol/dashboard.ts'

export interface EventPush {
  readonly type: 'run-event'
  readonly runId: string
  readonly json: Uint8Array
}

export type OutgoingPush = Exclude<DashboardPush, { readonly type: 'run-event' }> | EventPush

const [HEAD, TAIL] = ['{"type":"run-event","event":', '}'].map((text) => Buffer.from(text)) as [
  Buffer,
  Buffer,
]

/** `event`: its JSON. */
export function createEventPush(runId: string, event: Uint8Array): EventPush {
  const json = Buffer.allocUnsafe(HEAD.length + event.length + TAIL.length)
  json.set(HEAD, 0)
  json.set(event, HEAD.length)
  json.set(TAIL, HEAD.length + event.length)
  return { type: 'run-event', runId, json }
}
