/** Two attempts of a run side by side: how each went, what it cost, and its part of the log. */

import { useMemo } from 'preact/hooks'
import { readEvents } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { useActs } from '../../elements/acts.ts'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { address, changeQuery, navigate } from '../../router.ts'
import { runAddress } from '../addresses.ts'
import type { PageProps } from '../pages.ts'
import { loadRun } from '../state/add-runs.ts'
import { connection } from '../state/host.ts'
import { runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { AttemptColumn } from './attempt-column.tsx'
import { type AttemptSpan, attemptSpans, isSpanEvent, type SpanEvent } from './attempt-spans.ts'

export function AttemptsPage({ params: { id = '' } }: PageProps) {
  const run = runs.value.get(id)
  const loaded = useRequest(id, () => loadRun(id))
  const spans = useSpans(id, `${run?.status}`)
  useActs([
    {
      id: 'back',
      title: 'Back to the run',
      group: 'Attempts',
      keys: 'Escape',
      act: () => navigate(runAddress(id)),
    },
  ])
  const error = loaded.error ?? spans.error
  if (error !== undefined) return <Failure error={error} retry={spans.reload} />
  if (run === undefined || spans.data === undefined) return <Skeleton rows={8} />
  return (
    <>
      <nav class="crumbs" aria-label="Where this is">
        <a href="/runs">Runs</a> {' / '}
        <a class="mono" href={runAddress(id)}>
          {run.ticket.identifier}
        </a>{' '}
        {' / '} Attempts
      </nav>
      <PageHead title={`Attempts of ${run.ticket.identifier}`} beside={run.ticket.title} />
      {spans.data.length < 2 ? (
        <Empty
          title="There is one attempt"
          button={
            <a class="button" href={runAddress(id)}>
              Show the run
            </a>
          }
        >
          A second one begins when the run is retried, or queued again after a failure.
        </Empty>
      ) : (
        <Columns run={run} spans={spans.data} />
      )}
    </>
  )
}

/** The log is read as a whole, because a change of state may stand anywhere in it; few of its events are kept. */
function useSpans(runId: string, status: string) {
  return useRequest(`attempts ${runId} ${status}`, async (signal) => {
    const events: SpanEvent[] = []
    for await (const event of readEvents(connection, runId, {}, signal))
      if (isSpanEvent(event)) events.push(event)
    return attemptSpans(events)
  })
}

interface ColumnsProps {
  readonly run: Run
  readonly spans: readonly AttemptSpan[]
}

/** The address holds the two numbers; the last two attempts are compared without them. */
function Columns({ run, spans }: ColumnsProps) {
  const { query } = address.value
  const chosen = (side: string, usual: AttemptSpan | undefined) =>
    spans.find(({ number }) => `${number}` === query.get(side)) ?? usual
  const sides = [
    ['left', chosen('left', spans.at(-2))],
    ['right', chosen('right', spans.at(-1))],
  ] as const
  const options = useMemo(
    () => spans.map(({ number }) => [`${number}`, `Attempt ${number}`] as const),
    [spans.length],
  )
  return (
    <div class="attempt-columns">
      {sides.map(
        ([side, span]) =>
          span !== undefined && (
            <AttemptColumn
              key={side}
              run={run}
              span={span}
              options={options}
              choose={(number) => changeQuery({ [side]: number })}
            />
          ),
      )}
    </div>
  )
}
