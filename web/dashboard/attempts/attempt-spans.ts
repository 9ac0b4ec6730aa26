/**
 * The attempts of a run as parts of its log: where each begins and ends, how it ended, what it has cost. The tries to
 * publish the work of an attempt belong to it.
 */
import { type EventRange, hasEnded } from '../../../client/run-events.ts'
import type { RunLogSource } from '../../../client/run-log.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
import type { RunEvent, RunStatus } from '../../../protocol/run.ts'
import { type ChangeOfState, publishTries } from '../run/timeline.ts'

export interface AttemptSpan {
  readonly number: number
  /** Its events are those from this index on. */
  readonly first: number
  /** The first event that is not its own; undefined for the last attempt. */
  readonly next: number | undefined
  readonly began: string
  /** When the next one began, or the run ended. */
  readonly ended: string | undefined
  /** The state of the run now or at the end of the attempt, and the reason that was given. */
  readonly status: RunStatus
  readonly reason: string | undefined
  readonly costs: readonly CostEntry[]
}

export type SpanEvent = RunEvent & { readonly type: 'status' | 'cost' }

export const isSpanEvent = (event: RunEvent): event is SpanEvent =>
  event.type === 'status' || event.type === 'cost'

/** @param events in their order; others than changes of state and costs say nothing about attempts */
export function attemptSpans(events: readonly SpanEvent[]): AttemptSpan[] {
  const spans: AttemptSpan[] = []
  const publishes = publishTries(events.filter((event): event is ChangeOfState => event.type === 'status'))
  for (const event of events) {
    const current = spans.at(-1)
    const last = spans.length - 1
    const { at } = event
    if (event.type === 'cost') {
      if (current !== undefined) spans[last] = { ...current, costs: [...current.costs, event.entry] }
      continue
    }
    const { to: status, reason } = event
    const isTry = publishes.has(event.index)
    const isNew = current === undefined || (status === 'queued' && current.status !== 'queued' && !isTry)
    if (current !== undefined && isNew)
      // A run that ended keeps that state until somebody retries it.
      spans[last] = {
        ...current,
        next: event.index,
        ended: current.ended ?? at,
        reason: current.reason ?? reason,
      }
    if (isNew) spans.push(beginning(spans.length + 1, event.index, at, status))
    else
      spans[last] = {
        ...current,
        status,
        ended: hasEnded({ status }) ? at : undefined,
        reason: hasEnded({ status }) || isTry ? reason : undefined,
      }
  }
  return spans
}

const beginning = (number: number, first: number, began: string, status: RunStatus): AttemptSpan => ({
  number,
  first,
  next: undefined,
  began,
  ended: undefined,
  status,
  reason: undefined,
  costs: [],
})

/** The log of one attempt, out of the log of its run. */
export function attemptSource(source: RunLogSource, { first, next }: AttemptSpan): RunLogSource {
  async function* readEvents(range: EventRange, signal: AbortSignal): AsyncGenerator<RunEvent> {
    const { tail } = range
    const within = next === undefined || tail === undefined ? range : { before: next, limit: tail }
    for await (const event of source.readEvents(within, signal))
      if (event.index >= first && (next === undefined || event.index < next)) yield event
  }
  // Nothing is added to an attempt after the next one has begun.
  return { readEvents, watch: next === undefined ? source.watch : () => () => {}, first }
}
