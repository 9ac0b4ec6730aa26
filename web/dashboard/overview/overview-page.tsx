/** The overview: what needs a person first, then what runs, what waits and why, and what has ended. */
import { effect } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { useLaterPart } from '../../elements/later-part.ts'
import { now } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Skeleton } from '../../elements/placeholder.tsx'
import { showError } from '../../elements/toasts.ts'
import { formatCount } from '../../text/amounts.ts'
import { loadPageStyles } from '../page-styles.ts'
import { startRun } from '../shell/start-run.ts'
import { totals } from '../state/current-totals.ts'
import { host } from '../state/host.ts'
import { config, isLoaded, runs, tracker } from '../state/records.ts'
import { eligibleSentence, pollSentence } from '../tracker-words.ts'
import { RecentlyFinished } from './finished.tsx'
import { FlowDrawing } from './flow-drawing.tsx'
import { InProgress } from './in-progress.tsx'
import { LeavingRuns } from './leaving.ts'
import { NeedsYou } from './needs-you.tsx'
import { Queued } from './queued.tsx'
import { SpentToday } from './spent-today.tsx'

export function Overview() {
  const isPaused = config.value?.policy.paused === true
  const changePause = () =>
    (isPaused ? host.resumeDispatch() : host.pauseDispatch()).then(() => {}, showError)
  useActs([
    {
      id: 'pause',
      title: isPaused ? 'Resume dispatching' : 'Pause dispatching',
      group: 'Overview',
      act: changePause,
    },
  ])
  const { inProgress, queued } = totals.value
  return (
    <>
      <PageHead
        title="Overview"
        beside={
          isLoaded.value && (
            <>
              {formatCount(inProgress)} in progress, {formatCount(queued)} queued{isPaused && ', paused'}
              <SpentToday />
            </>
          )
        }
        acts={
          <>
            <Button act={changePause} busyWord={isPaused ? 'Resuming' : 'Pausing'}>
              {isPaused ? 'Resume dispatching' : 'Pause dispatching'}
            </Button>
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
  const Keys = useLaterPart(async () => {
    const [{ RowKeys }] = await Promise.all([import('./row-keys.tsx'), loadPageStyles()])
    return RowKeys
  })
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
