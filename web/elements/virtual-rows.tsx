/**
 * A long list of rows of one height, of which only those in view are in the document.
 *
 * The rows scroll inside of their element. A place is computed from the number of its row, so that ten thousand rows
 * cost what ten do.
 */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'

export interface VirtualRowsProps {
  readonly count: number
  /** How many rows there are with those that are not read yet; undefined while it is not known. */
  readonly total?: number | undefined
  /** The height of a row in pixels. */
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
  /** The last row comes into view, or stays there while the rows or the version change. */
  readonly onEnd?: () => void
  readonly version?: unknown
}

/** Rows above and below the view. */
const OVERSCAN = 12

export function VirtualRows(props: VirtualRowsProps) {
  const { count, height, keyOf, row, label, class: className = '', shown, offsetName, onEnd, version } = props
  const scroller = useRef<HTMLDivElement>(null)
  // The first row in view, and how many are visible at once.
  const first = useSignal(0)
  const visible = useSignal(0)
  useLayoutEffect(() => {
    const element = scroller.current
    if (element === null) return undefined
    const readPlace = () => {
      first.value = Math.floor(element.scrollTop / height)
      visible.value = Math.ceil(element.clientHeight / height) + 1
    }
    const observer = new ResizeObserver(readPlace)
    observer.observe(element)
    element.addEventListener('scroll', readPlace, { passive: true })
    readPlace()
    return () => {
      observer.disconnect()
      element.removeEventListener('scroll', readPlace)
    }
  }, [height])
  useEffect(() => {
    if (shown !== undefined && scroller.current !== null)
      bringIntoView(scroller.current, shown * height, height)
  }, [shown])
  // A list that has become shorter is scrolled back by the browser a moment later.
  const top = Math.max(0, Math.min(first.value, count - visible.value))
  const from = Math.max(0, top - OVERSCAN)
  const to = Math.min(count, top + visible.value + OVERSCAN)
  const isAtEnd = count > 0 && to === count
  useEffect(() => {
    if (isAtEnd) onEnd?.()
  }, [isAtEnd, count, version])
  const heightOfAll = count * height
  return (
    <div
      ref={(element) => {
        scroller.current = element
        element?.style.setProperty('--rows-height', `${heightOfAll}px`)
      }}
      class={`virtual ${className}`}
      role="table"
      aria-rowcount={props.total ?? (onEnd === undefined ? count : -1)}
      aria-label={label}
      data-offset={offsetName}
      tabIndex={0}
    >
      <div class="virtual-space" ref={(space) => space?.style.setProperty('height', `${heightOfAll}px`)}>
        {Array.from({ length: Math.max(0, to - from) }, (_, nth) => from + nth).map((index) => (
          <div
            key={keyOf(index)}
            class="virtual-row"
            role="row"
            aria-rowindex={index + 1}
            data-index={index}
            ref={(element) => element?.style.setProperty('transform', `translateY(${index * height}px)`)}
          >
            {row(index)}
          </div>
        ))}
      </div>
    </div>
  )
}

/** Scrolls no farther than it has to. */
function bringIntoView(scroller: HTMLElement, top: number, height: number): void {
  const lowest = top + height - scroller.clientHeight
  if (scroller.scrollTop > top) scroller.scrollTop = top
  else if (scroller.scrollTop < lowest) scroller.scrollTop = lowest
}
