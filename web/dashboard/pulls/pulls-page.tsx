/** The pull requests of every configured repository, those that wait for a review first. */
import { useSignal } from '@preact/signals'
import type { PullListResponse, PullSummary } from '../../../protocol/pulls.ts'
import type { Run } from '../../../protocol/run.ts'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { FilterSelect } from '../../elements/field.tsx'
import { Glyph, glyphWord } from '../../elements/glyph.tsx'
import { Age } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { Segments } from '../../elements/segments.tsx'
import { address, changeQuery, navigate } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { shortenMiddle } from '../../text/shorten.ts'
import { pullAddress, runAddress, settingAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { attention, runs } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'

const GROUP = 'Pull requests'
const BRANCH_CHARS_MAX = 36
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
  const step = (by: number) => {
    chosen.value = Math.max(0, Math.min(shown.length - 1, at === undefined ? 0 : at + by))
  }
  const pull = at === undefined ? undefined : shown[at]
  useActs([
    { id: 'next pull', title: 'Next pull request', group: GROUP, keys: 'j', act: () => step(1) },
    { id: 'previous pull', title: 'Previous pull request', group: GROUP, keys: 'k', act: () => step(-1) },
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
      {error !== undefined && <Failure error={error} retry={reload} />}
      {data === undefined && error === undefined && <Skeleton rows={8} />}
      {data !== undefined && shown.length === 0 && <NoPulls hasAny={data.pulls.length > 0} />}
      {shown.length > 0 && <PullTable pulls={shown} chosen={pull} />}
    </>
  )
}

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
  if (needs(pull) !== undefined) return 0
  return pull.state === 'open' ? 1 : pull.state === 'draft' ? 2 : 3
}

const needs = (pull: PullSummary) =>
  attention.value.find((item) => item.pull?.repo === pull.repo && item.pull.number === pull.number)

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
      <input
        class="input"
        type="search"
        aria-label="Search the pull requests"
        placeholder="Search"
        value={query.get('text') ?? ''}
        onInput={(event) => changeQuery({ text: event.currentTarget.value })}
      />
      <FilterSelect
        label="Repository"
        value={query.get('repo') ?? ''}
        change={(repo) => changeQuery({ repo })}
        options={[['', 'Every repository'], ...repos.map((repo) => [repo, repo] as const)]}
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
            <strong>{remote} can't be read.</strong> {message}{' '}
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

interface PullTableProps {
  readonly pulls: readonly PullSummary[]
  readonly chosen: PullSummary | undefined
}

function PullTable({ pulls, chosen }: PullTableProps) {
  const byUrl = new Map<string, Run>()
  for (const run of runs.value.values()) if (run.prUrl !== undefined) byUrl.set(run.prUrl, run)
  return (
    <table class="card rows pull-table" aria-label="Pull requests">
      <thead>
        <tr>
          <th class="glyph-cell">
            <span class="visually-hidden">State</span>
          </th>
          <th class="id-cell">Number</th>
          <th>Title</th>
          <th class="outcome-cell">What it needs</th>
          <th class="wide-cell">Repository</th>
          <th class="wide-cell">Run</th>
          <th class="number age-cell">Changed</th>
        </tr>
      </thead>
      <tbody>
        {pulls.map((pull) => (
          <PullRow
            key={`${pull.repo}#${pull.number}`}
            pull={pull}
            run={byUrl.get(pull.url)}
            isChosen={pull === chosen}
          />
        ))}
      </tbody>
    </table>
  )
}

interface PullRowProps {
  readonly pull: PullSummary
  readonly run: Run | undefined
  readonly isChosen: boolean
}

function PullRow({ pull, run, isChosen }: PullRowProps) {
  const { repo, number, title, state, headBranch, author, updatedAt } = pull
  const need = needs(pull)
  return (
    <tr class={isChosen ? 'chosen' : ''}>
      <td class="glyph-cell">
        <Glyph name={need?.kind === 'conflict' ? 'conflict' : state} alone />
      </td>
      <td class="mono faint">#{number}</td>
      <td class="ellipsis">
        <a class="pull-title" href={pullAddress(repo, number)} title={title}>
          {title}
        </a>{' '}
        <code class="faint" title={headBranch}>
          {shortenMiddle(headBranch, BRANCH_CHARS_MAX)}
        </code>
        <div class="pull-need ellipsis">
          <span class="faint">
            {repo} #{number}
          </span>{' '}
          <span class={need === undefined ? 'quiet' : 'tone-warn'}>{need?.message ?? glyphWord(state)}</span>
        </div>
      </td>
      <td class={`outcome-cell ellipsis ${need === undefined ? 'quiet' : 'tone-warn'}`}>
        {need?.message ?? glyphWord(state)}
      </td>
      <td class="wide-cell quiet ellipsis">{repo}</td>
      <td class="wide-cell ellipsis">
        {run === undefined ? (
          <span class="faint">{author}</span>
        ) : (
          <a href={runAddress(run.id)}>{run.ticket.identifier}</a>
        )}
      </td>
      <td class="number age-cell faint">
        <Age since={updatedAt} />
      </td>
    </tr>
  )
}
