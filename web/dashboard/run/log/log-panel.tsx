/**
 * The log of a run: takes the room that its place gives it, follows the end, and reads older lines when a person scrolls
 * to them. Filter and search stand in the query of the address, chosen lines in its fragment.
 */
import { useSignal } from '@preact/signals'
import { useEffect, useId, useMemo } from 'preact/hooks'
import { readEvents } from '../../../../client/run-events.ts'
import { Button } from '../../../elements/button.tsx'
import { Skeleton } from '../../../elements/placeholder.tsx'
import { address, addressText, navigate } from '../../../router.ts'
import { countOf, formatCount } from '../../../text/amounts.ts'
import { connection } from '../../state/host.ts'
import { live, watchRun } from '../../state/live.ts'
import { plainText } from './clean-text.ts'
import { formatLines, lineNumber, parseLines } from './line-address.ts'
import { LogBar } from './log-bar.tsx'
import { useLogKeys } from './log-keys.ts'
import { LOG_FILTERS } from './log-model.ts'
import { LogRows } from './log-rows.tsx'
import { LogView } from './log-view.ts'

export interface LogPanelProps {
  readonly runId: string
  /** Whether the run goes on: its last phase grows. */
  readonly isRunning?: boolean
}

const ADDRESS_MS = 300

export function LogPanel({ runId, isRunning = false }: LogPanelProps) {
  const view = useMemo(() => openView(runId), [runId])
  useEffect(() => () => view.close(), [view])
  const searchId = useId()
  const announced = useSignal('')
  useLogKeys(view, searchId, (text) => {
    announced.value = plainText(text)
  })
  useQueryOfAddress(view)
  useLinesInAddress(view)
  const { isRead, failure } = view.state.value
  return (
    <section class={`card log${isRunning ? ' growing' : ''}`} role="log" aria-live="off" aria-label="Log">
      <LogBar view={view} searchId={searchId} isRunning={isRunning} />
      {failure !== undefined && (
        <p class="log-problem" role="alert">
          The log could not be read: {failure}. Trying again.
        </p>
      )}
      <OlderLines view={view} />
      {isRead ? <LogRows view={view} isRunning={isRunning} /> : <Skeleton rows={8} />}
      <LogFoot view={view} isRunning={isRunning} />
      <span class="visually-hidden" aria-live="polite">
        {announced.value}
      </span>
    </section>
  )
}

function openView(runId: string): LogView {
  const view = new LogView({
    readEvents: (range, signal) => readEvents(connection, runId, range, signal),
    watch: (onFrame) => watchRun(runId, onFrame),
  })
  const lines = parseLines(address.value.fragment)
  if (lines !== undefined) view.reveal(lines)
  return view
}

/** Filter and search are those of the address, also when a link or the way back changes it. */
function useQueryOfAddress(view: LogView): void {
  const { query, fragment } = address.value
  const [show, find] = [query.get('show'), query.get('find') ?? '']
  useEffect(() => view.setFilter(LOG_FILTERS.find((each) => each === show) ?? 'all'), [view, show])
  useEffect(() => {
    if (find !== (view.finder.search.value?.query ?? ''))
      view.finder.setQuery(find, parseLines(fragment) === undefined)
  }, [view, find])
}

/** Lines chosen by keys come into the address after a pause, because browsers limit how often it may change. */
function useLinesInAddress(view: LogView): void {
  const { fragment } = address.value
  const chosen = view.chosen.value
  useEffect(() => {
    const lines = parseLines(fragment)
    const own = view.chosen.value
    if (lines !== undefined && (own === undefined || formatLines(lines) !== formatLines(own)))
      view.reveal(lines)
  }, [fragment])
  useEffect(() => {
    const text = chosen === undefined ? undefined : formatLines(chosen)
    if (text === undefined || text === address.value.fragment) return undefined
    const timer = setTimeout(() => {
      navigate(addressText({ ...address.value, fragment: text }), { replace: true })
    }, ADDRESS_MS)
    return () => clearTimeout(timer)
  }, [chosen])
}

function OlderLines({ view }: { readonly view: LogView }) {
  const { older, isReadingOlder, isRead } = view.state.value
  if (!isRead || older === 0) return null
  const words = `${countOf(older, 'older event')} ${older === 1 ? 'is' : 'are'} not loaded.`
  return (
    <div class="log-older" aria-busy={isReadingOlder}>
      <span>{isReadingOlder ? 'Loading older lines' : words}</span>
      {view.canLoadOlder ? (
        <Button kind="link" act={() => view.loadOlder(0)}>
          Load all
        </Button>
      ) : (
        <span>The page holds {countOf(view.model.lines.count, 'line')}, its limit.</span>
      )}
    </div>
  )
}

function LogFoot({ view, isRunning }: { readonly view: LogView; readonly isRunning: boolean }) {
  void view.version.value
  const chosen = view.chosen.value
  const { lines } = view.model
  const last = lines.count === 0 ? 0 : lines.event(lines.endId - 1) + 1
  return (
    <footer class="log-foot">
      <span>
        {chosen === undefined
          ? countOf(last, 'event')
          : `Line ${lineNumber(chosen.from)} of ${formatCount(last)}`}
      </span>
      <span class="log-hints">
        <kbd>J</kbd> <kbd>K</kbd> lines <kbd>E</kbd> next error <kbd>⇧ G</kbd> end
      </span>
      <span class="log-live">
        {isRunning ? (live.value.state === 'live' ? 'Live' : 'Reconnecting') : 'Complete'}
      </span>
    </footer>
  )
}
