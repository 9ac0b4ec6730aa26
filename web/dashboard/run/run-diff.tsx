/** The diff of a run's pull request; a comment on a line goes to the agent as instructions of a follow-up. */
import { useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { pullAddress, runAddress } from '../addresses.ts'
import { Diff } from '../diff/diff.tsx'
import { DiffState } from '../diff/diff-state.ts'
import { factsOf } from '../runs/run-acts.ts'
import { whyNot } from '../runs/run-rules.ts'
import { host } from '../state/host.ts'
import { watchRun } from '../state/live.ts'
import { config } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import type { ChangeOfState } from './timeline.ts'

export function RunDiff({ run }: { readonly run: Run }) {
  const { pull, ticket } = run
  const repo = Object.entries(config.value?.repos ?? {}).find(
    ([, { remote }]) => remote === pull?.remote,
  )?.[0]
  const number = pull?.number ?? 0
  const { data, error, reload } = useRequest(`diff ${repo} ${number}`, async (signal) =>
    repo === undefined ? undefined : host.readPull({ repo, number }, { signal }),
  )
  const state = useMemo(() => new DiffState(`${pull?.remote}#${number}`), [pull?.remote, number])
  const files = data?.files ?? []
  if (repo === undefined)
    return (
      <Empty title="There is no diff to show">
        {pull === undefined
          ? 'The run has no confirmed pull request.'
          : `No repository of the configuration is ${pull.remote}.`}
      </Empty>
    )
  if (data === undefined)
    return error === undefined ? <Skeleton rows={10} /> : <Failure error={error} retry={reload} />
  return (
    <>
      <p class="quiet">
        {data.changedFiles} changed {data.changedFiles === 1 ? 'file' : 'files'}, +{data.additions} −
        {data.deletions}. <a href={pullAddress(repo, number)}>Open the pull request</a> for its conversation
        and a review.
      </p>
      <Diff
        state={state}
        files={files}
        threads={data.conversation.threads}
        reviewUnavailable="Reviews are written on the page of the pull request."
        sendUnavailable={whyNot('followup', run, factsOf(run))}
        sendToAgent={async (instructions) => {
          await host.followUpRun({ id: run.id, body: { instructions } })
          showOutcome(`The follow-up to ${ticket.identifier} is queued.`, {
            to: runAddress(run.id),
            text: 'Show the run',
          })
        }}
      />
    </>
  )
}

const READ = 200

export interface RunChanges {
  readonly changes: readonly ChangeOfState[]
  /** Whether changes between the first and the last may be missing. */
  readonly isPartial: boolean
}

/**
 * The changes of state of a run: those at the beginning of its log, those near its end, and those to come.
 *
 * A log may have hundreds of thousands of events, and changes are few, so the middle of a long one is not read.
 */
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
