/**
 * A long list of which only the rows in view are in the document.
 *
 * The rows scroll with the element that `scroller` finds, or with the window. Heights are measured where rows differ.
 */

import { useSignal } from '@preact/signals'
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'

export interface VirtualRowsProps {
  readonly count: number
  /** How many rows there are with those that are not read yet; undefined while it is not known. */
  readonly total?: number | undefined
  /** The usual height of a row in pixels. */
  readonly height: number
  readonly keyOf: (row: number) => string | number
  readonly row: (row: number) => ComponentChildren
  readonly label: string
  /** Its style may use `--rows-height`, the height of all rows. */
  readonly class?: string
  /** A row to bring into view, whenever it is another one than before. */
  readonly shown?: number | undefined
  /** The history keeps how far the rows are scrolled, under this name. */
  readonly offsetName?: string
  /** The last row comes into view. */
  readonly onEnd?: () => void
}

/** Rows above and below the view. */
const OVERSCAN = 12

export function VirtualRows(props: VirtualRowsProps) {
  const { count, height, keyOf, row, label, class: className = '', shown, offsetName, onEnd } = props
  const scroller = useRef<HTMLDivElement>(null)
  const version = useSignal(0)
  // The library computes all places again for another function, so its functions stay and read what is current.
  const current = useRef({ keyOf, height })
  current.current = { keyOf, height }
  const { virtualizer, estimateSize, getItemKey } = useMemo(() => {
    const sizeOf = () => current.current.height
    const keyAt = (index: number) => current.current.keyOf(index)
    const made = new Virtualizer<HTMLDivElement, HTMLDivElement>({
      count,
      estimateSize: sizeOf,
      getScrollElement: () => scroller.current,
      getItemKey: keyAt,
      overscan: OVERSCAN,
      observeElementRect,
      observeElementOffset,
      scrollToFn: elementScroll,
      onChange: () => {
        version.value += 1
      },
    })
    return { virtualizer: made, estimateSize: sizeOf, getItemKey: keyAt }
  }, [])
  virtualizer.setOptions({ ...virtualizer.options, count, estimateSize, getItemKey })
  useEffect(() => virtualizer._didMount(), [])
  useLayoutEffect(() => virtualizer._willUpdate())
  useEffect(() => virtualizer.measure(), [height])
  useEffect(() => {
    if (shown !== undefined) virtualizer.scrollToIndex(shown)
  }, [shown])
  void version.value
  const items = virtualizer.getVirtualItems()
  const isAtEnd = items.at(-1)?.index === count - 1
  useEffect(() => {
    if (isAtEnd) onEnd?.()
  }, [isAtEnd, count])
  const total = virtualizer.getTotalSize()
  return (
    <div
      ref={(element) => {
        scroller.current = element
        element?.style.setProperty('--rows-height', `${total}px`)
      }}
      class={`virtual ${className}`}
      role="table"
      aria-rowcount={props.total ?? (onEnd === undefined ? count : -1)}
      aria-label={label}
      data-offset={offsetName}
      tabIndex={0}
    >
      <div class="virtual-space" ref={(space) => space?.style.setProperty('height', `${total}px`)}>
        {items.map((item) => (
          <div
            key={item.key}
            class="virtual-row"
            role="row"
            aria-rowindex={item.index + 1}
            data-index={item.index}
            ref={(element) => element?.style.setProperty('transform', `translateY(${item.start}px)`)}
          >
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  )
}
