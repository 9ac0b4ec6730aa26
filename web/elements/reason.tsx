/** A reason, its explanation and its cure: the same three parts everywhere. */
import type { ComponentChildren } from 'preact'

export interface ReasonProps {
  /** A fact in the present tense. */
  readonly fact: ComponentChildren
  readonly explanation?: ComponentChildren
  /** A link or a button. Without one, the explanation says when the reason ends by itself. */
  readonly cure?: ComponentChildren
}

export function Reason({ fact, explanation, cure }: ReasonProps) {
  return (
    <span class="reason">
      <strong>{fact}</strong>
      {explanation !== undefined && <span class="quiet"> {explanation}</span>}
      {cure !== undefined && <> {cure}</>}
    </span>
  )
}
