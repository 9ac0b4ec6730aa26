/** The overview: what needs a person first, then what runs, what waits and why, and what has ended. */
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { now } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Skeleton } from '../../elements/placeholder.tsx'
import { showError } from '../../elements/toasts.ts'
import { formatCount } from '../../text/amounts.ts'
import { startRun } from '../shell/start-run.ts'
import { totals } from '../state/current-totals.ts'
import { host } from '../state/host.ts'
import { config, isLoaded, runs, tracker } from '../state/records.ts'
import { eligibleSentence, pollSentence } from '../tracker-words.ts'
import { RecentlyFinished } from './finished.tsx'
import { FlowDrawing } from './flow-drawing.tsx'
import { InProgress } from './in-progress.tsx'
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
          <>
            {formatCount(inProgress)} in progress, {formatCount(queued)} queued{isPaused && ', paused'}
            <SpentToday />
          </>
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
  if (runs.value.size === 0) return <NoRuns />
  return (
    <>
      <FlowDrawing />
      <NeedsYou />
      <InProgress />
      <Queued />
      <RecentlyFinished />
    </>
  )
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
