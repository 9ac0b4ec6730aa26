/** The bar above the log: search, filter, first error, repeats, wrapping, following. */
import { useRef } from 'preact/hooks'
import { Button } from '../../../elements/button.tsx'
import { Glyph } from '../../../elements/glyph.tsx'
import { Icon } from '../../../elements/icon.tsx'
import { Segments } from '../../../elements/segments.tsx'
import { showOutcome } from '../../../elements/toasts.ts'
import { changeQuery } from '../../../router.ts'
import { countOf, formatCount } from '../../../text/amounts.ts'
import type { LogFilter } from './log-model.ts'
import type { LogView } from './log-view.ts'

const FILTERS: readonly (readonly [LogFilter, string])[] = [
  ['all', 'All'],
  ['agent', 'Agent'],
  ['output', 'Output'],
  ['system', 'System'],
]

export interface LogBarProps {
  readonly view: LogView
  readonly searchId: string
  /** A log that does not grow is not followed. */
  readonly isRunning: boolean
}

export function LogBar({ view, searchId, isRunning }: LogBarProps) {
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
        <Button kind="plain-quiet" pressed={view.isWrapping.value} act={() => toggleWrapping(view)}>
          Wrap
        </Button>
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

export function toggleWrapping(view: LogView): void {
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
