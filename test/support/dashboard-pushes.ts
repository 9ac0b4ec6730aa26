/** Pushes as a dashboard reads them, and as they are sent: events of runs as the JSON of their push. */
import type { OutgoingPush } from '../../core/ports/connections.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'

export const readPush = (push: OutgoingPush): DashboardPush =>
  push.type === 'run-event' ? JSON.parse(Buffer.from(push.json).toString()) : push

export const outgoingPush = (push: DashboardPush): OutgoingPush =>
  push.type === 'run-event'
    ? { type: 'run-event', runId: push.event.runId, json: Buffer.from(JSON.stringify(push)) }
    : push
