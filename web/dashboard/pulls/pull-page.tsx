/** A pull request: whether it can be merged, what people say, its checks, and its diff with comments on lines. */

import { useMemo, useRef } from 'preact/hooks'
import { HostRefusal } from '../../../client/errors.ts'
import { type CheckOutcome, outcomeOfCheck } from '../../../protocol/pull-concerns.ts'
import type { PullCheck, PullDetail } from '../../../protocol/pulls.ts'
import type { Run } from '../../../protocol/run.ts'
import { shortenMiddle } from '../../../protocol/shorten.ts'
import { Button } from '../../elements/button.tsx'
import { Glyph, glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { Age } from '../../elements/moments.tsx'
import { PageHead, Section } from '../../elements/page-head.tsx'
import { Failure, isNotFound, NotFound, Skeleton } from '../../elements/placeholder.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { useNarrow } from '../../elements/use-narrow.ts'
import { countOf } from '../../text/amounts.ts'
import { runAddress } from '../addresses.ts'
import { Diff } from '../diff/diff.tsx'
import type { DiffFile } from '../diff/diff-rows.ts'
import { DiffState } from '../diff/diff-state.ts'
import { Markdown } from '../markdown/markdown.tsx'
import type { PageProps } from '../pages.ts'
import { plainText, showTurningMarks } from '../run/log/clean-text.ts'
import { PanelPart } from '../run/panel-part.tsx'
import { factsOf } from '../runs/run-acts.ts'
import { whyNot } from '../runs/run-rules.ts'
import { host } from '../state/host.ts'
import { runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { checksSummary, sortedChecks, whyNotMerge } from './check-words.ts'
import { Conversation, Thread } from './conversation.tsx'
import { PullActs, ReviewBar } from './pull-acts.tsx'

const BRANCH_CHARS_MAX = 44
/** A narrower window has one column, in which the checks come before the diff. */
const PHONE_WIDTH_MAX = 720

/** A pull request that is shown, for every part of the page. */
export interface OpenPull {
  readonly pull: PullDetail
  /** The run whose pull request it is, while the page knows one. */
  readonly run: Run | undefined
  readonly reload: () => void
}

export function PullPage({ params: { repo = '', number: text = '' } }: PageProps) {
  const number = Number(text)
  const run = runOf(repo, number)
  const { data, error, reload } = useRequest(`${repo} ${number} ${run?.prState} ${run?.status}`, (signal) =>
    host.readPull({ repo, number }, { signal }),
  )
  if (data !== undefined)
    return (
      <>
        {error !== undefined && <Failure error={error} retry={reload} />}
        <LoadedPull pull={data} run={run} reload={reload} />
      </>
    )
  if (error === undefined) return <Skeleton rows={10} />
  if (error instanceof HostRefusal && isNotFound(error))
    return (
      <NotFound
        noun="pull request"
        title={`${repo} #${text} is not there`}
        link={{ to: '/pulls?state=all', text: 'Show all pull requests' }}
      >
        {error.message}
      </NotFound>
    )
  return <Failure error={error} retry={reload} />
}

/** The newest run of a pull request. */
function runOf(repo: string, number: number): Run | undefined {
  return [...runs.value.values()].findLast(
    ({ pull, ticket }) => pull?.number === number && (ticket.repo === repo || pull.remote === repo),
  )
}

function LoadedPull(open: OpenPull) {
  const { pull, run, reload } = open
  const { number, files, conversation, body } = pull
  const state = useMemo(() => new DiffState(`${pull.remote}#${number}`), [pull.remote, number])
  const isPhone = useNarrow(PHONE_WIDTH_MAX)
  const opener = useRef<((file: DiffFile) => void) | undefined>(undefined)
  const panel = (part: PullPanelProps['part']) => (
    <PullPanel
      pull={pull}
      state={state}
      showFile={(file) => opener.current?.(file)}
      reload={reload}
      part={part}
    />
  )
  return (
    <>
      <Crumbs {...open} />
      <PageHead
        title={pull.title}
        beside={
          <span class="run-state">
            <Glyph name={pull.state} /> {glyphWord(pull.state)}
          </span>
        }
        acts={<PullActs {...open} />}
      />
      <Origin {...open} />
      <div class="with-aside">
        {isPhone && panel('state')}
        <div>
          <Description text={body} />
          <Section
            title="Changes"
            count={`${countOf(pull.changedFiles, 'file')}, +${pull.additions} −${pull.deletions}`}
          >
            <ReviewBar open={open} state={state} />
            {files.length === 0 ? (
              <p class="quiet">Nothing differs from the base branch.</p>
            ) : (
              <Diff
                state={state}
                files={files}
                threads={conversation.threads}
                drawThread={(thread, isOutdated) => (
                  <Thread open={open} thread={thread} isOutdated={isOutdated} />
                )}
                linkOf={() => pull.url}
                opener={opener}
                reviewUnavailable={
                  pull.state === 'merged' || pull.state === 'closed' ? `It is ${pull.state}.` : undefined
                }
                sendUnavailable={
                  run === undefined ? 'No run of this host made it.' : whyNot('followup', run, factsOf(run))
                }
                sendToAgent={(instructions) => sendToAgent(run, instructions)}
              />
            )}
          </Section>
          <Conversation open={open} />
        </div>
        {panel(isPhone ? 'contents' : 'all')}
      </div>
    </>
  )
}

const Description = ({ text }: { readonly text: string }) =>
  text.trim() === '' ? null : (
    <details class="card padded pull-body" open>
      <summary>Description</summary>
      <Markdown text={text} />
    </details>
  )

const Crumbs = ({ pull: { repo, number } }: OpenPull) => (
  <nav class="crumbs" aria-label="Where this is">
    <a href="/pulls">Pull requests</a> / <a href={`/pulls?repo=${encodeURIComponent(repo)}`}>{repo}</a> /{' '}
    <span class="mono">#{number}</span>
  </nav>
)

function Origin({ pull, run }: OpenPull) {
  return (
    <p class="quiet pull-facts">
      {pull.author} wants{' '}
      <code title={pull.headBranch}>{shortenMiddle(pull.headBranch, BRANCH_CHARS_MAX)}</code> in{' '}
      <code>{pull.baseBranch}</code>, opened <Age since={pull.createdAt} /> ago.{' '}
      {run !== undefined && (
        <>
          By <a href={runAddress(run.id)}>{run.ticket.identifier}</a>.{' '}
        </>
      )}
      <a href={pull.url} rel="noreferrer">
        At the code host
      </a>
    </p>
  )
}

async function sendToAgent(run: Run | undefined, instructions: string): Promise<void> {
  if (run === undefined) return
  await host.followUpRun({ id: run.id, body: { instructions } })
  showOutcome(`The follow-up to ${run.ticket.identifier} is queued.`, {
    to: runAddress(run.id),
    text: 'Show the run',
  })
}

// ---- the panel -----------------------------------------------------------------------------------------------------

const PATH_CHARS_MAX = 34
const COMMITS_SHOWN = 10

const CHECK_GLYPHS: Readonly<Record<CheckOutcome, StateGlyph>> = {
  passed: 'completed',
  failed: 'failed',
  running: 'running',
  skipped: 'cancelled',
}

interface PullPanelProps {
  readonly pull: PullDetail
  readonly state: DiffState
  readonly showFile: (file: PullDetail['files'][number]) => void
  readonly reload: () => void
  /** A phone has a part before the diff and a part after it. */
  readonly part: 'all' | 'state' | 'contents'
}

const LABELS = {
  all: 'About the pull request',
  state: 'Merging and checks',
  contents: 'Files and commits',
} as const

/** The panel beside a pull request: merging, checks, files, commits. */
function PullPanel(props: PullPanelProps) {
  const { part } = props
  return (
    <aside class="card run-panel" aria-label={LABELS[part]}>
      {part !== 'contents' && <PullStatus {...props} />}
      {part !== 'state' && <PullContents {...props} />}
    </aside>
  )
}

function PullStatus({ pull, reload }: PullPanelProps) {
  const reason = whyNotMerge(pull)
  const checks = sortedChecks(pull.checks)
  const firstFailed = checks.find(({ report }) => report !== undefined)
  return (
    <>
      <PanelPart title="Merging">
        <p class="quiet">{reason ?? 'Nothing is known against it.'}</p>
      </PanelPart>
      <PanelPart title="Checks" count={pull.checks.length}>
        <p class="quiet">{checksSummary(pull.checks)}.</p>
        {pull.checksLookupFailed === true && (
          <p class="tone-warn">
            Some checks could not be read.{' '}
            <Button kind="link" act={reload}>
              Ask again
            </Button>
          </p>
        )}
        <ul class="check-list">
          {checks.map((check) => (
            <li key={`${check.source} ${check.name}`}>
              <Glyph name={CHECK_GLYPHS[outcomeOfCheck(check)]} alone label={outcomeOfCheck(check)} />
              {check.url === undefined ? (
                <span class="ellipsis">{check.name}</span>
              ) : (
                <a class="ellipsis" href={check.url} rel="noreferrer">
                  {check.name}
                </a>
              )}
              <span class="faint">{wordOf(check)}</span>
              {check.report !== undefined && (
                <details open={check === firstFailed}>
                  <summary>What it reported</summary>
                  {/* A person scrolls it by keys too. */}
                  <pre class="check-report" tabIndex={0} aria-label={`Report of ${check.name}`}>
                    {plainText(check.report)}
                  </pre>
                </details>
              )}
            </li>
          ))}
        </ul>
      </PanelPart>
    </>
  )
}

/** The list of pull requests has the same words. */
const WORDS: Readonly<Record<string, string>> = {
  success: 'passed',
  failure: 'failed',
  in_progress: 'running',
}

function wordOf({ status, conclusion = status }: PullCheck): string {
  return WORDS[conclusion] ?? conclusion.replaceAll('_', ' ')
}

function PullContents({ pull, state, showFile }: PullPanelProps) {
  return (
    <>
      <PanelPart title="Files" count={pull.changedFiles}>
        <ul class="file-list">
          {pull.files.map((file) => (
            <li key={file.path}>
              <Button kind="link" label={`Show ${showTurningMarks(file.path)}`} act={() => showFile(file)}>
                <span class={state.isViewed(file) ? 'faint' : ''}>
                  {shortenMiddle(showTurningMarks(file.path), PATH_CHARS_MAX)}
                </span>
              </Button>
              <span class="tone-good">+{file.additions}</span>
              <span class="tone-bad">−{file.deletions}</span>
            </li>
          ))}
        </ul>
      </PanelPart>
      <PanelPart title="Commits" count={pull.commits.length}>
        <ul class="commit-list">
          {pull.commits.slice(-COMMITS_SHOWN).map(({ sha, message, committedAt }) => (
            <li key={sha}>
              <code class="faint">{sha.slice(0, 7)}</code>{' '}
              <span title={message}>{message.split('\n')[0]}</span>{' '}
              <span class="faint">
                <Age since={committedAt} />
              </span>
            </li>
          ))}
        </ul>
      </PanelPart>
    </>
  )
}
