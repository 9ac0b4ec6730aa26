/** An attempt that is compared with another: its facts, and its part of the log. */
import { useEffect, useMemo } from 'preact/hooks'
import { sumOf } from '../../../client/cost-sums.ts'
import { readEvents } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { FilterSelect } from '../../elements/field.tsx'
import { Glyph, glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { Span } from '../../elements/moments.tsx'
import { Skeleton } from '../../elements/placeholder.tsx'
import { countOf, formatSum, formatTokens } from '../../text/amounts.ts'
import { formatClock, formatFullTime } from '../../text/times.ts'
import { LogRows } from '../run/log/log-rows.tsx'
import { LogView } from '../run/log/log-view.ts'
import { connection } from '../state/host.ts'
import { watchRun } from '../state/live.ts'
import { type AttemptSpan, attemptSource } from './attempt-spans.ts'

export interface AttemptColumnProps {
  readonly run: Run
  readonly span: AttemptSpan
  readonly options: readonly (readonly [value: string, label: string])[]
  readonly choose: (number: string) => void
}

export function AttemptColumn({ run, span, options, choose }: AttemptColumnProps) {
  const { number, status, reason, began, ended, next } = span
  // An attempt that gave way to another without an end of its own was queued again.
  const glyph: StateGlyph = next !== undefined && !isEnd(status) ? 'queued' : (status as StateGlyph)
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

const isEnd = (status: string): boolean =>
  status === 'completed' || status === 'failed' || status === 'cancelled'

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
  const { isRead, failure, older, isReadingOlder } = view.state.value
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
          <Button
            kind="plain-quiet"
            pressed={view.isWrapping.value}
            act={() => {
              view.isWrapping.value = !view.isWrapping.value
            }}
          >
            Wrap
          </Button>
        </span>
      </div>
      {failure !== undefined && (
        <p class="log-problem" role="alert">
          The log could not be read: {failure}. Trying again.
        </p>
      )}
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
