/**
 * The rows in view of a long list, for components that draw their own rows of different heights.
 *
 * The rows scroll with the page, or inside of an element. Rows added in front do not move the row that a person reads,
 * where the list is asked for that.
 */
import { useSignal } from '@preact/signals'
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  observeWindowOffset,
  observeWindowRect,
  type VirtualItem,
  Virtualizer,
  windowScroll,
} from '@tanstack/virtual-core'
import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'

export interface VirtualListOptions {
  readonly count: number
  /** Changes whenever the rows do. All places are computed again then, which takes long in a long list. */
  readonly version: unknown
  /** A key stays with its row for good. */
  readonly keyOf: (row: number) => string | number
  /** The height in pixels before the row is measured. */
  readonly heightOf: (row: number) => number
  /** The element that scrolls; without one the rows scroll with the page. */
  readonly scroller?: RefObject<HTMLDivElement | null>
  /** Whether the row in view keeps its place when rows come in front. */
  readonly isFromEnd?: boolean
}

export interface VirtualList {
  /** Goes to the element that is as high as all rows together. */
  readonly space: RefObject<HTMLDivElement | null>
  readonly items: readonly VirtualItem[]
  /** The height of all rows together in pixels. */
  readonly total: number
  /** The distance of a row from the upper edge of the space. */
  readonly topOf: (item: VirtualItem) => number
  /** Goes to the element of each row whose height may differ from what was expected. */
  readonly measure: (row: Element | null) => void
  readonly scrollTo: (row: number, align?: 'auto' | 'start' | 'center' | 'end') => void
  /** Forgets all heights, after a change that concerns every row. */
  readonly measureAgain: () => void
}

/** Rows above and below the view. */
const OVERSCAN_ROWS = 10

type Any = Virtualizer<HTMLDivElement, Element> | Virtualizer<Window, Element>

export function useVirtualList(options: VirtualListOptions): VirtualList {
  const space = useRef<HTMLDivElement>(null)
  const version = useSignal(0)
  const margin = useRef(0)
  const current = useRef(options)
  current.current = options
  const ofRows = useRef<RowFunctions>({ getItemKey: options.keyOf, estimateSize: options.heightOf })
  // The library computes all places again when it gets other functions.
  ofRows.current = useMemo(
    () => ({
      getItemKey: (row) => current.current.keyOf(row),
      estimateSize: (row) => current.current.heightOf(row),
    }),
    [options.version],
  )
  const { virtualizer, update } = useMemo(
    () =>
      createVirtualizer(current, ofRows, margin, () => {
        version.value += 1
      }),
    [],
  )
  update()
  void version.value
  useEffect(() => virtualizer._didMount(), [])
  useLayoutEffect(() => {
    if (options.scroller === undefined && space.current !== null) {
      const top = Math.round(space.current.getBoundingClientRect().top + scrollY)
      if (top !== margin.current) {
        margin.current = top
        version.value += 1
      }
    }
    space.current?.style.setProperty('height', `${virtualizer.getTotalSize()}px`)
    virtualizer._willUpdate()
  })
  return {
    space,
    items: virtualizer.getVirtualItems(),
    total: virtualizer.getTotalSize(),
    topOf: ({ start }) => start - margin.current,
    measure: virtualizer.measureElement,
    scrollTo: (row, align = 'auto') => virtualizer.scrollToIndex(row, { align }),
    measureAgain: () => virtualizer.measure(),
  }
}

interface RowFunctions {
  readonly getItemKey: (row: number) => string | number
  readonly estimateSize: (row: number) => number
}

function createVirtualizer(
  current: { readonly current: VirtualListOptions },
  ofRows: { readonly current: RowFunctions },
  margin: { readonly current: number },
  onChange: () => void,
): { readonly virtualizer: Any; readonly update: () => void } {
  const shared = () => ({
    count: current.current.count,
    ...ofRows.current,
    overscan: OVERSCAN_ROWS,
    scrollMargin: margin.current,
    ...(current.current.isFromEnd === true ? { anchorTo: 'end' as const } : {}),
    onChange,
  })
  const { scroller } = current.current
  if (scroller === undefined) {
    const parts = {
      getScrollElement: () => window,
      observeElementRect: observeWindowRect,
      observeElementOffset: observeWindowOffset,
      scrollToFn: windowScroll,
      initialOffset: () => scrollY,
    }
    const virtualizer = new Virtualizer<Window, Element>({ ...parts, ...shared() })
    return { virtualizer, update: () => virtualizer.setOptions({ ...parts, ...shared() }) }
  }
  const parts = {
    getScrollElement: () => scroller.current,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
  }
  const virtualizer = new Virtualizer<HTMLDivElement, Element>({ ...parts, ...shared() })
  return { virtualizer, update: () => virtualizer.setOptions({ ...parts, ...shared() }) }
}
