/** Join keys, with which many machines enroll: the list, a new one, and the deletion with or without its workers. */

import { signal, useSignal } from '@preact/signals'
import type { JoinKey, JoinKeyResponse } from '../../../protocol/join-key.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { bound, CheckField, SelectField, TextField } from '../../elements/field.tsx'
import { useForgotten } from '../../elements/form.ts'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { Moment, now } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { PasteLine } from '../../elements/paste-line.tsx'
import { Failure } from '../../elements/placeholder.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { formatDuration } from '../../text/times.ts'
import { host } from '../state/host.ts'
import { config, workers } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { hostJoinCommand } from './pair-worker.tsx'

const created = signal<JoinKeyResponse | undefined>(undefined)

export function JoinKeys() {
  // A worker that joins changes the counts.
  const read = useRequest(`join keys ${workers.value.length}`, (abort) =>
    host.listJoinKeys({}, { signal: abort }),
  )
  // A key is a secret; leaving the page forgets it.
  useForgotten(created)
  const keys = read.data?.joinKeys ?? []
  const create = () =>
    showDialog((close) => (
      <JoinKeyForm
        close={close}
        onCreated={(key) => {
          created.value = key
          read.reload()
        }}
      />
    ))
  return (
    <Section
      id="join-keys"
      title="Join keys"
      count={keys.length === 0 ? undefined : formatCount(keys.length)}
      aside={
        <Button kind="link" act={create}>
          Make a join key…
        </Button>
      }
    >
      {read.error !== undefined && <Failure error={read.error} retry={read.reload} />}
      {created.value !== undefined && <NewKey joinKey={created.value} />}
      {read.data !== undefined && keys.length === 0 && created.value === undefined && (
        <div class="card padded quiet">
          There is none. A join key enrolls many machines, such as the instances of one image.
        </div>
      )}
      {keys.length > 0 && <JoinKeyTable keys={keys} reload={read.reload} />}
    </Section>
  )
}

/** The same words as `switchyard workers join-keys create`. */
function NewKey({ joinKey }: { readonly joinKey: JoinKeyResponse }) {
  const { key, name, maxWorkers, expiresAt } = joinKey
  if (config.value === undefined) return null
  const { line, notes } = hostJoinCommand(config.value, '--join-key-file', joinKey)
  return (
    <div class="card padded new-key">
      <p>
        <strong>{name}</strong> enrolls{' '}
        {maxWorkers === undefined ? 'any number of' : `up to ${formatCount(maxWorkers)}`} machines
        {expiresAt !== undefined && (
          <>
            {' '}
            until <Moment at={expiresAt} />
          </>
        )}
        , and is shown only now.
      </p>
      <ol class="pair-steps">
        <li>
          On each machine write it into a file that only the worker can read.
          <PasteLine text={key} label="the join key" />
        </li>
        <li>
          Then run this there.
          <PasteLine text={line} label="the line" />
        </li>
        {notes.map((note) => (
          <li class="pair-note quiet" key={note}>
            {note}
          </li>
        ))}
      </ol>
      <Button
        act={() => {
          created.value = undefined
        }}
      >
        Hide the key
      </Button>
    </div>
  )
}

interface TableProps {
  readonly keys: readonly JoinKey[]
  readonly reload: () => void
}

function JoinKeyTable({ keys, reload }: TableProps) {
  return (
    <div class="card scrolled">
      <table class="rows">
        <thead>
          <tr>
            <th>Name</th>
            <th>Workers</th>
            <th>Ephemeral</th>
            <th>Made</th>
            <th>Expires</th>
            <th>Id</th>
            <th>
              <span class="visually-hidden">Acts</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.id}>
              <td class="nowrap">
                <strong>{key.name}</strong>
              </td>
              <td class="nowrap">
                {key.workers === 0 ? <>0 of {most(key)}</> : <KeyWorkers joinKey={key} />}
              </td>
              <td>{key.ephemeral ? 'Yes' : 'No'}</td>
              <td class="nowrap">
                <Moment at={key.createdAt} />
              </td>
              <td class="nowrap">
                <Expiry at={key.expiresAt} />
              </td>
              <td class="mono faint nowrap">{key.id}</td>
              <td class="number">
                <Button
                  small
                  kind="destructive"
                  label={`Delete ${key.name}…`}
                  act={() => removeKey(key, reload)}
                >
                  Delete…
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const most = ({ maxWorkers }: JoinKey): string =>
  maxWorkers === undefined ? 'any number' : formatCount(maxWorkers)

const KeyWorkers = ({ joinKey }: { readonly joinKey: JoinKey }) => (
  <a href={`/fleet?q=${encodeURIComponent(joinKey.id)}`}>
    {formatCount(joinKey.workers)} of {most(joinKey)}
  </a>
)

function Expiry({ at }: { readonly at: string | undefined }) {
  if (at === undefined) return <>Never</>
  if (Date.parse(at) <= now.value) return <span class="worker-away">Expired</span>
  return <Moment at={at} />
}

/** The workers of a key can be kept or revoked with it. */
async function removeKey(key: JoinKey, reload: () => void): Promise<void> {
  const { id, name } = key
  const runs = workers.value
    .filter(({ joinKey }) => joinKey === id)
    .reduce((sum, { activeRuns }) => sum + activeRuns, 0)
  const remove = async (withWorkers: boolean) => {
    try {
      await host.deleteJoinKey({ id, ...(withWorkers ? { workers: '1' as const } : {}) })
      const revoked = withWorkers ? `, and its ${countOf(key.workers, 'worker')} are revoked` : ''
      if (created.value?.id === id) created.value = undefined
      showOutcome(`${name}: no machine joins any more${revoked}.`)
    } catch (error) {
      showError(error)
    }
    reload()
  }
  await showDialog((close) => {
    const act = (withWorkers: boolean) => async () => {
      await remove(withWorkers)
      close()
    }
    return (
      <>
        <h2>Delete {name}?</h2>
        <p class="quiet">
          No machine joins with it any more.
          {key.workers > 0 &&
            ` Its ${countOf(key.workers, 'worker stays', 'workers stay')}, unless you revoke ${key.workers === 1 ? 'it' : 'them'} too: that interrupts ${countOf(runs, 'run')} and deletes the sandboxes they keep.`}
        </p>
        <div class="dialog-acts">
          <Button act={close} autoFocus>
            Keep key
          </Button>
          <Button kind="destructive" busyWord="Deleting" act={act(false)}>
            Delete key
          </Button>
          {key.workers > 0 && (
            <Button kind="destructive" busyWord="Revoking" act={act(true)}>
              Delete key and revoke {countOf(key.workers, 'worker')}
            </Button>
          )}
        </div>
      </>
    )
  })
}

// ---- the form ------------------------------------------------------------------------------------------------------

const DAY_MS = 24 * 60 * 60 * 1_000
const EXPIRIES = [
  ['', 'Never'],
  ['1', 'In a day'],
  ['7', 'In 7 days'],
  ['30', 'In 30 days'],
  ['365', 'In a year'],
] as const

interface JoinKeyFormProps {
  readonly close: () => void
  readonly onCreated: (key: JoinKeyResponse) => void
}

/** The form for a new join key. */
function JoinKeyForm({ close, onCreated }: JoinKeyFormProps) {
  const name = useSignal('')
  const days = useSignal('30')
  const most = useSignal('')
  const isEphemeral = useSignal(false)
  const after = formatDuration((config.value?.fleet.ephemeralSeconds ?? 0) * 1_000)
  async function send(): Promise<void> {
    const expiresAt =
      days.value === '' ? {} : { expiresAt: new Date(now.value + Number(days.value) * DAY_MS).toISOString() }
    const maxWorkers = most.value.trim() === '' ? {} : { maxWorkers: Number(most.value) }
    onCreated(
      await host.createJoinKey({
        body: { name: name.value.trim(), ...expiresAt, ...maxWorkers, ephemeral: isEphemeral.value },
      }),
    )
  }
  const isCount = /^\s*(\d+\s*)?$/.test(most.value)
  return (
    <FormDialog
      title="Make a join key"
      act="Make join key"
      busyWord="Making"
      unavailable={
        name.value.trim() === ''
          ? 'It needs a name.'
          : isCount
            ? undefined
            : 'The number of workers is not whole.'
      }
      send={send}
      close={close}
    >
      <TextField
        label="Name"
        autoFocus
        hint="Such as the image or the group of machines that joins with it."
        {...bound(name)}
      />
      <div class="field-row">
        <SelectField label="Expires" options={EXPIRIES} {...bound(days)} />
        <TextField
          label="Workers at most"
          hint="Empty: any number."
          problem={isCount ? undefined : 'A whole number.'}
          {...bound(most)}
        />
      </div>
      <CheckField
        label="Ephemeral"
        hint={`Its workers are removed by themselves ${after} after they left.`}
        {...bound(isEphemeral)}
      />
    </FormDialog>
  )
}
