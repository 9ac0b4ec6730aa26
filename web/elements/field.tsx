/** Fields of forms and filters: a labelled input with its hint and its problem, and choices. */
import type { Signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

interface FieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  /** Why the value is refused. */
  readonly problem?: string | undefined
}

interface FieldFrameProps extends FieldProps {
  readonly id: string
  readonly children: ComponentChildren
}

const FieldFrame = ({ id, label, hint, problem, children }: FieldFrameProps) => (
  <div class="field">
    <label class="label" for={id}>
      {label}
    </label>
    {children}
    <span id={`${id}-notes`} class={problem === undefined ? 'hint' : 'problem'}>
      {problem ?? hint}
    </span>
  </div>
)

/** The value of a field that a signal holds. */
export const bound = <T,>(signal: Signal<T>) => ({
  value: signal.value,
  change: (value: T): void => {
    signal.value = value
  },
})

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
  const { problem, value, change, lines, placeholder, type = 'text', autoFocus, list } = props
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
    <FieldFrame id={id} {...props}>
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
    </FieldFrame>
  )
}

interface SelectFieldProps extends FieldProps {
  readonly value: string
  readonly change: (value: string) => void
  readonly options: readonly (readonly [value: string, text: string])[]
}

const Options = ({ of }: { readonly of: SelectFieldProps['options'] }) => (
  <>
    {of.map(([option, text]) => (
      <option key={option} value={option}>
        {text}
      </option>
    ))}
  </>
)

export function SelectField({ label, hint, problem, value, change, options }: SelectFieldProps) {
  const id = useId()
  return (
    <FieldFrame id={id} label={label} hint={hint} problem={problem}>
      <select
        id={id}
        class="input"
        value={value}
        aria-invalid={problem !== undefined}
        aria-describedby={`${id}-notes`}
        onChange={(event) => change(event.currentTarget.value)}
      >
        <Options of={options} />
      </select>
    </FieldFrame>
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
      <Options of={options} />
    </select>
  )
}

interface CheckFieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  readonly value: boolean
  readonly change: (value: boolean) => void
}

/** A choice between yes and no, with its label beside it. */
export function CheckField({ label, hint, value, change }: CheckFieldProps) {
  const id = useId()
  return (
    <div class="field check">
      <input
        id={id}
        type="checkbox"
        checked={value}
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

/** A choice among a few values, all in view. */
export interface SegmentsProps<T extends string> {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [value: T, text: string])[]
  readonly choose: (value: T) => void
}

export function Segments<T extends string>({ label, value, options, choose }: SegmentsProps<T>) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button type="button" key={option} aria-pressed={option === value} onClick={() => choose(option)}>
          {text}
        </button>
      ))}
    </div>
  )
}
