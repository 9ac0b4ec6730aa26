/** The page of a run: what it does, how it got there, what it says, what it costs, and what can be done with it. */

import { HostRefusal } from '../../../client/errors.ts'
import { hasEnded, hasUnpublishedWork } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { Span } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { address, navigate } from '../../router.ts'
import { runAddress } from '../addresses.ts'
import { openInspector } from '../open-inspector.ts'
import type { PageProps } from '../pages.ts'
import { type RunActs, runActs } from '../runs/run-acts.ts'
import { loadRun } from '../state/add-runs.ts'
import { runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { LogPanel } from './log/log-panel.tsx'
import { RunDiff } from './run-diff.tsx'
import { RunFacts } from './run-facts.tsx'
import { SidePanel } from './side-panel.tsx'
import { TerminalFrame } from './terminal-frame.tsx'
import { TimelineBars } from './timeline-bars.tsx'
import { useChanges } from './use-changes.ts'

const NOT_FOUND = 404

export function RunPage({ params: { id = '' } }: PageProps) {
  const run = runs.value.get(id)
  // A run that ended long ago is not among those that the socket brings; asking also refreshes its pull request.
  const loaded = useRequest(id, () => loadRun(id))
  if (run !== undefined) return <LoadedRun run={run} />
  if (loaded.error === undefined) return <Skeleton rows={8} />
  if (loaded.error instanceof HostRefusal && loaded.error.status === NOT_FOUND) return <NoRun id={id} />
  return <Failure error={loaded.error} retry={loaded.reload} />
}

function NoRun({ id }: { readonly id: string }) {
  return (
    <>
      <PageHead title="No such run" />
      <Empty
        title={`The host knows no run ${id}`}
        button={
          <a class="button" href="/runs">
            Show all runs
          </a>
        }
      >
        Runs are kept until somebody deletes the data of the host, so the link may be that of another host.
      </Empty>
    </>
  )
}

type RunView = 'log' | 'diff' | 'terminal'

function viewOf(query: URLSearchParams): RunView {
  if (query.has('terminal')) return 'terminal'
  return query.has('diff') ? 'diff' : 'log'
}

function LoadedRun({ run }: { readonly run: Run }) {
  const acts = runActs(run)
  const changes = useChanges(run.id)
  const view = viewOf(address.value.query)
  const show = (next: RunView) => navigate(runAddress(run.id) + (next === 'log' ? '' : `?${next}=1`))
  useActs([
    ...Object.values(acts),
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
      act: () => openInspector(`run/${run.id}`),
    },
    {
      id: 'back',
      title: 'Back to the runs',
      group: VIEWS,
      keys: 'Escape',
      act: () => (view === 'log' ? navigate('/runs') : show('log')),
    },
  ])
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
      {run.error !== undefined && (
        <div class="card run-error" role="note">
          <Glyph name="failed" /> <code>{run.error}</code>
        </div>
      )}
      <TimelineBars run={run} changes={changes} />
      {view === 'diff' ? (
        <RunDiff run={run} />
      ) : (
        <div class="run-columns">
          {view === 'terminal' ? (
            <TerminalFrame run={run} />
          ) : (
            <LogPanel runId={run.id} isRunning={!hasEnded(run)} />
          )}
          <SidePanel run={run} />
        </div>
      )}
    </>
  )
}

const VIEWS = 'This run'

const whyNoDiff = ({ prUrl }: Run): string | undefined =>
  prUrl === undefined ? 'The run has no pull request, so there is no diff to show.' : undefined

interface RunHeadProps {
  readonly run: Run
  readonly acts: RunActs
  readonly view: RunView
  readonly show: (view: RunView) => void
}

function RunHead({ run, acts, view, show }: RunHeadProps) {
  const { status, ticket } = run
  // Every status of a run is a glyph of the same name.
  const glyph = status as StateGlyph
  return (
    <div class="run-head">
      <PageHead
        title={ticket.title}
        beside={
          <span class="run-state">
            <Glyph name={glyph} /> {glyphWord(glyph)}{' '}
            <Span from={run.startedAt ?? run.createdAt} to={run.finishedAt} />
          </span>
        }
        acts={
          <>
            {view !== 'log' && <Button act={() => show('log')}>Show log</Button>}
            <ActButton act={acts.attach} words="Open terminal" />
            <Button act={() => show('diff')} unavailable={whyNoDiff(run)} pressed={view === 'diff'}>
              Open diff
            </Button>
            {hasUnpublishedWork(run) && (hasEnded(run) || run.status === 'queued') && (
              <>
                {run.foundKeys === undefined ? (
                  <ActButton act={acts.publish} words="Publish now" />
                ) : (
                  <ActButton act={acts.publishAnyway} words="Publish anyway…" isDestructive />
                )}
                <ActButton act={acts.retry} words="Ask the agent again…" />
              </>
            )}
            {hasEnded(run) ? (
              <>
                <ActButton act={acts.followup} words="Send follow-up…" />
                {!hasUnpublishedWork(run) && <ActButton act={acts.retry} words="Retry…" />}
                {acts.release.unavailable === undefined && (
                  <ActButton act={acts.release} words="Release sandbox" />
                )}
                {acts.discard.unavailable === undefined && (
                  <ActButton act={acts.discard} words="Discard sandbox…" isDestructive />
                )}
              </>
            ) : (
              <ActButton act={acts.cancel} words="Cancel run…" isDestructive />
            )}
          </>
        }
      />
      <RunFacts run={run} />
      <p class="faint run-reasons">{reasons(run, acts)}</p>
    </div>
  )
}

interface ActButtonProps {
  readonly act: RunActs['retry']
  readonly words: string
  readonly isDestructive?: boolean
}

function ActButton({ act, words, isDestructive = false }: ActButtonProps) {
  return (
    <Button kind={isDestructive ? 'destructive' : 'plain'} unavailable={act.unavailable} act={act.act}>
      {words}
    </Button>
  )
}

/** The reasons for the buttons that are not available, each once. */
function reasons(run: Run, acts: RunActs): string {
  const shown = hasEnded(run) ? [acts.attach, acts.followup, acts.retry] : [acts.attach]
  return [...new Set(shown.flatMap(({ unavailable }) => unavailable ?? []))].join(' ')
}
