/** The facts that runs have learnt about repositories: found by words, forgotten one by one or all at once. */
import { useSignal } from '@preact/signals'
import type { MemoriesResponse, RepoMemory } from '../../../protocol/run.ts'
import { Button } from '../../elements/button.tsx'
import { askBefore } from '../../elements/dialog.tsx'
import { Age } from '../../elements/moments.tsx'
import { PageHead, Section } from '../../elements/page-head.tsx'
import { Empty, Failure, Skeleton } from '../../elements/placeholder.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { address, changeQuery } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { ticketAddress } from '../addresses.ts'
import { SearchFilter, ValueFilter } from '../list-filters.tsx'
import { totals } from '../state/current-totals.ts'
import { host } from '../state/host.ts'
import { useRequest } from '../state/use-request.ts'
import { filterMemories, type RepoFacts } from './memory-list.ts'

type Repos = MemoriesResponse['repos']

export function MemoriesPage() {
  // Runs record facts when they end, and no frame tells of it.
  const read = useRequest(`memories ${totals.value.finishedToday}`, (signal) =>
    host.listMemories({}, { signal }),
  )
  const changed = useSignal<{ readonly since: unknown; readonly repos: Repos } | undefined>(undefined)
  // The answer to a change is newer than what was read before it.
  const repos = changed.value?.since === read.data ? changed.value?.repos : read.data?.repos
  const apply = (answer: MemoriesResponse): void => {
    changed.value = { since: read.data, repos: answer.repos }
  }
  const names = Object.keys(repos ?? {}).toSorted()
  const count = Object.values(repos ?? {}).reduce((sum, facts) => sum + facts.length, 0)
  const { query } = address.value
  const words = query.get('q') ?? ''
  const remote = query.get('repo') ?? ''
  const shown = filterMemories(repos ?? {}, { words, remote })
  return (
    <>
      <PageHead
        title="Memories"
        beside={
          repos !== undefined &&
          count > 0 &&
          `${countOf(count, 'fact')} about ${countOf(names.length, 'repository', 'repositories')}. Every run of a repository is told its facts, except new ones.`
        }
      />
      {repos === undefined && read.error === undefined && <Skeleton rows={6} />}
      {repos === undefined && read.error !== undefined && <Failure error={read.error} retry={read.reload} />}
      {repos !== undefined && count === 0 && <NoMemories />}
      {count > 0 && (
        <div class="filters" role="search">
          <SearchFilter label="Search the memories" group="Memories" value={words} />
          <ValueFilter name="repo" label="Repository" all="Every repository" values={names} chosen={remote} />
        </div>
      )}
      {count > 0 && shown.length === 0 && (
        <Empty
          title="No fact fits the filters"
          button={
            <Button act={() => changeQuery({ q: undefined, repo: undefined })}>
              Show all {countOf(count, 'fact')}
            </Button>
          }
        />
      )}
      {shown.map((each) => (
        <MemorySection
          key={each.remote}
          repo={each}
          keep={(fact) => keepFact(each.remote, fact, apply)}
          forget={(fact) => forgetFact(each.remote, fact, apply)}
          clear={() => clearRepo(each, apply)}
        />
      ))}
    </>
  )
}

const NoMemories = () => (
  <Empty title="No run has learnt anything yet">
    An agent writes down what the next run should know: how tests are started, what breaks easily. Facts
    appear here when its run ends. Other runs are told of them once its pull request is merged, or you keep
    them.
  </Empty>
)

type Apply = (answer: MemoriesResponse) => void

const keepFact = (remote: string, { id }: RepoMemory, apply: Apply): Promise<void> =>
  host.keepMemory({ repo: remote, body: { id } }).then(apply, showError)

async function forgetFact(remote: string, fact: RepoMemory, apply: Apply): Promise<void> {
  const isAgreed = await askBefore({
    title: 'Forget this fact?',
    loses: `“${fact.text}” was recorded by ${countOf(fact.hits, 'run')}. Later runs of ${remote} are no longer told of this.`,
    keep: 'Keep fact',
    act: 'Forget fact',
  })
  if (isAgreed) await host.forgetMemory({ repo: remote, body: { id: fact.id } }).then(apply, showError)
}

async function clearRepo({ remote, count }: RepoFacts, apply: Apply): Promise<void> {
  const facts = countOf(count, 'fact')
  const isAgreed = await askBefore({
    title: `Forget all facts about ${remote}?`,
    loses: `${facts} ${count === 1 ? 'is' : 'are'} forgotten for good, also those that the search does not show. Later runs begin without them.`,
    keep: 'Keep facts',
    act: `Forget ${facts}`,
  })
  if (!isAgreed) return
  await host.clearMemories({ repo: remote }).then((answer) => {
    apply(answer)
    showOutcome(`${facts} about ${remote} forgotten.`)
  }, showError)
}

// ---- one repository ------------------------------------------------------------------------------------------------

interface MemorySectionProps {
  readonly repo: RepoFacts
  readonly keep: (fact: RepoMemory) => Promise<void>
  readonly forget: (fact: RepoMemory) => Promise<void>
  readonly clear: () => Promise<void>
}

/** The facts about a repository, newest first. */
function MemorySection({ repo: { remote, facts, count }, keep, forget, clear }: MemorySectionProps) {
  return (
    <Section
      title={remote}
      count={facts.length === count ? count : `${facts.length} of ${count}`}
      aside={
        <Button small kind="destructive" label={`Forget all… about ${remote}`} act={clear}>
          Forget all…
        </Button>
      }
    >
      <ul class="card memories">
        {facts.map((fact) => (
          <li key={fact.id} class="memory">
            <span class="memory-text">
              {fact.text}
              {fact.state === 'new' && (
                <span class="tag" title="Runs are told once its pull request is merged, or you keep it">
                  new
                </span>
              )}
            </span>
            <span class="memory-facts faint">
              <span title="How many runs recorded it">{countOf(fact.hits, 'run')}</span>
              {fact.ident !== undefined && <a href={ticketAddress(fact.ident)}>{fact.ident}</a>}
              <Age since={fact.updatedAt} />
            </span>
            <span class="memory-acts">
              {fact.state === 'new' && (
                <Button small kind="plain-quiet" label={`Keep “${fact.text}”`} act={() => keep(fact)}>
                  Keep
                </Button>
              )}
              <Button small kind="plain-quiet" label={`Forget “${fact.text}”`} act={() => forget(fact)}>
                Forget…
              </Button>
            </span>
          </li>
        ))}
      </ul>
    </Section>
  )
}
