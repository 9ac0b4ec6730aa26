/** The field of a setting, by the kind of its value. */
import type { ListedSetting } from '../../../protocol/setting-list.ts'

export interface SettingInputProps {
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

export function SettingInput(props: SettingInputProps) {
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
