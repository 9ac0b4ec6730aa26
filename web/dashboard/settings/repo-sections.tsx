/** The mappings of repositories: each with its settings; they are added and removed here. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { hasEnded } from '../../../client/run-events.ts'
import type { CodehostRepo } from '../../../protocol/pulls.ts'
import { Button, OpenButton } from '../../elements/button.tsx'
import { askBefore, showDialog } from '../../elements/dialog.tsx'
import { bound, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { Section } from '../../elements/page-head.tsx'
import { Empty } from '../../elements/placeholder.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { address } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { decodeOrKeep } from '../../text/decode.ts'
import { settingAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { config, runs } from '../state/records.ts'
import { changeSettings } from './setting-editor.tsx'
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
          <OpenButton isOpen={isOpened}>Show {countOf(hidden, 'more setting')}</OpenButton>
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

// ---- a new repository ----------------------------------------------------------------------------------------------

const OFFERED_MAX = 200
const OFFERED = 'repositories-of-the-code-host'

/** The dialog that adds the mapping of a repository. */
function askForRepo(): Promise<void> {
  return showDialog((close) => <AddRepo close={close} />)
}

function AddRepo({ close }: { readonly close: () => void }) {
  const remote = useSignal('')
  const name = useSignal<string | undefined>(undefined)
  const label = useSignal('')
  const project = useSignal('')
  const setup = useSignal('')
  const offered = useSignal<readonly CodehostRepo[]>([])
  useEffect(() => {
    host.listCodehostRepos().then(
      (repos) => {
        offered.value = repos.slice(0, OFFERED_MAX)
      },
      // Without suggestions the name is typed.
      () => {},
    )
  }, [])
  // The key is a short name, for which the repository's own is a good start.
  const key = name.value ?? remote.value.split('/')[1] ?? ''
  const isTaken = Object.hasOwn(config.value?.repos ?? {}, key)

  async function send(): Promise<void> {
    const given = { label: label.value, trackerProject: project.value, setup: setup.value }
    const set = Object.fromEntries(Object.entries(given).filter(([, text]) => text.trim() !== ''))
    if (await changeSettings({ [REPOS]: { [key]: { remote: remote.value.trim(), ...set } } }, key))
      showOutcome(`${key} is added.`, { to: settingAddress(`${REPOS}.${key}.remote`), text: 'Show it' })
    else throw new Error('Nothing was changed.')
  }

  return (
    <FormDialog
      title="Add a repository"
      act="Add repository"
      busyWord="Adding"
      unavailable={missing(remote.value, key, isTaken)}
      send={send}
      close={close}
    >
      <TextField
        label="Repository"
        hint="As owner/name."
        placeholder="acme/api"
        list={OFFERED}
        {...bound(remote)}
        autoFocus
      />
      <datalist id={OFFERED}>
        {offered.value.map(({ fullName }) => (
          <option key={fullName} value={fullName} />
        ))}
      </datalist>
      <TextField
        label="Key"
        hint="The short name that tickets and settings use."
        problem={isTaken ? `${key} is the key of another repository.` : undefined}
        {...bound(name)}
        value={key}
      />
      <div class="field-row">
        <TextField label="Label" hint="Its tickets have this label." {...bound(label)} />
        <TextField label="Project" hint="Or belong to this project." {...bound(project)} />
      </div>
      <TextField
        label="Setup"
        hint="Commands that prepare a fresh checkout. The host asks for a confirmation."
        lines={3}
        {...bound(setup)}
      />
    </FormDialog>
  )
}

function missing(remote: string, key: string, isTaken: boolean): string | undefined {
  if (remote.trim() === '') return 'The repository is missing.'
  if (key.trim() === '') return 'The key is missing.'
  return isTaken ? 'The key is taken.' : undefined
}
