/** A part of the panel beside the log, with its head. */
import type { ComponentChildren } from 'preact'

export interface PanelPartProps {
  readonly title: string
  readonly count?: ComponentChildren
  readonly children: ComponentChildren
}

export function PanelPart({ title, count, children }: PanelPartProps) {
  return (
    <section class="panel-part">
      <div class="panel-head">
        <h2>{title}</h2>
        {count !== undefined && <span class="faint">{count}</span>}
      </div>
      {children}
    </section>
  )
}
