/** The pull requests of every configured repository, those that wait for a review first. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { PullListResponse, PullSummary } from '../../../protocol/pulls.ts'
import type { Run } from '../../../protocol/run.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Segments } from '../../elements/field.tsx'
import { Glyph, glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { Age } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { useNarrow } from '../../elements/use-narrow.ts'
import { address, changeQuery, navigate } from '../../router.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { capitalized } from '../../text/sentences.ts'
import { pullAddress, runAddress, settingAddress } from '../addresses.ts'
import { Changes } from '../diff/changes.tsx'
import { SearchFilter, stepActs, ValueFilter } from '../list-filters.tsx'
import { hostWords } from '../overview/queue-groups.ts'
import { host } from '../state/host.ts'
import { attention, config, runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'

const GROUP = 'Pull requests'
const STATES = [
  ['', 'Open'],
  ['all', 'All'],
  ['merged', 'Merged'],
  ['closed', 'Closed'],
] as const

export function PullsPage() {
  // A change of a run's pull request is news for the list.
  const version = [...runs.value.values()].map(({ prState }) => prState?.charAt(0) ?? '').join('')
  const { data, error, isLoading, reload } = useRequest(version, (signal) => host.listPulls({}, { signal }))
  const chosen = useSignal<number | undefined>(undefined)
  const { query } = address.value
  const shown = filterPulls(data?.pulls ?? [], query)
  const at = chosen.value === undefined ? undefined : Math.min(chosen.value, shown.length - 1)
  const pull = at === undefined ? undefined : shown[at]
  useActs([
    ...stepActs({
      group: GROUP,
      noun: 'pull request',
      count: shown.length,
      at,
      choose: (next) => {
        chosen.value = next
      },
    }),
    { id: 'read pulls', title: 'Ask the code host again', group: GROUP, act: reload },
    ...(pull === undefined
      ? []
      : [
          {
            id: 'open pull',
            title: `Open #${pull.number}`,
            group: GROUP,
            keys: 'Enter',
            act: () => navigate(pullAddress(pull.repo, pull.number)),
          },
        ]),
  ])
  return (
    <>
      <PageHead
        title="Pull requests"
        beside={data !== undefined && countOf(shown.length, 'pull request')}
        acts={
          <Button act={reload} unavailable={isLoading ? 'The code host is being asked.' : undefined}>
            Refresh
          </Button>
        }
      />
      <Filters pulls={data?.pulls ?? []} />
      {data !== undefined && <Unreadable errors={data.errors} />}
      {error !== undefined && (isConnected() ? <Failure error={error} retry={reload} /> : <NoCodeHost />)}
      {data === undefined && error === undefined && <Skeleton rows={8} />}
      {data !== undefined && shown.length === 0 && <NoPulls hasAny={data.pulls.length > 0} />}
      {shown.length > 0 && <PullTable pulls={shown} chosen={pull} />}
    </>
  )
}

function isConnected(): boolean {
  const codehost = config.value?.codehost
  return codehost === undefined || codehost.driver === 'local' || (codehost.token ?? '') !== ''
}

const NoCodeHost = () => (
  <Empty
    title="No code host is connected"
    link={{ to: '/connect#codehost', text: 'Connect the code host', isPrimary: true }}
  >
    Branches are pushed and pull requests are opened there.
  </Empty>
)

function filterPulls(pulls: readonly PullSummary[], query: URLSearchParams): PullSummary[] {
  const state = query.get('state') ?? ''
  const repo = query.get('repo')
  const words = (query.get('text') ?? '').toLowerCase()
  const fits = (pull: PullSummary) =>
    (state === 'all' ||
      (state === '' ? pull.state === 'open' || pull.state === 'draft' : pull.state === state)) &&
    (repo === null || pull.repo === repo) &&
    `${pull.number} ${pull.title} ${pull.headBranch} ${pull.author}`.toLowerCase().includes(words)
  return pulls.filter(fits).sort((a, b) => rankOf(a) - rankOf(b) || (a.updatedAt > b.updatedAt ? -1 : 1))
}

/** A pull request that needs a person is first. */
function rankOf(pull: PullSummary): number {
  if (needOf(pull) !== undefined) return 0
  return pull.state === 'open' ? 1 : pull.state === 'draft' ? 2 : 3
}

function Filters({ pulls }: { readonly pulls: readonly PullSummary[] }) {
  const { query } = address.value
  const repos = [...new Set(pulls.map(({ repo }) => repo))].sort()
  return (
    <div class="filters">
      <Segments
        label="State"
        value={STATES.find(([value]) => value === (query.get('state') ?? ''))?.[0] ?? ''}
        options={STATES}
        choose={(state) => changeQuery({ state })}
      />
      <SearchFilter
        label="Search the pull requests"
        group={GROUP}
        name="text"
        value={query.get('text') ?? undefined}
      />
      <ValueFilter
        name="repo"
        label="Repository"
        all="Every repository"
        values={repos}
        chosen={query.get('repo') ?? undefined}
      />
    </div>
  )
}

function Unreadable({ errors }: Pick<PullListResponse, 'errors'>) {
  return (
    <>
      {errors.map(({ repo, remote, message }) => (
        <div class="banner" role="note" key={repo}>
          <Glyph name="needs-you" />
          <span>
            <strong>{remote} can't be read.</strong> {hostWords(message)}{' '}
            <a href={settingAddress('repos')}>Change the repository</a>
          </span>
        </div>
      ))}
    </>
  )
}

function NoPulls({ hasAny }: { readonly hasAny: boolean }) {
  return (
    <Empty
      title={hasAny ? 'No pull request fits the filters' : 'There is no pull request yet'}
      button={
        hasAny ? (
          <a class="button" href="/pulls?state=all">
            Show all
          </a>
        ) : undefined
      }
    >
      {!hasAny && 'A run opens one when its agent has changed something.'}
    </Empty>
  )
}

// ---- the table -----------------------------------------------------------------------------------------------------

/** Below it a row has lines instead of columns. */
const COLUMNS_WIDTH_MIN = 1024

interface PullTableProps {
  readonly pulls: readonly PullSummary[]
  readonly chosen: PullSummary | undefined
}

const needOf = (pull: PullSummary) =>
  attention.value.find((item) => item.pull?.repo === pull.repo && item.pull.number === pull.number)

/**
 * The table of pull requests: what each needs, its checks, size, comments and author. A fact that the code host did not
 * tell is a dash, never a zero.
 *
 * Where the columns do not fit, a row has the same facts in lines below its title.
 */
function PullTable({ pulls, chosen }: PullTableProps) {
  const isNarrow = useNarrow(COLUMNS_WIDTH_MIN)
  const byUrl = new Map<string, Run>()
  for (const run of runs.value.values()) if (run.prUrl !== undefined) byUrl.set(run.prUrl, run)
  const Row = isNarrow ? LinesRow : ColumnsRow
  return (
    <table class="card rows pull-table" aria-label="Pull requests">
      <thead>
        <tr>
          {isNarrow ? (
            <>
              <th class="glyph-cell">
                <span class="visually-hidden">State</span>
              </th>
              <th>Pull request</th>
            </>
          ) : (
            <Heads />
          )}
        </tr>
      </thead>
      <tbody>
        {pulls.map((pull) => (
          <tr key={`${pull.repo}#${pull.number}`} class={pull === chosen ? 'chosen' : ''}>
            <Row pull={pull} run={byUrl.get(pull.url)} />
          </tr>
        ))}
      </tbody>
    </table>
  )
}

const Heads = () => (
  <>
    <th class="pull-state-cell">State</th>
    <th class="pull-name-cell">Number</th>
    <th>Title</th>
    <th class="pull-checks-cell">Checks</th>
    <th class="pull-size-cell">Size</th>
    <th class="pull-comments-cell number">Comments</th>
    <th class="pull-author-cell">Author</th>
    <th class="pull-run-cell">Run</th>
    <th class="pull-age-cell number">Changed</th>
  </>
)

interface PullRowProps {
  readonly pull: PullSummary
  /** The run that opened it, where this host knows one. */
  readonly run: Run | undefined
}

function ColumnsRow({ pull, run }: PullRowProps) {
  const { repo, number, author, commentCount, updatedAt } = pull
  return (
    <>
      <td>
        <span class="pull-glyph">
          <Glyph name={glyphOf(pull)} /> {glyphWord(pull.state)}
        </span>
      </td>
      <td class="mono faint ellipsis" title={`${repo} #${number}`}>
        {repo} #{number}
      </td>
      <td class="ellipsis">
        <Title pull={pull} />
        <Need pull={pull} />
      </td>
      <td>
        <Checks state={pull.checksState} />
      </td>
      <td class="ellipsis">
        <Size pull={pull} />
      </td>
      <td class="number">{commentCount === undefined ? <Unknown /> : formatCount(commentCount)}</td>
      <td class="ellipsis quiet" title={author}>
        {author}
      </td>
      <td class="ellipsis">
        {run !== undefined && <a href={runAddress(run.id)}>{run.ticket.identifier}</a>}
      </td>
      <td class="number faint">
        <Age since={updatedAt} />
      </td>
    </>
  )
}

function LinesRow({ pull, run }: PullRowProps) {
  const { repo, number, author, commentCount, updatedAt, checksState } = pull
  return (
    <>
      <td class="glyph-cell">
        <Glyph name={glyphOf(pull)} />
      </td>
      <td class="pull-lines">
        <Title pull={pull} />
        <Need pull={pull} />
        <Facts>
          <span>{glyphWord(pull.state)}</span>
          <span class="faint">
            {repo} #{number}
          </span>
          {checksState !== undefined && <Checks state={checksState} noun="checks" />}
          {pull.changedFiles !== undefined && <Size pull={pull} />}
          {commentCount !== undefined && <span class="quiet">{countOf(commentCount, 'comment')}</span>}
          <span class="quiet">{author}</span>
          {run !== undefined && <a href={runAddress(run.id)}>{run.ticket.identifier}</a>}
          <span class="faint">
            <Age since={updatedAt} /> ago
          </span>
        </Facts>
      </td>
    </>
  )
}

const Facts = ({ children }: { readonly children: ComponentChildren }) => (
  <div class="pull-facts">{children}</div>
)

type OfPull = Pick<PullRowProps, 'pull'>

function Title({ pull: { repo, number, title, headBranch } }: OfPull) {
  return (
    <a class="pull-title" href={pullAddress(repo, number)} title={`${title}\n${headBranch}`}>
      {title}
    </a>
  )
}

/** The act that waits for a person, where there is one. */
function Need({ pull }: OfPull) {
  const need = needOf(pull)
  if (need === undefined) return null
  return (
    <div class="tone-warn ellipsis" title={need.message}>
      {hostWords(need.message)}
    </div>
  )
}

const glyphOf = (pull: PullSummary) => (needOf(pull)?.kind === 'conflict' ? 'conflict' : pull.state)

function Size({ pull: { additions, deletions, changedFiles } }: OfPull) {
  if (additions === undefined || deletions === undefined || changedFiles === undefined) return <Unknown />
  return (
    <span>
      <Changes additions={additions} deletions={deletions} />{' '}
      <span class="faint">{countOf(changedFiles, 'file')}</span>
    </span>
  )
}

const CHECKS: Readonly<
  Record<NonNullable<PullSummary['checksState']>, readonly [glyph: StateGlyph | undefined, word: string]>
> = {
  passed: ['completed', 'Passed'],
  failed: ['failed', 'Failed'],
  running: ['running', 'Running'],
  none: [undefined, 'None'],
}

/** @param noun follows the word where no head of a column says it */
function Checks({ state, noun }: { readonly state: PullSummary['checksState']; readonly noun?: string }) {
  if (state === undefined) return <Unknown />
  const [glyph, word] = CHECKS[state]
  const tone = state === 'failed' ? 'tone-bad' : glyph === undefined ? 'faint' : 'quiet'
  const words =
    noun === undefined ? word : glyph === undefined ? `No ${noun}` : `${noun} ${word.toLowerCase()}`
  return (
    <span class={`pull-glyph ${tone}`}>
      {glyph !== undefined && <Glyph name={glyph} />}
      {capitalized(words)}
    </span>
  )
}

const Unknown = () => (
  <span class="faint" title="The code host did not tell it">
    –
  </span>
)
