/**
 * The frames of the dashboard socket and of terminal sockets.
 *
 * `linearStatus` and `linear-status` are historical names that existing clients depend on, so they stay for every
 * tracker. Every configuration here is masked.
 */
import Type, { type Static } from 'typebox'
import { AttentionResponse } from './attention.ts'
import { ServiceConfig } from './config.ts'
import {
  ATTACH_DATA_CHARS_MAX,
  ATTACH_FRAME_BYTES_MAX,
  TERMINAL_COLUMNS_MAX,
  TERMINAL_ROWS_MAX,
} from './limits.ts'
import { ProvisionPush } from './provision.ts'
import { Run, RunEvent, Ticket } from './run.ts'
import { Count, ForeignId, Id, record, Text, text } from './schema-helpers.ts'
import { TrackerStatus } from './tracker.ts'
import { WorkerView } from './worker.ts'

// ---- dashboard: from the service -------------------------------------------------------------------------------

export const HelloFrame = record('HelloFrame', {
  type: Type.Literal('hello'),
  runs: Type.Array(Run),
  tickets: Type.Array(Ticket),
  config: ServiceConfig,
  linearStatus: TrackerStatus,
  workers: Type.Array(WorkerView),
})
export type HelloFrame = Static<typeof HelloFrame>

export const DashboardPush = Type.Union(
  [
    record('ConfigPush', { type: Type.Literal('config'), config: ServiceConfig }),
    record('TicketsPush', { type: Type.Literal('tickets'), tickets: Type.Array(Ticket) }),
    record('WorkersPush', { type: Type.Literal('workers'), workers: Type.Array(WorkerView) }),
    record('RunUpdatedPush', { type: Type.Literal('run-updated'), run: Run }),
    record('RunEventPush', { type: Type.Literal('run-event'), event: RunEvent }),
    record('AttentionPush', {
      type: Type.Literal('attention'),
      ...AttentionResponse.properties,
    }),
    ProvisionPush,
    record('TrackerStatusPush', { type: Type.Literal('linear-status'), linearStatus: TrackerStatus }),
  ],
  { title: 'DashboardPush' },
)
/** Every frame after the hello. */
export type DashboardPush = Static<typeof DashboardPush>

/** The hello of `/ws?changes=1`: the client asks for the lists of runs and tickets itself. */
export const ChangesHello = record('ChangesHello', {
  type: Type.Literal('hello'),
  config: ServiceConfig,
  linearStatus: TrackerStatus,
  workers: Type.Array(WorkerView),
})
export type ChangesHello = Static<typeof ChangesHello>

/** Replaces `run-updated`. `removed`: ids. */
export const RunsChangedPush = record('RunsChangedPush', {
  type: Type.Literal('runs-changed'),
  changed: Type.Array(Run),
  removed: Type.Array(Id),
})

/** Replaces `tickets`: the tickets that are eligible since, or have changed. `removed`: ids. */
export const TicketsChangedPush = record('TicketsChangedPush', {
  type: Type.Literal('tickets-changed'),
  changed: Type.Array(Ticket),
  removed: Type.Array(ForeignId),
})
export type TicketsChangedPush = Static<typeof TicketsChangedPush>

/** Answers a subscription that asks for it. Every event from index `next` on is pushed; older ones are read with a request. */
export const SubscribedFrame = record('SubscribedFrame', {
  type: Type.Literal('subscribed'),
  runId: Id,
  next: Count,
})
export type SubscribedFrame = Static<typeof SubscribedFrame>

export const DashboardFrame = Type.Union([HelloFrame, SubscribedFrame, DashboardPush], {
  title: 'DashboardFrame',
})
export type DashboardFrame = Static<typeof DashboardFrame>

/** Every frame of `/ws?changes=1`. */
export type ChangesFrame =
  | ChangesHello
  | Static<typeof RunsChangedPush>
  | TicketsChangedPush
  | Exclude<DashboardFrame, { readonly type: 'hello' | 'tickets' | 'run-updated' }>

/** Every frame that either form of the socket sends. */
export const AnyDashboardFrame = Type.Union(
  [DashboardFrame, ChangesHello, RunsChangedPush, TicketsChangedPush],
  { title: 'AnyDashboardFrame' },
)

// ---- dashboard: to the service ---------------------------------------------------------------------------------

export const DashboardRequest = Type.Union(
  [
    record('SubscribeRequest', {
      type: Type.Literal('subscribe'),
      runId: Id,
      confirm: Type.Optional(Type.Boolean({ description: 'Whether to answer with `subscribed`.' })),
    }),
    record('UnsubscribeRequest', { type: Type.Literal('unsubscribe'), runId: Id }),
  ],
  { title: 'DashboardRequest' },
)
export type DashboardRequest = Static<typeof DashboardRequest>

// ---- terminal --------------------------------------------------------------------------------------------------

export const Columns = Type.Integer({ minimum: 1, maximum: TERMINAL_COLUMNS_MAX })
export const Rows = Type.Integer({ minimum: 1, maximum: TERMINAL_ROWS_MAX })
export const TerminalData = text(ATTACH_DATA_CHARS_MAX)
export const ExitCode = Type.Integer({ minimum: -0x8000_0000, maximum: 0xffff_ffff })

/** From the service to a terminal view. */
export const AttachOutput = Type.Union(
  [
    record('AttachDataOutput', { type: Type.Literal('data'), data: TerminalData }),
    record('AttachExitOutput', { type: Type.Literal('exit'), code: ExitCode }),
    record('AttachErrorOutput', { type: Type.Literal('error'), message: Text }),
  ],
  { title: 'AttachOutput' },
)
export type AttachOutput = Static<typeof AttachOutput>

/** From a terminal view to the service. */
export const AttachInput = Type.Union(
  [
    record('AttachKeys', { type: Type.Literal('input'), data: text(ATTACH_FRAME_BYTES_MAX) }),
    record('AttachResize', { type: Type.Literal('resize'), cols: Columns, rows: Rows }),
  ],
  { title: 'AttachInput' },
)
export type AttachInput = Static<typeof AttachInput>
