/** The overview: what needs a person first, then what runs, what waits and why, and what has ended. */

import { effect } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import { hasEnded } from '../../../client/run-events.ts'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import type { StateGlyph } from '../../elements/glyph.tsx'
import { useLaterPart } from '../../elements/later-part.ts'
import { Age, now, Span } from '../../elements/moments.tsx'
import { PageHead, Section } from '../../elements/page-head.tsx'
import { Empty, Skeleton } from '../../elements/placeholder.tsx'
import { formatCount } from '../../text/amounts.ts'
import { runAddress } from '../addresses.ts'
import { isPaused, PauseButton, pauseAct } from '../runs/pause.tsx'
import { RunOutcome } from '../runs/run-outcome.tsx'
import { chosenClass } from '../runs/selection.ts'
import { startRun } from '../shell/start-run.ts'
import { countOfToday, totals } from '../state/current-totals.ts'
import { config, isLoaded, runs, tracker } from '../state/records.ts'
import { eligibleSentence, pollSentence } from '../tracker-words.ts'
import { FlowDrawing } from './flow-drawing.tsx'
import { InProgress } from './in-progress.tsx'
import { LeavingRuns } from './leaving.ts'
import { NeedsYou } from './needs-you.tsx'
import { Queued } from './queued.tsx'
import { RowGlyph } from './row-glyph.tsx'

export function Overview() {
  useActs([pauseAct('Overview')])
  const { inProgress, queued } = totals.value
  return (
    <>
      <PageHead
        title="Overview"
        beside={
          isLoaded.value && (
            <>
              {formatCount(inProgress)} in progress, {formatCount(queued)} queued{isPaused() && ', paused'}
              <SpentToday />
            </>
          )
        }
        acts={
          <>
            <PauseButton />
            <Button kind="primary" act={startRun}>
              Start run <kbd>N</kbd>
            </Button>
          </>
        }
      />
      {isLoaded.value ? <Content /> : <Skeleton rows={8} />}
    </>
  )
}

function Content() {
  const leaving = useMemo(() => new LeavingRuns(), [])
  useEffect(() => {
    const stop = effect(() => leaving.update(runs.value))
    return () => {
      stop()
      leaving.close()
    }
  }, [])
  if (runs.value.size === 0) return <NoRuns />
  return (
    <>
      <FlowDrawing />
      <NeedsYou />
      <InProgress leaving={leaving} />
      <Queued />
      <RecentlyFinished leaving={leaving} />
      <LaterRowKeys />
    </>
  )
}

function LaterRowKeys() {
  const Keys = useLaterPart(async () => (await import('./row-keys.tsx')).RowKeys)
  return Keys === undefined ? null : <Keys />
}

function NoRuns() {
  const driver = config.value?.tracker.driver
  const eligible = config.value?.tracker.eligible
  return (
    <>
      <NeedsYou />
      <Empty
        title={
          tracker.value.state === 'connected' ? 'No ticket has become a run yet' : 'No tracker is connected'
        }
        button={
          tracker.value.state === 'connected' ? (
            <a class="button" href="/settings#tracker.eligible">
              Change which tickets are eligible
            </a>
          ) : (
            <a class="button primary" href="/connect">
              Connect a tracker
            </a>
          )
        }
      >
        {pollSentence(driver, tracker.value, now.value)}{' '}
        {eligible !== undefined && eligibleSentence(eligible)}
      </Empty>
    </>
  )
}

/** The costs of this day so far, as the page of costs has them. What adds them up is no part of the first load. */
function SpentToday() {
  const Link = useLaterPart(async () => (await import('../costs/spent-today-link.tsx')).SpentTodayLink)
  return Link === undefined ? null : <Link />
}

// ---- finished runs -------------------------------------------------------------------------------------------------

const SHOWN = 12
const endOf = (run: Run): string => run.finishedAt ?? run.createdAt

function RecentlyFinished({ leaving }: { readonly leaving: LeavingRuns }) {
  const ended = [...runs.value.values()]
    .filter((run) => hasEnded(run) && !leaving.ids.value.has(run.id))
    .sort((a, b) => (endOf(a) > endOf(b) ? -1 : 1))
    .slice(0, SHOWN)
  if (ended.length === 0) return null
  return (
    <Section
      title="Recently finished"
      count={`${countOfToday(totals.value.finishedToday)} today`}
      aside={<a href="/runs?status=completed,failed,cancelled">All finished runs</a>}
    >
      <table class="card rows finished-rows" aria-label="Recently finished">
        <tbody>
          {ended.map((run) => (
            <FinishedRow key={run.id} run={run} />
          ))}
        </tbody>
      </table>
    </Section>
  )
}

function FinishedRow({ run }: { readonly run: Run }) {
  const { ticket, status } = run
  return (
    <tr data-run={run.id} class={chosenClass(run.id)}>
      <td class="glyph-cell">
        {/* The statuses of ended runs are glyphs of the same name. */}
        <RowGlyph run={run} name={status as StateGlyph} />
      </td>
      <td class="mono faint id-cell">{ticket.identifier}</td>
      <td class="row-title">
        <a class="row-link" href={runAddress(run.id)} title={ticket.title}>
          {ticket.title}
        </a>
      </td>
      <td class="outcome-cell">
        <RunOutcome run={run} />
      </td>
      <td class="wide-cell quiet">{ticket.repo}</td>
      <td class="wide-cell number quiet">
        <Span from={run.startedAt} to={run.finishedAt} />
      </td>
      <td class="number">{formatMoney(run.costTotals)}</td>
      <td class="number age-cell faint">
        <Age since={endOf(run)} />
      </td>
    </tr>
  )
}
