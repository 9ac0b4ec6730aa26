/** The acts on a worker: drain, enable, revoke. The host's refusals are shown in its own words. */
import { holderName } from '../../../client/worker-words.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { now } from '../../elements/moments.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { host } from '../state/host.ts'
import { workers } from '../state/records.ts'
import type { FleetRow } from './fleet-rows.ts'
import { revokeLoss } from './worker-state.ts'

/** Each answer is the whole fleet, which is newer than what was pushed. */
async function change(request: Promise<{ readonly workers: typeof workers.value }>): Promise<void> {
  try {
    workers.value = (await request).workers
  } catch (error) {
    showError(error)
  }
}

export const drainWorker = (id: string): Promise<void> => change(host.drainWorker({ id }))
export const enableWorker = (id: string): Promise<void> => change(host.enableWorker({ id }))
export const renameWorker = (id: string, name: string): Promise<void> =>
  change(host.renameWorker({ id, body: { name } }))

/** An upgrade ends its own drain, so a person is told before ending the drain of somebody else. */
export function enableHint({ worker }: FleetRow): string | undefined {
  const others = (worker.drainedBy ?? []).filter((holder) => holder !== 'operator')
  return others.length === 0 ? undefined : `Ends the drain by ${others.map(holderName).join(' and ')} too`
}

/** The host refuses both for the worker that it runs itself. */
export const localRefusal = ({ worker }: FleetRow): string | undefined =>
  worker.local === true ? 'The host runs this worker itself. Drain it instead.' : undefined

export async function revokeWorker(row: FleetRow): Promise<void> {
  const { id, name, state } = row.worker
  await showDialog((close) => (
    <>
      <h2>Revoke {name}?</h2>
      <p class="quiet">{revokeLoss(row, now.value)}</p>
      <div class="dialog-acts">
        <Button act={close} autoFocus>
          Keep worker
        </Button>
        {state === 'active' && (
          <Button
            act={async () => {
              await drainWorker(id)
              close()
            }}
          >
            Drain instead
          </Button>
        )}
        <Button
          kind="destructive"
          busyWord="Revoking"
          act={async () => {
            await change(host.revokeWorker({ id }))
            close()
            if (!workers.value.some((worker) => worker.id === id)) showOutcome(`${name} is revoked.`)
          }}
        >
          Revoke worker
        </Button>
      </div>
    </>
  ))
}
