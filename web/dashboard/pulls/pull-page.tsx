/** A pull request: whether it can be merged, what people say, its checks, and its diff with comments on lines. */
import { useMemo, useRef } from 'preact/hooks'
import { HostRefusal } from '../../../client/errors.ts'
import type { PullDetail } from '../../../protocol/pulls.ts'
import type { Run } from '../../../protocol/run.ts'
import { Glyph, glyphWord } from '../../elements/glyph.tsx'
import { Age } from '../../elements/moments.tsx'
import { PageHead, Section } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { countOf } from '../../text/amounts.ts'
import { shortenMiddle } from '../../text/shorten.ts'
import { runAddress } from '../addresses.ts'
import { Diff } from '../diff/diff.tsx'
import type { DiffFile } from '../diff/diff-rows.ts'
import { DiffState } from '../diff/diff-state.ts'
import { Markdown } from '../markdown/markdown.tsx'
import type { PageProps } from '../pages.ts'
import { factsOf } from '../runs/run-acts.ts'
import { whyNot } from '../runs/run-rules.ts'
import { host } from '../state/host.ts'
import { runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { Conversation } from './conversation.tsx'
import { PullActs } from './pull-acts.tsx'
import { PullPanel } from './pull-panel.tsx'
import { ReviewBar } from './review-bar.tsx'
import { Thread } from './thread.tsx'

const NOT_FOUND = 404
const BRANCH_CHARS_MAX = 44

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
  if (error instanceof HostRefusal && error.status === NOT_FOUND)
    return (
      <>
        <PageHead title="No such pull request" />
        <Empty
          title={`${repo} #${text} is not there`}
          button={
            <a class="button" href="/pulls?state=all">
              Show all pull requests
            </a>
          }
        >
          {error.message}
        </Empty>
      </>
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
  const { repo, number, files, conversation, body } = pull
  const state = useMemo(() => new DiffState(`${pull.remote}#${number}`, localStorage), [pull.remote, number])
  const opener = useRef<((file: DiffFile) => void) | undefined>(undefined)
  return (
    <>
      <nav class="crumbs" aria-label="Where this is">
        <a href="/pulls">Pull requests</a> / <a href={`/pulls?repo=${encodeURIComponent(repo)}`}>{repo}</a> /{' '}
        <span class="mono">#{number}</span>
      </nav>
      <PageHead
        title={pull.title}
        beside={
          <span class="run-state">
            <Glyph name={pull.state} /> {glyphWord(pull.state)}
          </span>
        }
        acts={<PullActs {...open} />}
      />
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
      <div class="with-aside">
        <div>
          {body.trim() !== '' && (
            <details class="card padded pull-body" open>
              <summary>Description</summary>
              <Markdown text={body} />
            </details>
          )}
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
        <PullPanel pull={pull} state={state} showFile={(file) => opener.current?.(file)} reload={reload} />
      </div>
    </>
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
