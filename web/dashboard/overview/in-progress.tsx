/** Runs in progress, the oldest first: one line a run, with its phase on a scale that all of them share. */
import { type ReadonlySignal, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import { glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { now } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { formatCount } from '../../text/amounts.ts'
import { formatDuration } from '../../text/times.ts'
import { runAddress } from '../addresses.ts'
import { chosenClass } from '../runs/selection.ts'
import { host } from '../state/host.ts'
import { live } from '../state/live.ts'
import { runs, workers } from '../state/records.ts'
import { isInProgress, type LeavingRuns } from './leaving.ts'
import { phaseScale } from './phase-scale.ts'
import { RowGlyph } from './row-glyph.tsx'

const startOf = (run: Run): string => run.startedAt ?? run.createdAt
const endOf = ({ finishedAt }: Run): number => (finishedAt === undefined ? now.value : Date.parse(finishedAt))
const lengthOf = (run: Run): number => Math.max(0, endOf(run) - Date.parse(startOf(run)))

export function InProgress({ leaving }: { readonly leaving: LeavingRuns }) {
  const shown = [...runs.value.values()]
    .filter((run) => isInProgress(run) || leaving.ids.value.has(run.id))
    .sort((a, b) => (startOf(a) < startOf(b) ? -1 : 1))
  const lines = useLastLines(shown.map(({ id }) => id))
  if (shown.length === 0)
    return (
      <Section title="In progress">
        <p class="quiet">Nothing runs now.</p>
      </Section>
    )
  const scale = phaseScale(shown.map((run) => lengthOf(run)))
  return (
    <Section title="In progress" count={formatCount(shown.length)} aside="Oldest first">
      <div class="card progress-table" role="table" aria-label="Runs in progress">
        <div class="progress-row head" role="row">
          {HEADS.map((head) => (
            <span key={head} role="columnheader">
              {head === '' ? <span class="visually-hidden">State</span> : head}
            </span>
          ))}
        </div>
        {shown.map((run) => (
          <ProgressRow key={run.id} run={run} scale={scale} line={lines.value.get(run.id)} />
        ))}
      </div>
    </Section>
  )
}

const HEADS = ['', 'Ticket', '', 'Last line', 'Repository', 'Worker', 'Phase and age', 'Cost'] as const

interface ProgressRowProps {
  readonly run: Run
  readonly scale: number
  readonly line: string | undefined
}

function ProgressRow({ run, scale, line = '' }: ProgressRowProps) {
  const { ticket, status, sandbox } = run
  const worker = workers.value.find(({ id }) => id === sandbox.workerId)
  const isOffline = worker?.connection === 'offline'
  // The statuses of runs are glyphs of the same name.
  const glyph = isOffline ? 'offline' : (status as StateGlyph)
  const age = lengthOf(run)
  return (
    <div class={`progress-row${chosenClass(run.id)}`} role="row" data-run={run.id}>
      <span role="cell">
        <RowGlyph run={run} name={glyph} />
      </span>
      <span role="cell" class="mono faint ellipsis">
        {ticket.identifier}
      </span>
      <span role="cell" class="row-title ellipsis">
        <a class="row-link" href={runAddress(run.id)} title={ticket.title}>
          {ticket.title}
        </a>
      </span>
      <span role="cell" class="last-line ellipsis" title={line}>
        {line}
      </span>
      <span role="cell" class="repo ellipsis">
        {ticket.repo}
      </span>
      <span role="cell" class={`worker ellipsis${isOffline ? ' tone-warn' : ''}`}>
        {worker?.name ?? sandbox.workerName}
      </span>
      <span role="cell" class="phase">
        <span class={isOffline ? 'tone-warn' : ''}>{isOffline ? 'Worker offline' : glyphWord(glyph)}</span>
        <span class="faint">{formatDuration(age)}</span>
        <PhaseBar share={age / scale} status={status} />
      </span>
      <span role="cell" class="number">
        {formatMoney(run.costTotals)}
      </span>
    </div>
  )
}

/** Drawn as attributes of SVG, since the page's policy forbids styles of its own. */
function PhaseBar({ share, status }: { readonly share: number; readonly status: string }) {
  return (
    <svg class="phase-bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rest" width="100" height="4" rx="2" />
      <rect class={status} width={Math.max(1, Math.min(100, 100 * share))} height="4" rx="2" />
    </svg>
  )
}

const EVERY_MS = 2_000
/** Events that are no line stand between the last lines. */
const EVENTS_READ = 5
/** More rows than fit on a screen. */
const RUNS_MAX = 24

const lines = signal<ReadonlyMap<string, string>>(new Map())

/**
 * The last line of each run, read again and again while somebody looks. The dashboard socket could push all lines of
 * all runs: thousands of lines a second would come for one line a row.
 *
 * @param runIds in the order of the rows
 */
function useLastLines(runIds: readonly string[]): ReadonlySignal<ReadonlyMap<string, string>> {
  const key = runIds.slice(0, RUNS_MAX).join(' ')
  useEffect(() => {
    const asked = key.split(' ').filter(Boolean)
    let isOver = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const read = async (): Promise<void> => {
      if (!document.hidden && live.value.state === 'live') await readLines(asked).catch(ignore)
      if (!isOver) timer = setTimeout(() => void read(), EVERY_MS)
    }
    void read()
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [key])
  return lines
}

/** Rows have no line when the part that finds it could not be loaded. */
const ignore = (): void => {}

async function readLines(runIds: readonly string[]): Promise<void> {
  // The first picture does without.
  const { newestLine } = await import('../../../client/newest-line.ts')
  const found = await Promise.all(
    runIds.map(async (id) => {
      const events = await host.readRunEvents({ id, tail: EVENTS_READ }).catch(() => [])
      return [id, newestLine(events)] as const
    }),
  )
  const changed = new Map(lines.value)
  for (const [id, line] of found) if (line !== undefined) changed.set(id, line)
  lines.value = changed
}
