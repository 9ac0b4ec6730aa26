/** The mappings of repositories: each with its settings; they are added and removed here. */
import { useSignal } from '@preact/signals'
import { hasEnded } from '../../../client/run-events.ts'
import { Button } from '../../elements/button.tsx'
import { askBefore } from '../../elements/dialog.tsx'
import { Section } from '../../elements/page-head.tsx'
import { Empty } from '../../elements/placeholder.tsx'
import { showError } from '../../elements/toasts.ts'
import { address } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { decodeOrKeep } from '../../text/decode.ts'
import { config, runs } from '../state/records.ts'
import { askForRepo } from './add-repo.tsx'
import { changeSettings } from './change-setting.tsx'
import { REPOS, type SettingSection } from './setting-model.ts'
import { SettingRow } from './setting-row.tsx'

export interface RepoSectionsProps {
  readonly sections: readonly SettingSection[]
  readonly isFiltered: boolean
}

export function RepoSections({ sections, isFiltered }: RepoSectionsProps) {
  return (
    <Section
      id={REPOS}
      title="Repositories"
      count={sections.length}
      aside={
        !isFiltered && (
          <Button small act={askForRepo}>
            Add repository
          </Button>
        )
      }
    >
      {sections.length === 0 && (
        <Empty
          title="No repository is configured"
          button={
            <Button kind="primary" act={askForRepo}>
              Add repository
            </Button>
          }
        >
          A ticket becomes a run only where its repository is known.
        </Empty>
      )}
      {sections.map((section) => (
        <RepoCard key={section.name} section={section} isFiltered={isFiltered} />
      ))}
    </Section>
  )
}

interface RepoCardProps {
  readonly section: SettingSection
  readonly isFiltered: boolean
}

function RepoCard({ section: { name, title, settings }, isFiltered }: RepoCardProps) {
  const isOpened = useSignal(false)
  const { fragment } = address.value
  const isWhole = isFiltered || isOpened.value || decodeOrKeep(fragment).startsWith(`${name}.`)
  const shown = isWhole ? settings : settings.filter(({ value }) => value !== undefined)
  const hidden = settings.length - shown.length
  return (
    <div class="card repo-card" id={name}>
      <div class="repo-head">
        <h3>{title}</h3>
        <span class="mono faint">{config.value?.repos[title]?.remote}</span>
        <Button
          small
          kind="destructive"
          label={`Remove repository ${title}`}
          act={() => removeRepo(title, settings)}
        >
          Remove…
        </Button>
      </div>
      {shown.map((placed) => (
        <SettingRow key={placed.key} placed={placed} />
      ))}
      {hidden > 0 && (
        <div class="repo-more">
          <Button
            kind="link"
            act={() => {
              isOpened.value = true
            }}
          >
            Show {countOf(hidden, 'more setting')}
          </Button>
        </div>
      )}
    </div>
  )
}

async function removeRepo(key: string, settings: SettingSection['settings']): Promise<void> {
  const remote = config.value?.repos[key]?.remote
  const own = [...runs.value.values()].filter(
    (run) => !hasEnded(run) && (run.ticket.repo === key || run.pull?.remote === remote),
  )
  const set = settings.filter(({ value }) => value !== undefined).length
  const isAgreed = await askBefore({
    title: `Remove repository ${key}?`,
    loses: `${countOf(set, 'setting')} of ${key} ${set === 1 ? 'is' : 'are'} deleted. ${
      own.length === 0
        ? 'No unfinished run names it.'
        : `${countOf(own.length, 'unfinished run')} of it ${own.length === 1 ? 'stays' : 'stay'} without a repository.`
    } Its tickets become no runs. The repository itself, its pull requests and its memories stay.`,
    keep: 'Keep repository',
    act: 'Remove repository',
  })
  if (isAgreed) await changeSettings({ [REPOS]: { [key]: null } }, key).then(() => {}, showError)
}
