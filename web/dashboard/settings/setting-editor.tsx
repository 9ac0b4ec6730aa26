/** Changes a setting in its place. A refusal stays beside the field until it is mended or discarded. */

import { useSignal } from '@preact/signals'
import { useEffect, useId, useRef } from 'preact/hooks'
import { formatSetting, keysToConfirm, patchOf, refusalOf } from '../../../client/settings.ts'
import { mergePatch } from '../../../protocol/merge-patch.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { decisionOf } from '../../../protocol/powerful-keys.ts'
import type { ListedSetting } from '../../../protocol/setting-list.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { submitBy } from '../../elements/form.ts'
import { showOutcome } from '../../elements/toasts.ts'
import { capitalized } from '../../text/sentences.ts'
import { settingAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import {
  editedText,
  type PlacedSetting,
  tablePatch,
  valueAt,
  valueOfGroup,
  valueOfText,
} from './setting-model.ts'

export interface SettingEditorProps {
  readonly placed: PlacedSetting
  readonly close: () => void
}

export function SettingEditor({ placed, close }: SettingEditorProps) {
  const { setting, key, parts, value } = placed
  const names = setting.kind === 'group' ? (setting.options ?? []) : [key]
  const texts = useSignal<Readonly<Record<string, string>>>(textsOf(placed, names))
  const refused = useSignal<string | undefined>(undefined)
  const form = useRef<HTMLFormElement>(null)
  const notes = useId()
  useEffect(() => form.current?.querySelector<HTMLElement>('.input')?.focus(), [])

  async function save(): Promise<void> {
    try {
      refused.value = undefined
      if (await changeSettings(patchOf(parts, changedValue(placed, texts.value)), key)) close()
    } catch (error) {
      refused.value = messageOf(error)
    }
  }

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') close()
    else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void save()
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  return (
    <form
      ref={form}
      class="setting-editor"
      autocomplete="off"
      onKeyDown={onKeyDown}
      onSubmit={submitBy(save)}
    >
      {names.map((name) => (
        <SettingInput
          key={name}
          setting={setting}
          label={name}
          isNamed={setting.kind === 'group'}
          notes={notes}
          isRefused={refused.value !== undefined}
          value={texts.value[name] ?? ''}
          change={(text) => {
            texts.value = { ...texts.value, [name]: text }
          }}
        />
      ))}
      <div id={notes} class="setting-notes">
        {refused.value === undefined ? (
          <Hint placed={placed} />
        ) : (
          <Refusal message={refused.value} own={key} />
        )}
        <OtherChange value={value} />
      </div>
      <div class="setting-acts">
        <input type="submit" hidden />
        <Button small kind="primary" act={save} busyWord="Saving">
          Save
        </Button>
        <Button small act={close}>
          Discard
        </Button>
      </div>
    </form>
  )
}

function changedValue({ setting, key, value }: PlacedSetting, texts: Readonly<Record<string, string>>) {
  const own = texts[key] ?? ''
  if (setting.kind === 'secret') return own || null
  if (setting.kind === 'group') return valueOfGroup(texts)
  const typed = valueOfText(setting, own)
  return setting.kind === 'table' ? tablePatch(value, typed) : typed
}

/** Tells of a value that is another than when the editor was opened. */
function OtherChange({ value }: Pick<PlacedSetting, 'value'>) {
  const before = useRef(value)
  if (JSON.stringify(before.current) === JSON.stringify(value)) return null
  return (
    <p class="tone-warn">
      Changed to {value === undefined ? 'not set' : formatSetting(value)} by somebody else meanwhile.
    </p>
  )
}

/** The mask of a secret is no value to edit. */
function textsOf({ setting, key, value }: PlacedSetting, names: readonly string[]): Record<string, string> {
  if (setting.kind === 'secret') return { [key]: '' }
  if (setting.kind !== 'group') return { [key]: editedText(value) }
  return Object.fromEntries(names.map((name) => [name, editedText(Reflect.get(Object(value), name))]))
}

function Hint({ placed: { setting } }: { readonly placed: PlacedSetting }) {
  const { kind, minimum, maximum, expects, isOptional = false } = setting
  const range = minimum === undefined || maximum === undefined ? undefined : `${minimum} to ${maximum}`
  const parts = [
    kind === 'list' ? 'one on each line' : undefined,
    range,
    expects,
    isOptional && kind !== 'choice' ? 'empty takes it away' : undefined,
  ].filter((part) => part !== undefined)
  const text = parts.join('; ')
  return <p class="faint">{text === '' ? '' : `${capitalized(text)}.`}</p>
}

/** The host may refuse a change because of another setting. */
function Refusal({ message, own }: { readonly message: string; readonly own: string }) {
  const { key, sentence } = refusalOf(message)
  return (
    <p class="problem" role="alert">
      {key === undefined ? (
        sentence
      ) : (
        <>
          {key === own ? <code>{key}</code> : <a href={settingAddress(key)}>{key}</a>} {sentence}
        </>
      )}
    </p>
  )
}

// ---- inputs --------------------------------------------------------------------------------------------------------

interface SettingInputProps {
  readonly setting: ListedSetting
  /** The dotted key, or the name of a text of a group. */
  readonly label: string
  /** The label is in view, because several fields stand together. */
  readonly isNamed: boolean
  /** The element with the limits and the refusal. */
  readonly notes: string
  readonly isRefused: boolean
  readonly value: string
  readonly change: (text: string) => void
}

const LINES = 4

/** The field of a setting, by the kind of its value. */
function SettingInput(props: SettingInputProps) {
  const { setting, label, isNamed, notes, isRefused, value, change } = props
  const shared = {
    class: 'input',
    'aria-label': label,
    'aria-describedby': notes,
    'aria-invalid': isRefused,
    spellcheck: setting.key === 'repos.*.instructions',
  }
  if (setting.kind === 'choice' || setting.kind === 'switch') {
    const options = setting.options ?? ['true', 'false']
    return (
      <select {...shared} value={value} onChange={(event) => change(event.currentTarget.value)}>
        {(setting.isOptional === true || value === '') && <option value="">not set</option>}
        {options.map((option) => (
          <option key={option} value={option}>
            {setting.kind === 'switch' ? (option === 'true' ? 'on' : 'off') : option}
          </option>
        ))}
      </select>
    )
  }
  if (['lines', 'list', 'table'].includes(setting.kind))
    return (
      <textarea
        {...shared}
        rows={Math.max(LINES, value.split('\n').length)}
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
      />
    )
  return (
    <>
      {isNamed && <span class="faint">{label}</span>}
      {setting.kind === 'secret' ? (
        // The types of inputs are told apart by one literal.
        <input
          {...shared}
          type="password"
          autocomplete="off"
          value={value}
          onInput={(event) => change(event.currentTarget.value)}
        />
      ) : (
        <input
          {...shared}
          type="text"
          inputMode={setting.kind === 'number' ? 'decimal' : 'text'}
          autocomplete="off"
          value={value}
          onInput={(event) => change(event.currentTarget.value)}
        />
      )}
    </>
  )
}

// ---- the change ----------------------------------------------------------------------------------------------------

/**
 * Sends a change of the settings. Where the host asks for a confirmation, because a setting gives power over the
 * machine, only the person can give it; without it nothing is changed, and the answer is false. Throws the host's
 * refusal.
 */
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
