/**
 * The log of a run: takes the room that its place gives it, follows the end, and reads older lines when a person scrolls
 * to them. Filter and search stand in the query of the address, chosen lines in its fragment.
 */
import { useSignal } from '@preact/signals'
import { useEffect, useId, useMemo, useRef } from 'preact/hooks'
import { readEvents } from '../../../../client/run-events.ts'
import { useActs } from '../../../elements/acts.ts'
import { Button } from '../../../elements/button.tsx'
import { Segments } from '../../../elements/field.tsx'
import { Glyph, Icon } from '../../../elements/glyph.tsx'
import { Skeleton } from '../../../elements/placeholder.tsx'
import { showOutcome } from '../../../elements/toasts.ts'
import { address, addressText, changeQuery, navigate } from '../../../router.ts'
import { countOf, formatCount } from '../../../text/amounts.ts'
import { connection } from '../../state/host.ts'
import { live, watchRun } from '../../state/live.ts'
import { plainText } from './clean-text.ts'
import { LOG_FILTERS, type LogFilter } from './log-model.ts'
import { LogRows } from './log-rows.tsx'
import { formatLines, LogView, lineNumber, parseLines } from './log-view.ts'

export interface LogPanelProps {
  readonly runId: string
  /** Whether the run goes on: its last phase grows. */
  readonly isRunning?: boolean
  /** The page says this error already, so the end of the run does not repeat it. */
  readonly knownError?: string | undefined
}

const ADDRESS_MS = 300

export function LogPanel({ runId, isRunning = false, knownError }: LogPanelProps) {
  const view = useMemo(() => openView(runId), [runId])
  useEffect(() => () => view.close(), [view])
  const searchId = useId()
  const announced = useSignal('')
  useLogKeys(view, searchId, (text) => {
    announced.value = plainText(text)
  })
  useQueryOfAddress(view)
  useLinesInAddress(view)
  const { isRead } = view.state.value
  return (
    <section class={`card log${isRunning ? ' growing' : ''}`} role="log" aria-live="off" aria-label="Log">
      <LogBar view={view} searchId={searchId} isRunning={isRunning} />
      <LogProblem view={view} />
      <OlderLines view={view} />
      {isRead ? <LogRows view={view} isRunning={isRunning} knownError={knownError} /> : <Skeleton rows={8} />}
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

export function LogProblem({ view }: { readonly view: LogView }) {
  const { failure } = view.state.value
  return failure === undefined ? null : (
    <p class="log-problem" role="alert">
      The log could not be read: {failure}. Trying again.
    </p>
  )
}

export const WrapButton = ({ view }: { readonly view: LogView }) => (
  <Button kind="plain-quiet" pressed={view.isWrapping.value} act={() => toggleWrapping(view)}>
    Wrap
  </Button>
)

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

// ---- keys ----------------------------------------------------------------------------------------------------------

/** @param announce is read out by a screen reader */
function useLogKeys(view: LogView, searchId: string, announce: (text: string) => void): void {
  const group = 'Log'
  const stepError = (step: 1 | -1): void => {
    if (!view.stepError(step)) showOutcome(step === 1 ? 'No error follows.' : 'No error comes before.')
  }
  useActs([
    {
      id: 'log-search',
      title: 'Search the log',
      group,
      keys: '/',
      act: () => document.getElementById(searchId)?.focus(),
    },
    { id: 'log-next-line', title: 'Next line', group, keys: 'j', act: () => view.stepLine(1) },
    { id: 'log-previous-line', title: 'Previous line', group, keys: 'k', act: () => view.stepLine(-1) },
    { id: 'log-next-error', title: 'Next error', group, keys: 'e', act: () => stepError(1) },
    { id: 'log-previous-error', title: 'Previous error', group, keys: 'Shift e', act: () => stepError(-1) },
    {
      id: 'log-follow',
      title: 'Follow the end of the log',
      group,
      keys: 'Shift g',
      act: () => view.follow(),
    },
    { id: 'log-fold', title: 'Fold repeated lines', group, keys: 'z', act: () => view.toggleFolding() },
    { id: 'log-wrap', title: 'Wrap long lines', group, keys: 'w', act: () => toggleWrapping(view) },
    {
      id: 'log-read-last',
      title: 'Read the last line',
      group,
      keys: 'Shift l',
      act: () => {
        const { lines, rowCount } = view.model
        announce(rowCount === 0 ? 'The log is empty.' : lines.text(view.model.lineOf(rowCount - 1)))
      },
    },
    {
      id: 'log-copy',
      title: 'Copy the chosen lines',
      group,
      unavailable: view.chosen.value === undefined ? 'Choose lines by their numbers first.' : undefined,
      act: async () => {
        await navigator.clipboard.writeText(view.chosenText())
        showOutcome('The lines are copied.')
      },
    },
  ])
}

// ---- the bar -------------------------------------------------------------------------------------------------------

const FILTERS: readonly (readonly [LogFilter, string])[] = [
  ['all', 'All'],
  ['agent', 'Agent'],
  ['output', 'Output'],
  ['system', 'System'],
]

interface LogBarProps {
  readonly view: LogView
  readonly searchId: string
  /** A log that does not grow is not followed. */
  readonly isRunning: boolean
}

/** The bar above the log: search, filter, first error, repeats, wrapping, following. */
function LogBar({ view, searchId, isRunning }: LogBarProps) {
  void view.version.value
  const { model } = view
  return (
    <div class="log-bar">
      <SearchField view={view} id={searchId} />
      <Segments
        label="Lines to show"
        value={model.filter}
        options={FILTERS}
        choose={(filter) => changeQuery({ show: filter === 'all' ? undefined : filter })}
      />
      {(model.errorCount > 0 || view.state.value.older > 0) && (
        <Button kind="plain-quiet" act={() => showFirstError(view)}>
          <Glyph name="failed" /> First error
        </Button>
      )}
      <span class="log-toggles">
        <WrapButton view={view} />
        <Button kind="plain-quiet" pressed={model.isFolding} act={() => view.toggleFolding()}>
          Fold repeats
        </Button>
        {isRunning && (
          <Button pressed={view.isFollowing.value} act={() => toggleFollowing(view)}>
            Following
          </Button>
        )}
      </span>
    </div>
  )
}

async function showFirstError(view: LogView): Promise<void> {
  if (!(await view.showFirstError())) showOutcome('No line of the log is an error.')
}

function toggleWrapping(view: LogView): void {
  view.isWrapping.value = !view.isWrapping.value
}

function toggleFollowing(view: LogView): void {
  if (view.isFollowing.value) view.isFollowing.value = false
  else view.follow()
}

function SearchField({ view, id }: { readonly view: LogView; readonly id: string }) {
  const field = useRef<HTMLInputElement>(null)
  void view.version.value
  void view.finder.version.value
  const search = view.finder.search.value
  const found = search?.matches.length ?? 0

  function onKeyDown(event: KeyboardEvent): void {
    if (event.key === 'Escape') {
      view.finder.setQuery('')
      changeQuery({ find: undefined })
      field.current?.blur()
    } else if (event.key === 'Enter') view.finder.step(event.shiftKey ? -1 : 1)
    else return
    event.preventDefault()
  }

  function onInput(query: string): void {
    view.finder.setQuery(query)
    changeQuery({ find: query })
  }

  return (
    <span class="log-search">
      <Icon name="search" />
      <input
        id={id}
        ref={field}
        type="search"
        aria-label="Search the log"
        placeholder={`Search ${countOf(view.model.lines.count, 'line')}`}
        value={search?.query ?? ''}
        onInput={(event) => onInput(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {search === undefined ? (
        <kbd>/</kbd>
      ) : (
        <span class="faint log-found" role="status">
          {found === 0
            ? search.isDone
              ? 'no match'
              : 'searching'
            : `${formatCount(view.finder.position.value + 1)} of ${formatCount(found)}`}
        </span>
      )}
    </span>
  )
}
