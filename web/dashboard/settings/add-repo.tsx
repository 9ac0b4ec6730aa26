/** The dialog that adds the mapping of a repository. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { CodehostRepo } from '../../../protocol/pulls.ts'
import { showDialog } from '../../elements/dialog.tsx'
import { TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { settingAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import { changeSettings } from './change-setting.tsx'
import { REPOS } from './setting-model.ts'

const OFFERED_MAX = 200
const OFFERED = 'repositories-of-the-code-host'

export function askForRepo(): Promise<void> {
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
        value={remote.value}
        change={(text) => {
          remote.value = text
        }}
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
        value={key}
        change={(text) => {
          name.value = text
        }}
      />
      <div class="field-row">
        <TextField
          label="Label"
          hint="Its tickets have this label."
          value={label.value}
          change={(text) => {
            label.value = text
          }}
        />
        <TextField
          label="Project"
          hint="Or belong to this project."
          value={project.value}
          change={(text) => {
            project.value = text
          }}
        />
      </div>
      <TextField
        label="Setup"
        hint="Commands that prepare a fresh checkout. The host asks for a confirmation."
        lines={3}
        value={setup.value}
        change={(text) => {
          setup.value = text
        }}
      />
    </FormDialog>
  )
}

function missing(remote: string, key: string, isTaken: boolean): string | undefined {
  if (remote.trim() === '') return 'The repository is missing.'
  if (key.trim() === '') return 'The key is missing.'
  return isTaken ? 'The key is taken.' : undefined
}
