/** All runs, the newest first, with filters in the address, groups of equal failures, and acts on marked runs. */
import { computed, type ReadonlySignal, signal, useComputed, useSignal } from '@preact/signals'
import { hasEnded } from '../../../client/run-events.ts'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import type { RunSummary } from '../../../protocol/run-query.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { Age, now, Span } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { rowHeight, useNarrow } from '../../elements/use-narrow.ts'
import { VirtualRows } from '../../elements/virtual-rows.tsx'
import { address, changeQuery } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { midnightBefore } from '../../text/days.ts'
import { runAddress } from '../addresses.ts'
import { type AskedList, type Keyed, useAskedList, useListed } from '../state/asked-list.ts'
import { totals } from '../state/current-totals.ts'
import { FOR_ROWS, host } from '../state/host.ts'
import { addRuns } from '../state/read-missing-runs.ts'
import { config, runs } from '../state/records.ts'
import { BulkBar } from './bulk-bar.tsx'
import { listActs } from './list-acts.ts'
import { runActs } from './run-acts.ts'
import { RunFilters } from './run-filters.tsx'
import { RunOutcome } from './run-outcome.tsx'
import { type AskedRuns, askedOf, isReadable, type ListedRuns, shownRuns, withFirstPage } from './run-rows.ts'
import { mark, marked, toggleMark, unmarkAll } from './selection.ts'

const NARROW = 720
const NARROW_ROW = 60
const GROUPS_SHOWN = 4

export function RunsPage() {
  const list = useAskedRuns()
  const { asked, isListed, count } = list
  const shown = list.shown.value
  const chosen = useSignal<ChosenRow | undefined>(undefined)
  const isNarrow = useNarrow(NARROW)
  const at = chosen.value === undefined ? undefined : rowOf(chosen.value, shown)
  const chosenRun = at === undefined ? undefined : shown[at]
  const choose = (run: Run | undefined): void => {
    chosen.value = run === undefined ? undefined : { id: run.id, at: shown.indexOf(run) }
  }
  useActs([
    ...listActs({ shown: () => shown, chosen: chosenRun, choose }),
    ...(chosenRun === undefined ? [] : Object.values(runActs(chosenRun))),
  ])
  return (
    <>
      <PageHead title="Runs" beside={count !== undefined && countOf(count, 'run')} />
      <RunFilters asked={asked} summary={list.summary} />
      {asked.words.failure === undefined && <Failures summary={list.summary} />}
      {list.error !== undefined && <Failure error={list.error} retry={list.retry} />}
      {!isListed && list.error === undefined && shown.length === 0 && <Skeleton rows={10} />}
      {isListed && shown.length === 0 && <NoRuns isFiltered={isFiltered(asked)} />}
      {shown.length > 0 && (
        <div class="card run-list" aria-busy={!isListed}>
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
            version={list.version}
            onEnd={list.readMore}
          />
        </div>
      )}
      <BulkBar />
    </>
  )
}

const isFiltered = ({ words }: AskedRuns): boolean => Object.keys(words).length > 0

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
      link={{
        to: isFiltered ? '/runs' : '/tickets',
        text: isFiltered ? 'Show all runs' : 'Go to the tickets',
      }}
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

/** A run as a row of a list: its mark, its state, its ticket, what came of it, its age and its cost. */
function RunLine({ run, isChosen }: { readonly run: Run; readonly isChosen: boolean }) {
  const { id, ticket, status, sandbox } = run
  // Every status of a run is a glyph of the same name.
  const glyph = status as StateGlyph
  return (
    <div class={`run-line${isChosen ? ' chosen' : ''}`} role="presentation">
      <span role="cell" class="run-mark">
        <input
          type="checkbox"
          aria-label={`Mark ${ticket.identifier}`}
          checked={marked.value.has(id)}
          onChange={() => toggleMark(id)}
        />
      </span>
      <span role="cell" class="run-word">
        <Glyph name={glyph} /> <span class="word">{glyphWord(glyph)}</span>
      </span>
      <span role="cell" class="mono faint ellipsis">
        {ticket.identifier}
      </span>
      <span role="cell" class="run-title ellipsis">
        <a class="line-link" href={runAddress(id)} title={ticket.title}>
          {ticket.title}
        </a>
      </span>
      <span role="cell" class="run-outcome ellipsis">
        <RunOutcome run={run} />
      </span>
      <span role="cell" class="run-repo quiet ellipsis">
        {ticket.repo}
      </span>
      <span role="cell" class="run-worker mono ellipsis">
        {sandbox.workerName}
      </span>
      <span role="cell" class="run-length number quiet">
        <Span from={run.startedAt} to={run.finishedAt ?? (hasEnded(run) ? run.startedAt : undefined)} />
      </span>
      <span role="cell" class="number">
        {formatMoney(run.costTotals)}
      </span>
      <span role="cell" class="run-age number faint">
        <Age since={run.createdAt} />
      </span>
    </div>
  )
}

const PAGE = 50

interface AskedRunList extends AskedList<RunSummary> {
  readonly asked: AskedRuns
  readonly shown: ReadonlySignal<readonly Run[]>
}

const answer = signal<Keyed<ListedRuns> | undefined>(undefined)

const today = computed(() => midnightBefore(now.value, 0))

/**
 * Reads the runs that the address asks for: a page, the next one when somebody comes to its end, and their summary.
 *
 * Runs that are pushed meanwhile join by themselves while the newest stand first: that list is derived from the records.
 */
function useAskedRuns(): AskedRunList {
  const asked = useComputed(() => askedOf(address.value.query, today.value))
  const key = useComputed(() => JSON.stringify(asked.value))
  const listed = useListed(key, answer)
  const shown = useComputed(() =>
    config.value === undefined || answer.value === undefined
      ? []
      : shownRuns(runs.value, asked.value, listed.value, config.value),
  )
  const { queued, inProgress, finishedToday } = totals.value
  const list = useAskedList<ListedRuns, RunSummary>({
    key,
    answer,
    listed,
    rows: shown,
    listVersion: '',
    summaryVersion: `${queued} ${inProgress} ${finishedToday}`,
    isTyped: () => asked.peek().words.q !== undefined,
    async readFirst(signal) {
      const page = await readPage(asked.peek(), [], signal)
      return withFirstPage(listed.peek(), page)
    },
    async readNext(known) {
      const { ids, isComplete } = await readPage(asked.peek(), known.ids)
      return { ids: [...new Set([...known.ids, ...ids])], isComplete }
    },
    mayReadNext: (known) => isReadable(asked.peek().sort, known),
    readSummary: (signal) => host.summarizeRuns(asked.peek().filter, { signal }),
  })
  return { ...list, asked: asked.value, shown }
}

async function readPage(
  { filter, sort }: AskedRuns,
  before: readonly string[],
  signal?: AbortSignal,
): Promise<ListedRuns> {
  const known = runs.peek()
  const last = before.at(-1)
  const place =
    sort !== 'newest'
      ? { sort, ...(before.length === 0 ? {} : { skip: before.length }) }
      : last === undefined
        ? {}
        : { before: last }
  const page = await host.listRuns(
    { ...FOR_ROWS, ...filter, ...place, limit: PAGE },
    signal === undefined ? {} : { signal },
  )
  addRuns(page, known)
  return { ids: page.map(({ id }) => id), isComplete: page.length < PAGE }
}
