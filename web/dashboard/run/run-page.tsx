/** The page of a run: what it does, how it got there, what it says, what it costs, and what can be done with it. */
import { useEffect, useRef } from 'preact/hooks'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { type Act, useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, type StateGlyph } from '../../elements/glyph.tsx'
import { Moment, now, Span } from '../../elements/moments.tsx'
import { Failure, isNotFound, NotFound, Skeleton } from '../../elements/placeholder.tsx'
import { address, navigate } from '../../router.ts'
import { formatInstant } from '../../text/times.ts'
import { runAddress, ticketAddress } from '../addresses.ts'
import { curePlace } from '../gates/cure-places.ts'
import { GateList } from '../gates/gate-list.tsx'
import { openInspector, whyNoActor } from '../open-inspector.ts'
import { type Blocker, blockersOf } from '../overview/blocker-words.tsx'
import { groupHead, ownReason, type QueueCure, waitWords } from '../overview/queue-groups.ts'
import { explanationOf, GroupCure } from '../overview/queued.tsx'
import type { PageProps } from '../pages.ts'
import { factsOf, runActs } from '../runs/run-acts.ts'
import { whyNot } from '../runs/run-rules.ts'
import { host } from '../state/host.ts'
import { loadRun } from '../state/read-missing-runs.ts'
import { runs, workers } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { plainText } from './log/clean-text.ts'
import { EventReader } from './log/lines-of-events.ts'
import type { NewLine } from './log/log-lines.ts'
import { LogPanel } from './log/log-panel.tsx'
import { formatLines } from './log/log-view.ts'
import { RunDiff, useChanges } from './run-diff.tsx'
import { RunHead, type RunView, whyNoDiff } from './run-head.tsx'
import { SidePanel } from './side-panel.tsx'
import { nextPublishAt } from './timeline.ts'
import { TimelineBars } from './timeline-bars.tsx'

export function RunPage({ params: { id = '' } }: PageProps) {
  const run = runs.value.get(id)
  // A run that ended long ago is not among the records; asking also refreshes its pull request.
  const loaded = useRequest(id, () => loadRun(id))
  if (run !== undefined) return <LoadedRun run={run} />
  if (loaded.error === undefined) return <Skeleton rows={8} />
  if (isNotFound(loaded.error)) return <NoRun id={id} />
  return <Failure error={loaded.error} retry={loaded.reload} />
}

function NoRun({ id }: { readonly id: string }) {
  return (
    <NotFound noun="run" title={`The host knows no run ${id}`} link={{ to: '/runs', text: 'Show all runs' }}>
      Runs are kept until somebody deletes the data of the host, so the link may be that of another host.
    </NotFound>
  )
}

function viewOf(query: URLSearchParams): RunView {
  if (query.has('terminal')) return 'terminal'
  return query.has('diff') ? 'diff' : 'log'
}

function LoadedRun({ run }: { readonly run: Run }) {
  const acts = runActs(run)
  const changes = useChanges(run.id)
  const isQueued = run.status === 'queued'
  // The first words of a run come after its queue.
  const hasLog = !isQueued || changes.changes.some(({ to }) => to !== 'queued')
  const timeline = hasLog && <TimelineBars run={run} changes={changes} />
  const view = viewOf(address.value.query)
  const show = (next: RunView) => navigate(runAddress(run.id) + (next === 'log' ? '' : `?${next}=1`))
  useActs([...Object.values(acts), ...viewActs(run, view, show)])
  return (
    <>
      <nav class="crumbs" aria-label="Where this is">
        <a href="/runs">Runs</a>
        {run.ticket.repo !== undefined && (
          <>
            {' / '}
            <a href={`/runs?repo=${encodeURIComponent(run.ticket.repo)}`}>{run.ticket.repo}</a>
          </>
        )}
        {' / '}
        <span class="mono">{run.ticket.identifier}</span>
      </nav>
      <RunHead run={run} acts={acts} view={view} show={show} />
      {run.error !== undefined && <RunError run={run} />}
      {!isQueued && timeline}
      {view === 'diff' ? (
        <RunDiff run={run} />
      ) : (
        <div class="run-columns">
          {view === 'terminal' ? (
            <TerminalFrame run={run} />
          ) : (
            <div class="run-main">
              {isQueued && <Waiting run={run} />}
              {isQueued && timeline}
              {hasLog && <LogPanel runId={run.id} isRunning={!hasEnded(run)} knownError={run.error} />}
            </div>
          )}
          <SidePanel run={run} />
        </div>
      )}
    </>
  )
}

const VIEWS = 'This run'

const viewActs = (run: Run, view: RunView, show: (next: RunView) => void): Act[] => [
  {
    id: 'diff',
    title: 'Show the diff',
    group: VIEWS,
    keys: 'd',
    unavailable: whyNoDiff(run),
    act: () => show('diff'),
  },
  { id: 'log', title: 'Show the log', group: VIEWS, act: () => show('log') },
  {
    id: 'inspect',
    title: 'Open the inspector at this run',
    group: VIEWS,
    keys: 'i',
    unavailable: whyNoActor(run),
    act: () => openInspector(`run/${run.id}`),
  },
  {
    id: 'back',
    title: 'Back to the runs',
    group: VIEWS,
    keys: 'Escape',
    act: () => (view === 'log' ? navigate('/runs') : show('log')),
  },
]

// ---- the error -----------------------------------------------------------------------------------------------------

const EVENTS_READ = 100
const LINES_SHOWN = 8
const PRINTED: ReadonlySet<NewLine['kind']> = new Set(['output', 'error-output', 'tool-output'])

/** The error of a run, with the last lines that were printed before it. */
function RunError({ run }: { readonly run: Run }) {
  const { id, error = '' } = run
  const { data = [] } = useRequest(`error ${id} ${run.finishedAt}`, (signal) =>
    host.readRunEvents({ id, tail: EVENTS_READ }, { signal }),
  )
  const lines = linesBefore(data, error)
  const [first, last] = [lines[0], lines.at(-1)]
  return (
    <section class="card run-error" aria-label="Error">
      <p>
        <Glyph name="failed" /> <code>{error}</code>
      </p>
      {first !== undefined && last !== undefined && (
        <>
          <pre class="run-error-lines" tabIndex={0} aria-label="The last lines before it">
            {lines.map(({ text }) => plainText(text)).join('\n')}
          </pre>
          <a href={`${runAddress(id)}#${formatLines({ from: first, to: last })}`}>Show in the log</a>
        </>
      )}
    </section>
  )
}

/** The last lines of the attempt that ended, without those that the error quotes. */
function linesBefore(events: readonly RunEvent[], error: string): NewLine[] {
  const start = events.findLastIndex((event) => event.type === 'status' && event.to === 'preparing')
  const attempt = events.slice(Math.max(0, start))
  const range = { from: attempt[0]?.index ?? 0, to: (attempt.at(-1)?.index ?? -1) + 1 }
  return new EventReader()
    .lines(attempt, range)
    .filter(({ kind, text }) => {
      const words = plainText(text).trim()
      return PRINTED.has(kind) && words !== '' && !error.includes(words)
    })
    .slice(-LINES_SHOWN)
}

// ---- the terminal --------------------------------------------------------------------------------------------------

/**
 * The terminal of a run, in a frame: its document is the only one whose library may write styles.
 *
 * Every key belongs to the terminal while it has the focus.
 */
function TerminalFrame({ run }: { readonly run: Run }) {
  const reason = whyNot('attach', run, factsOf(run))
  const worker = workers.value.find(({ id }) => id === run.sandbox.workerId)
  const open = worker?.attachSessions ?? 0
  const wasOpen = useRef(worker?.attachedRuns?.includes(run.id) === true)
  useEffect(() => {
    const onMessage = ({ origin, data }: MessageEvent) => {
      if (origin === location.origin && data === 'leave terminal') navigate(runAddress(run.id))
    }
    addEventListener('message', onMessage)
    return () => removeEventListener('message', onMessage)
  }, [run.id])
  if (reason !== undefined)
    return (
      <div class="card empty">
        <strong>The terminal cannot be opened</strong>
        <p>{reason}</p>
      </div>
    )
  return (
    <section class="card terminal-panel" aria-label="Terminal">
      <div class="terminal-bar">
        <strong>Terminal</strong>
        <span class="quiet">
          {wasOpen.current ? 'Somebody had it open before you, and may type too. ' : ''}
          {open > 1 ? `${open} terminals are open on ${worker?.name}. ` : ''}The sandbox is released soon
          after everybody has left.
        </span>
        <Button small act={() => navigate(runAddress(run.id))}>
          Leave
        </Button>
      </div>
      <iframe
        class="terminal-frame"
        title={`Terminal of ${run.ticket.identifier}`}
        src={`/terminal.html?run=${encodeURIComponent(run.id)}`}
      />
    </section>
  )
}

// ---- waiting -------------------------------------------------------------------------------------------------------

/** The reason of a queued run, as the first and largest part of its page, with its moment and its cure. */
function Waiting({ run }: { readonly run: Run }) {
  const { data } = useRequest(`explain ${run.id} ${run.queueReason}`, (signal) =>
    host.explainRun({ id: run.id }, { signal }),
  )
  const head = groupHead(run)
  const blockers = blockersOf(run, runs.value.values())
  const nextAt = nextPublishAt(run)
  const closed = nextAt === undefined ? (data?.gates ?? []).filter(({ status }) => status !== 'pass') : []
  const cure = head.cure ?? firstCure(closed)
  // A gate that only repeats the reason, or the list of blockers above it, adds nothing.
  const others = closed
    .filter(({ id, message }) => message !== run.queueReason && (id !== 'blockers' || blockers.length === 0))
    .map(({ cure: own, ...gate }) =>
      isSamePlace(own, cure) || own === undefined ? gate : { ...gate, cure: own },
    )
  return (
    <section class="card run-wait" aria-label="What it waits for">
      <p class="faint">What it waits for</p>
      <h2>{blockers.length > 0 ? waitWords(run) : head.fact}</h2>
      <p class="quiet">
        {explanationOf(head)}
        {/* The group's name leaves out what only this run has. */}
        {blockers.length === 0 && head.until === undefined && ownReason(run) !== undefined && waitWords(run)}
      </p>
      {nextAt !== undefined && (
        <p class="quiet">It is published again at {formatInstant(nextAt, now.value)}, or by “Publish now”.</p>
      )}
      {blockers.length > 0 && (
        <ul class="wait-blockers">
          {blockers.map((blocker) => (
            <BlockerLine key={blocker.name} blocker={blocker} />
          ))}
        </ul>
      )}
      <p class="faint">
        Queued since <Moment at={run.queuedAt ?? run.createdAt} />,{' '}
        <Span from={run.queuedAt ?? run.createdAt} />.
      </p>
      {cure !== undefined && (
        <p class="wait-cure">
          <GroupCure cure={cure} isButton />
        </p>
      )}
      {others.length > 0 && <GateList gates={others} />}
    </section>
  )
}

function BlockerLine({ blocker: { name, run, situation } }: { readonly blocker: Blocker }) {
  return (
    <li>
      {/* Every status of a run is a glyph of the same name. */}
      {run !== undefined && <Glyph name={run.status as StateGlyph} />}{' '}
      <a href={run === undefined ? ticketAddress(name) : runAddress(run.id)}>{name}</a>
      {situation === undefined ? '' : ` ${situation}`}
      {run !== undefined && <span class="quiet"> {run.ticket.title}</span>}
      {run?.error !== undefined && <code class="tone-bad">{run.error}</code>}
    </li>
  )
}

const firstCure = (gates: readonly { readonly cure?: string }[]): QueueCure | undefined => {
  for (const { cure } of gates) {
    const place = cure === undefined ? undefined : curePlace(cure)
    if (place !== undefined) return place
  }
  return undefined
}

const isSamePlace = (gateCure: string | undefined, cure: QueueCure | undefined): boolean =>
  gateCure !== undefined && cure !== undefined && curePlace(gateCure)?.to === cure.to
