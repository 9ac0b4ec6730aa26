/** Two attempts of a run side by side: how each went, what it cost, and its part of the log. */

import { useEffect, useMemo } from 'preact/hooks'
import { sumOf } from '../../../client/cost-sums.ts'
import { hasEnded, readEvents } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { FilterSelect } from '../../elements/field.tsx'
import { Glyph, glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { Span } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { address, changeQuery, navigate } from '../../router.ts'
import { countOf, formatSum, formatTokens } from '../../text/amounts.ts'
import { formatClock, formatFullTime } from '../../text/times.ts'
import { runAddress } from '../addresses.ts'
import type { PageProps } from '../pages.ts'
import { LogProblem, WrapButton } from '../run/log/log-panel.tsx'
import { LogRows } from '../run/log/log-rows.tsx'
import { LogView } from '../run/log/log-view.ts'
import { connection } from '../state/host.ts'
import { watchRun } from '../state/live.ts'
import { loadRun } from '../state/read-missing-runs.ts'
import { runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import {
  type AttemptSpan,
  attemptSource,
  attemptSpans,
  isSpanEvent,
  type SpanEvent,
} from './attempt-spans.ts'

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
        <Empty title="There is one attempt" link={{ to: runAddress(id), text: 'Show the run' }}>
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

// ---- one attempt ---------------------------------------------------------------------------------------------------

interface AttemptColumnProps {
  readonly run: Run
  readonly span: AttemptSpan
  readonly options: readonly (readonly [value: string, label: string])[]
  readonly choose: (number: string) => void
}

/** An attempt that is compared with another: its facts, and its part of the log. */
function AttemptColumn({ run, span, options, choose }: AttemptColumnProps) {
  const { number, status, reason, began, ended, next } = span
  // An attempt that gave way to another without an end of its own was queued again.
  const glyph: StateGlyph = next !== undefined && !hasEnded(span) ? 'queued' : (status as StateGlyph)
  return (
    <section class="attempt-column" aria-label={`Attempt ${number}`}>
      <div class="card attempt-facts">
        <FilterSelect label="Attempt" value={`${number}`} options={options} change={choose} />
        <span>
          <Glyph name={glyph} />{' '}
          {glyph === 'queued' && next !== undefined ? 'Queued again' : glyphWord(glyph)}
        </span>
        <span class="quiet">
          <time title={formatFullTime(began)}>{formatClock(began)}</time>, <Span from={began} to={ended} />
        </span>
        <AttemptCost run={run} span={span} />
        {reason !== undefined && <p class="attempt-reason">{reason}</p>}
      </div>
      <AttemptLog key={`${span.first} ${next}`} runId={run.id} span={span} />
    </section>
  )
}

function AttemptCost({ run, span: { costs } }: Pick<AttemptColumnProps, 'run' | 'span'>) {
  if (costs.length === 0) return <span class="faint">No cost was reported.</span>
  const sum = sumOf(
    run.id,
    costs.map((entry) => ({ ...entry, key: entry.label, run, at: 0 })),
  )
  const read = sum.inputTokens + sum.cacheReadTokens + sum.cacheWriteTokens
  return (
    <span>
      {formatSum(sum)}{' '}
      <span class="faint">
        {formatTokens(read)} in, {formatTokens(sum.outputTokens)} out
      </span>
    </span>
  )
}

/** Its lines have the numbers that they have in the log of the run. */
function AttemptLog({ runId, span }: { readonly runId: string; readonly span: AttemptSpan }) {
  const view = useMemo(() => openView(runId, span), [])
  useEffect(() => () => view.close(), [view])
  void view.version.value
  const { isRead, older, isReadingOlder } = view.state.value
  const isGrowing = span.next === undefined && span.ended === undefined
  return (
    <section class={`card log${isGrowing ? ' growing' : ''}`} role="log" aria-live="off" aria-label="Log">
      <div class="log-bar">
        <span class="faint">{countOf(view.model.lines.count, 'line')}</span>
        {view.model.errorCount > 0 && (
          <Button kind="plain-quiet" act={() => void view.showFirstError()}>
            <Glyph name="failed" /> First error
          </Button>
        )}
        {older > 0 && (
          <Button kind="link" act={() => void view.loadOlder(0)}>
            {isReadingOlder ? 'Loading older lines' : `Load ${countOf(older, 'older event')}`}
          </Button>
        )}
        <span class="log-toggles">
          <WrapButton view={view} />
        </span>
      </div>
      <LogProblem view={view} />
      {isRead ? <LogRows view={view} isRunning={isGrowing} /> : <Skeleton rows={8} />}
    </section>
  )
}

function openView(runId: string, span: AttemptSpan): LogView {
  const source = {
    readEvents: (range: object, signal: AbortSignal) => readEvents(connection, runId, range, signal),
    watch: (onFrame: Parameters<typeof watchRun>[1]) => watchRun(runId, onFrame),
  }
  return new LogView(attemptSource(source, span))
}
