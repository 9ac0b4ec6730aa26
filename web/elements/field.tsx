/** A labelled input with its hint and its problem. */
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

interface FieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  /** Why the value is refused. */
  readonly problem?: string | undefined
}

interface TextFieldProps extends FieldProps {
  readonly value: string
  readonly change: (value: string) => void
  readonly lines?: number
  readonly placeholder?: string
  readonly type?: 'text' | 'password'
  /** The id of a list of suggestions. */
  readonly list?: string
  readonly autoFocus?: boolean
}

export function TextField(props: TextFieldProps) {
  const { label, hint, problem, value, change, lines, placeholder, type = 'text', autoFocus, list } = props
  const id = useId()
  const shared = {
    id,
    class: 'input',
    value,
    ...(placeholder === undefined ? {} : { placeholder }),
    autofocus: autoFocus ?? false,
    'aria-invalid': problem !== undefined,
    'aria-describedby': `${id}-notes`,
  }
  return (
    <div class="field">
      <label class="label" for={id}>
        {label}
      </label>
      {lines === undefined ? (
        // The types of inputs are told apart by one literal.
        type === 'password' ? (
          <input
            {...shared}
            type="password"
            autocomplete="off"
            onInput={(event) => change(event.currentTarget.value)}
          />
        ) : (
          <input
            {...shared}
            type="text"
            {...(list === undefined ? {} : { list })}
            onInput={(event) => change(event.currentTarget.value)}
          />
        )
      ) : (
        <textarea {...shared} rows={lines} onInput={(event) => change(event.currentTarget.value)} />
      )}
      <span id={`${id}-notes`} class={problem === undefined ? 'hint' : 'problem'}>
        {problem ?? hint}
      </span>
    </div>
  )
}

interface SelectFieldProps extends FieldProps {
  readonly value: string
  readonly change: (value: string) => void
  readonly options: readonly (readonly [value: string, text: string])[]
}

export function SelectField({ label, hint, problem, value, change, options }: SelectFieldProps) {
  const id = useId()
  return (
    <div class="field">
      <label class="label" for={id}>
        {label}
      </label>
      <select
        id={id}
        class="input"
        value={value}
        aria-invalid={problem !== undefined}
        aria-describedby={`${id}-notes`}
        onChange={(event) => change(event.currentTarget.value)}
      >
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
      <span id={`${id}-notes`} class={problem === undefined ? 'hint' : 'problem'}>
        {problem ?? hint}
      </span>
    </div>
  )
}

/** A select without a visible label, for filters. */
export function FilterSelect({ label, value, change, options }: Omit<SelectFieldProps, 'hint' | 'problem'>) {
  return (
    <select
      class="input"
      aria-label={label}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
    >
      {options.map(([option, text]) => (
        <option key={option} value={option}>
          {text}
        </option>
      ))}
    </select>
  )
}

interface CheckFieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  readonly isOn: boolean
  readonly change: (isOn: boolean) => void
}

/** A choice between yes and no, with its label beside it. */
export function CheckField({ label, hint, isOn, change }: CheckFieldProps) {
  const id = useId()
  return (
    <div class="field check">
      <input
        id={id}
        type="checkbox"
        checked={isOn}
        aria-describedby={`${id}-notes`}
        onChange={(event) => change(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      <span id={`${id}-notes`} class="hint">
        {hint}
      </span>
    </div>
  )
}
