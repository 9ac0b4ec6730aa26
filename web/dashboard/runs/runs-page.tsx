/** All runs, the newest first, with filters in the address, groups of equal failures, and acts on marked runs. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { Run } from '../../../protocol/run.ts'
import type { RunSummary } from '../../../protocol/run-query.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { rowHeight } from '../../elements/row-height.ts'
import { useNarrow } from '../../elements/use-narrow.ts'
import { VirtualRows } from '../../elements/virtual-rows.tsx'
import { changeQuery } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { useAskedList } from './asked-list.ts'
import { BulkBar } from './bulk-bar.tsx'
import { listActs } from './list-acts.ts'
import { RunFilters } from './run-filters.tsx'
import { RunLine } from './run-line.tsx'
import type { AskedRuns } from './run-rows.ts'
import { mark, marked, unmarkAll } from './selection.ts'

const NARROW = 720
const NARROW_ROW = 60
const GROUPS_SHOWN = 4

export function RunsPage() {
  const list = useAskedList()
  const { asked, listed, count } = list
  const shown = list.shown.value
  const chosen = useSignal<ChosenRow | undefined>(undefined)
  const search = useRef<HTMLInputElement>(null)
  const isNarrow = useNarrow(NARROW)
  const at = chosen.value === undefined ? undefined : rowOf(chosen.value, shown)
  const choose = (run: Run | undefined): void => {
    chosen.value = run === undefined ? undefined : { id: run.id, at: shown.indexOf(run) }
  }
  useActs([
    ...listActs({ shown: () => shown, chosen: at === undefined ? undefined : shown[at], choose }),
    {
      id: 'search runs',
      title: 'Search the runs',
      group: GROUP,
      keys: '/',
      act: () => search.current?.focus(),
    },
  ])
  return (
    <>
      <PageHead title="Runs" beside={count !== undefined && countOf(count, 'run')} />
      <RunFilters asked={asked} summary={list.summary} search={search} />
      {asked.words.failure === undefined && <Failures summary={list.summary} />}
      {list.error !== undefined && <Failure error={list.error} retry={list.retry} />}
      {listed === undefined && list.error === undefined && shown.length === 0 && <Skeleton rows={10} />}
      {listed !== undefined && shown.length === 0 && <NoRuns isFiltered={isFiltered(asked)} />}
      {shown.length > 0 && (
        <div class="card run-list" aria-busy={listed === undefined}>
          <RunHeads shown={shown} />
          <VirtualRows
            class="run-rows"
            offsetName="runs"
            label={count === undefined ? 'Runs' : countOf(count, 'run')}
            count={shown.length}
            total={count}
            height={isNarrow ? NARROW_ROW : rowHeight()}
            keyOf={(index) => shown[index]?.id ?? index}
            shown={at}
            row={(index) => {
              const run = shown[index]
              return run === undefined ? null : <RunLine run={run} isChosen={index === at} />
            }}
            onEnd={list.readMore}
          />
        </div>
      )}
      <BulkBar />
    </>
  )
}

const isFiltered = ({ words }: AskedRuns): boolean => Object.keys(words).length > 0

const GROUP = 'Runs'

interface ChosenRow {
  readonly id: string
  readonly at: number
}

/** New runs move the chosen one; when it goes, the row in its place is the chosen one. */
function rowOf({ id, at }: ChosenRow, shown: readonly Run[]): number {
  const found = shown.findIndex((run) => run.id === id)
  return found < 0 ? Math.min(at, shown.length - 1) : found
}

/** Equal failures are one line, with all their runs behind it. */
function Failures({ summary }: { readonly summary: RunSummary | undefined }) {
  const groups = summary?.failures.slice(0, GROUPS_SHOWN) ?? []
  if (groups.length === 0) return null
  return (
    <ul class="card failure-groups" aria-label="Equal failures">
      {groups.map(({ failure, error, count }) => (
        <li key={failure}>
          <strong>{countOf(count, 'run')}</strong> <code class="ellipsis">{error}</code>
          <Button kind="link" act={() => changeQuery({ failure, status: 'failed' })}>
            Show them
          </Button>
        </li>
      ))}
    </ul>
  )
}

function NoRuns({ isFiltered }: { readonly isFiltered: boolean }) {
  return (
    <Empty
      title={isFiltered ? 'No run fits the filters' : 'There is no run yet'}
      button={
        <a class="button" href={isFiltered ? '/runs' : '/tickets'}>
          {isFiltered ? 'Show all runs' : 'Go to the tickets'}
        </a>
      }
    >
      {isFiltered
        ? 'All runs of the host were searched.'
        : 'A run begins when a ticket becomes eligible, or when a person starts one.'}
    </Empty>
  )
}

/** The rows are a table for themselves, since only some of them are in the document. */
function RunHeads({ shown }: { readonly shown: readonly Run[] }) {
  const areAllMarked = shown.length > 0 && shown.every(({ id }) => marked.value.has(id))
  return (
    <div class="run-line run-heads">
      <input
        type="checkbox"
        aria-label="Mark all runs of the list"
        checked={areAllMarked}
        onChange={() => (areAllMarked ? unmarkAll() : mark(shown.map(({ id }) => id)))}
      />
      <span>State</span>
      <span>Ticket</span>
      <span>Title</span>
      <span class="run-outcome">Outcome</span>
      <span class="run-repo">Repository</span>
      <span class="run-worker">Worker</span>
      <span class="run-length number">Took</span>
      <span class="number">Cost</span>
      <span class="run-age number">Age</span>
    </div>
  )
}
