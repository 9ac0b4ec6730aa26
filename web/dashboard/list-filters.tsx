/**
 * The parts that pages with a list share: its filters, which stand in the query of the address, and the keys that go
 * through its rows.
 */
import { useRef } from 'preact/hooks'
import { type Act, useActs } from '../elements/acts.ts'
import { FilterSelect } from '../elements/field.tsx'
import { changeQuery } from '../router.ts'

interface SearchFilterProps {
  /** Also the title of the act that goes to the field: `Search the runs`. */
  readonly label: string
  /** The group of that act. */
  readonly group: string
  readonly placeholder?: string
  /** The name in the query. */
  readonly name?: string
  readonly value: string | undefined
}

export function SearchFilter(props: SearchFilterProps) {
  const { label, group, placeholder = 'Search', name = 'q', value = '' } = props
  const field = useRef<HTMLInputElement>(null)
  useActs([{ id: 'search', title: label, group, keys: '/', act: () => field.current?.focus() }])
  return (
    <input
      ref={field}
      class="input"
      type="search"
      aria-label={label}
      placeholder={placeholder}
      value={value}
      onInput={(event) => changeQuery({ [name]: event.currentTarget.value })}
      onKeyDown={(event) => {
        if (event.key === 'Escape') event.currentTarget.blur()
      }}
    />
  )
}

interface ValueFilterProps {
  /** The name in the query. */
  readonly name: string
  /** The words for no choice, such as `Every repository`. */
  readonly all: string
  readonly label?: string
  /** Undefined until they are known. */
  readonly values: readonly string[] | undefined
  readonly chosen: string | undefined
  readonly text?: (value: string) => string
}

/** A choice among fewer than two values would filter nothing. */
export function ValueFilter(props: ValueFilterProps) {
  const { name, all, label = all, values = [], chosen = '', text = (value) => value } = props
  if (values.length < 2 && chosen === '') return null
  const offered = chosen === '' || values.includes(chosen) ? values : [chosen, ...values]
  return (
    <FilterSelect
      label={label}
      value={chosen}
      change={(value) => changeQuery({ [name]: value })}
      options={[['', all], ...offered.map((value) => [value, text(value)] as const)]}
    />
  )
}

interface Rows {
  readonly group: string
  /** The word for a row: `ticket`. */
  readonly noun: string
  readonly count: number
  /** The number of the chosen row. */
  readonly at: number | undefined
  readonly choose: (at: number) => void
}

/** The acts that choose the next row and the one before. */
export function stepActs({ group, noun, count, at, choose }: Rows): Act[] {
  const step = (by: number) => choose(Math.max(0, Math.min(count - 1, at === undefined ? 0 : at + by)))
  return [
    { id: `next ${noun}`, title: `Next ${noun}`, group, keys: 'j', act: () => step(1) },
    { id: `previous ${noun}`, title: `Previous ${noun}`, group, keys: 'k', act: () => step(-1) },
  ]
}
