/** Changes a setting in its place. A refusal stays beside the field until it is mended or discarded. */
import { useSignal } from '@preact/signals'
import { useEffect, useId, useRef } from 'preact/hooks'
import { formatSetting, patchOf, refusalOf } from '../../../client/settings.ts'
import { Button } from '../../elements/button.tsx'
import { settingAddress } from '../addresses.ts'
import { changeSettings } from './change-setting.tsx'
import { SettingInput } from './setting-input.tsx'
import { editedText, type PlacedSetting, tablePatch, valueOfGroup, valueOfText } from './setting-model.ts'

export interface SettingEditorProps {
  readonly placed: PlacedSetting
  readonly close: () => void
}

export function SettingEditor({ placed, close }: SettingEditorProps) {
  const { setting, key, parts, value } = placed
  const names = setting.kind === 'group' ? (setting.options ?? []) : [key]
  const before = useRef(value)
  const texts = useSignal<Readonly<Record<string, string>>>(textsOf(placed, names))
  const refused = useSignal<string | undefined>(undefined)
  const form = useRef<HTMLFormElement>(null)
  const notes = useId()
  useEffect(() => form.current?.querySelector<HTMLElement>('.input')?.focus(), [])

  async function save(): Promise<void> {
    const own = texts.value[key] ?? ''
    const typed = setting.kind === 'group' ? valueOfGroup(texts.value) : valueOfText(setting, own)
    const changed = setting.kind === 'table' ? tablePatch(value, typed) : typed
    try {
      refused.value = undefined
      if (await changeSettings(patchOf(parts, setting.kind === 'secret' ? own || null : changed), key))
        close()
    } catch (error) {
      refused.value = error instanceof Error ? error.message : String(error)
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
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
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
        {before.current !== value && JSON.stringify(before.current) !== JSON.stringify(value) && (
          <p class="tone-warn">
            Changed to {value === undefined ? 'not set' : formatSetting(value)} by somebody else meanwhile.
          </p>
        )}
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
  return <p class="faint">{text === '' ? '' : `${text.charAt(0).toUpperCase()}${text.slice(1)}.`}</p>
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
