/**
 * The changes of state of a run: those at the beginning of its log, those near its end, and those to come.
 *
 * A log may have hundreds of thousands of events, and changes are few, so the middle of a long one is not read.
 */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { RunEvent } from '../../../protocol/run.ts'
import { host } from '../state/host.ts'
import { watchRun } from '../state/live.ts'
import { useRequest } from '../state/use-request.ts'
import type { ChangeOfState } from './timeline.ts'

const READ = 200

export interface RunChanges {
  readonly changes: readonly ChangeOfState[]
  /** Whether changes between the first and the last may be missing. */
  readonly isPartial: boolean
}

export function useChanges(runId: string): RunChanges {
  const pushed = useSignal<readonly ChangeOfState[]>([])
  const read = useRequest(runId, async (signal) => {
    const [first, last] = await Promise.all([
      host.readRunEvents({ id: runId, after: -1, limit: READ }, { signal }),
      host.readRunEvents({ id: runId, tail: READ }, { signal }),
    ])
    return { events: [...first, ...last], isPartial: (first.at(-1)?.index ?? 0) + 1 < (last[0]?.index ?? 0) }
  })
  useEffect(
    () =>
      watchRun(runId, (frame) => {
        if (frame.type === 'run-event' && isChange(frame.event)) pushed.value = [...pushed.value, frame.event]
      }),
    [runId],
  )
  const byIndex = new Map<number, ChangeOfState>()
  for (const event of [...(read.data?.events ?? []), ...pushed.value])
    if (isChange(event)) byIndex.set(event.index, event)
  return {
    changes: [...byIndex.values()].sort((a, b) => a.index - b.index),
    isPartial: read.data?.isPartial ?? false,
  }
}

const isChange = (event: RunEvent): event is ChangeOfState => event.type === 'status'
