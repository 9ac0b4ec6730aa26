/** The form for a new join key. */
import { useSignal } from '@preact/signals'
import type { JoinKeyResponse } from '../../../protocol/join-key.ts'
import { CheckField, SelectField, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { now } from '../../elements/moments.tsx'
import { formatDuration } from '../../text/times.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'

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

export function JoinKeyForm({ close, onCreated }: JoinKeyFormProps) {
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
        value={name.value}
        autoFocus
        hint="Such as the image or the group of machines that joins with it."
        change={(value) => {
          name.value = value
        }}
      />
      <div class="field-row">
        <SelectField
          label="Expires"
          value={days.value}
          options={EXPIRIES}
          change={(value) => {
            days.value = value
          }}
        />
        <TextField
          label="Workers at most"
          value={most.value}
          hint="Empty: any number."
          problem={isCount ? undefined : 'A whole number.'}
          change={(value) => {
            most.value = value
          }}
        />
      </div>
      <CheckField
        label="Ephemeral"
        hint={`Its workers are removed by themselves ${after} after they left.`}
        isOn={isEphemeral.value}
        change={(isOn) => {
          isEphemeral.value = isOn
        }}
      />
    </FormDialog>
  )
}
