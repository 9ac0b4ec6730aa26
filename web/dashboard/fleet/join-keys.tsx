/** Join keys, with which many machines enroll: the list, a new one, and the deletion with or without its workers. */
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { JoinKey, JoinKeyResponse } from '../../../protocol/join-key.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { Moment, now } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { PasteLine } from '../../elements/paste-line.tsx'
import { Failure } from '../../elements/placeholder.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { host } from '../state/host.ts'
import { config, workers } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { JoinKeyForm } from './join-key-form.tsx'
import { hostJoinCommand } from './pair-worker.tsx'

const created = signal<JoinKeyResponse | undefined>(undefined)

export function JoinKeys() {
  // A worker that joins changes the counts.
  const read = useRequest(`join keys ${workers.value.length}`, (abort) =>
    host.listJoinKeys({}, { signal: abort }),
  )
  // A key is a secret; leaving the page forgets it.
  useEffect(
    () => () => {
      created.value = undefined
    },
    [],
  )
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
