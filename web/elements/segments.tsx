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
