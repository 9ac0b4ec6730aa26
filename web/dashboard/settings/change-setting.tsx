/**
 * Sends a change of the settings. Where the host asks for a confirmation, because a setting gives power over the
 * machine, only the person can give it.
 */
import { formatSetting, keysToConfirm } from '../../../client/settings.ts'
import { mergePatch } from '../../../protocol/merge-patch.ts'
import { decisionOf } from '../../../protocol/powerful-keys.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import { valueAt } from './setting-model.ts'

/** Returns false when the person did not confirm, so that nothing was changed. Throws the host's refusal. */
export async function changeSettings(patch: Record<string, unknown>, subject: string): Promise<boolean> {
  const answer = await host.changeSettings({ body: { patch } }).catch(async (error: unknown) => {
    const confirm = keysToConfirm(error)
    if (confirm === undefined) throw error
    return (await askForPower(confirm, patch)) ? host.changeSettings({ body: { patch, confirm } }) : undefined
  })
  if (answer === undefined) return false
  config.value = answer.config
  if (answer.applied === 'restart') showOutcome(`The host uses ${subject} from its next start on.`)
  return true
}

/** Whether the person wants settings changed that give power over the machine. */
async function askForPower(keys: readonly string[], patch: unknown): Promise<boolean> {
  let isAgreed = false
  // A patch of a table names only the rows that change.
  const changed = mergePatch(config.value, patch)
  const noun = keys.length === 1 ? 'setting' : 'settings'
  await showDialog((close) => (
    <>
      <h2>
        {keys.length === 1
          ? `Change ${keys[0]}?`
          : `Change ${keys.length} settings with power over machines?`}
      </h2>
      <p class="quiet">
        {keys.length === 1 ? 'This setting gives' : 'These settings give'} power over the machines that run
        work. Change {keys.length === 1 ? 'it' : 'them'} only if the new value is your own.
      </p>
      <ul class="powers">
        {keys.map((key) => (
          <li key={key}>
            <code>{key}</code> decides {decisionOf(key)}.
            <Difference before={valueAt(config.value, key)} after={valueAt(changed, key)} />
          </li>
        ))}
      </ul>
      <div class="dialog-acts">
        <Button act={close} autoFocus>
          Keep {noun}
        </Button>
        <Button
          kind="destructive"
          act={() => {
            isAgreed = true
            close()
          }}
        >
          Change {noun}
        </Button>
      </div>
    </>
  ))
  return isAgreed
}

interface DifferenceProps {
  /** Undefined: it is not set. */
  readonly before: unknown
  readonly after: unknown
}

const Difference = ({ before, after }: DifferenceProps) => (
  <pre class="difference">
    {before === undefined ? 'not set' : formatSetting(before)} {'→'}{' '}
    {after === undefined ? 'not set' : formatSetting(after)}
  </pre>
)
