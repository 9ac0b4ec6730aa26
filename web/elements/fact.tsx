/** A fact in a list of facts: its name, and what it is. */
import type { ComponentChildren } from 'preact'

export const Fact = ({ name, children }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)
