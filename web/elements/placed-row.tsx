/** A row of a virtual list at its place. Its height is measured when it may differ from what was expected. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

export interface PlacedRowProps {
  readonly class: string
  readonly index: number
  /** Pixels from the upper edge of the list's space. */
  readonly top: number
  /** Absent for a row that has the expected height. */
  readonly measure: ((row: Element | null) => void) | undefined
  readonly children: ComponentChildren
}

export function PlacedRow({ class: className, index, top, measure, children }: PlacedRowProps) {
  const row = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    // The page's policy refuses style attributes.
    row.current?.style.setProperty('transform', `translateY(${top}px)`)
  }, [top])
  useLayoutEffect(() => measure?.(row.current), [measure])
  return (
    <div ref={row} class={className} role="row" aria-rowindex={index + 1} data-index={index}>
      {children}
    </div>
  )
}
