/** The rows of the log that are in view, in an element that scrolls. */
import { signal } from '@preact/signals'
import type { RefObject, VNode } from 'preact'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { Button } from '../../../elements/button.tsx'
import { now } from '../../../elements/moments.tsx'
import { PlacedRow } from '../../../elements/placed-row.tsx'
import { useVirtualList, type VirtualList } from '../../../elements/virtual-list.ts'
import { countOf } from '../../../text/amounts.ts'
import { TOOL_SEPARATOR } from './lines-of-events.ts'
import type { LogModel } from './log-model.ts'
import { type DrawnRow, LogRow } from './log-row.tsx'
import type { LogView } from './log-view.ts'
import { extendLines } from './log-view.ts'

const LINE_HEIGHT = 20
const PHASE_HEIGHT = 32
const GAP_HEIGHT = 32
/** Pixels of number, time and mark, and of a letter of the agent's words, to guess their height. */
const BESIDE_WORDS = 180
const LETTER_WIDTH = 6.7
const FIRST_WIDTH = 900
/** Older lines are read when this few rows are above the view. */
const OLDER_ROWS = 40

export interface LogRowsProps {
  readonly view: LogView
  readonly isRunning: boolean
  readonly knownError?: string | undefined
}

export function LogRows({ view, isRunning, knownError }: LogRowsProps) {
  void view.finder.version.value
  const { model } = view
  const isWrapping = view.isWrapping.value
  const lastTop = useRef(0)
  const rows = useMemo(() => new RowCache(), [view])
  rows.begin()
  const scroller = useRef<HTMLDivElement>(null)
  const width = scroller.current?.clientWidth ?? FIRST_WIDTH
  const list = useVirtualList({
    scroller,
    count: model.rowCount,
    version: view.version.value,
    keyOf: (row) => model.lineOf(row),
    heightOf: (row) => heightOf(view, row, width),
    isFromEnd: true,
  })
  useLogScroller(view, list, scroller)
  useEffect(() => list.measureAgain(), [isWrapping])
  // An address may have named lines before there were rows to scroll.
  useEffect(() => {
    if (view.chosen.value !== undefined) view.reveal(view.chosen.value)
  }, [view])
  const onScroll = (): void => {
    const { scrollTop: top = 0, scrollHeight = 0, clientHeight = 0 } = scroller.current ?? {}
    view.onScroll(scrollHeight - clientHeight - top < LINE_HEIGHT, top < lastTop.current - 1)
    lastTop.current = top
    if (top < OLDER_ROWS * LINE_HEIGHT && !view.isFollowing.value) void view.loadOlder()
  }
  const choose = useCallback((id: number, isRange: boolean) => chooseLine(view, id, isRange), [view])
  if (isPrinting.value) return <PrintedRows view={view} choose={choose} />
  const draw = (item: VirtualList['items'][number]): VNode => {
    const measure = isWrapping || isMeasured(view, item.index) ? list.measure : undefined
    const drawn = { ...drawnRow(view, item.index, isRunning, knownError), top: item.start, measure }
    const id = model.lineOf(item.index)
    return rows.draw(id, drawn, () => (
      <PlacedRow key={id} class="log-row" index={drawn.row} top={drawn.top} measure={measure}>
        <LogRow view={view} drawn={drawn} choose={choose} />
      </PlacedRow>
    ))
  }
  return (
    <div
      class="log-view"
      // The log of a run that has ended takes no more height than it needs; one that grows moves nothing below it.
      ref={(element) => element?.style.setProperty('flex', isRunning ? '1' : `0 1 ${list.total}px`)}
    >
      <div
        ref={scroller}
        class={`log-scroller${isWrapping ? ' wrapping' : ''}`}
        onScroll={onScroll}
        role="table"
        aria-label="Lines"
        aria-rowcount={model.rowCount}
        // Scrolling by keys needs the focus.
        tabIndex={0}
      >
        <div ref={list.space} class="log-space" role="rowgroup">
          {list.items.map(draw)}
        </div>
      </div>
      <BesideRows view={view} />
    </div>
  )
}

function chooseLine(view: LogView, id: number, isRange: boolean): void {
  const { lines } = view.model
  const point = { event: lines.event(id), part: lines.part(id) }
  view.isFollowing.value = false
  view.chosen.value = isRange ? extendLines(view.chosen.value, point) : { from: point, to: point }
}

/** Lets the view scroll the rows, and keeps the end in view while it is followed. */
function useLogScroller(view: LogView, list: VirtualList, scroller: RefObject<HTMLDivElement | null>): void {
  const toEnd = (): void => {
    const { current } = scroller
    if (current !== null) current.scrollTop = current.scrollHeight
  }
  view.scroller = {
    toRow: (row) => list.scrollTo(row, 'center'),
    toEnd,
    firstRow: () => list.items.find(({ end }) => end > (scroller.current?.scrollTop ?? 0))?.index ?? 0,
  }
  useLayoutEffect(() => {
    if (view.isFollowing.value) toEnd()
  })
}

/** The words in place of rows, and the count of new lines below the view. */
const BesideRows = ({ view }: { readonly view: LogView }) => (
  <>
    {view.model.rowCount === 0 && <p class="log-empty quiet">{emptyWords(view)}</p>}
    {view.unseen.value > 0 && (
      <span class="log-unseen">
        <Button act={() => view.follow()}>{countOf(view.unseen.value, 'new line')}</Button>
      </span>
    )}
  </>
)

function drawnRow(
  { model }: LogView,
  row: number,
  isRunning: boolean,
  knownError: string | undefined,
): Omit<DrawnRow, 'top' | 'measure'> {
  const id = model.lineOf(row)
  const end = model.endOfPhase(id)
  const isOpenPhase = isRunning && end === undefined && model.isOpenPhase(id)
  return {
    row,
    text: textOf(model, id, knownError),
    repeats: model.repeats(row),
    ...outcomeOf(model, id),
    end: isOpenPhase ? now.value : end,
  }
}

function outcomeOf(model: LogModel, id: number): Pick<DrawnRow, 'outcome' | 'isOpen'> {
  const outcome = model.outcomeOf(id)
  return { outcome, isOpen: outcome?.output !== undefined && model.isOpen(outcome.output) }
}

/** Without the reason of an end that stands above the log. */
function textOf({ lines }: LogModel, id: number, knownError: string | undefined): string {
  const text = lines.text(id)
  const isKnown = lines.kind(id) === 'phase' && text.endsWith(`${TOOL_SEPARATOR}${knownError}`)
  return isKnown ? text.slice(0, text.indexOf(TOOL_SEPARATOR)) : text
}

const emptyWords = (view: LogView): string =>
  view.model.lines.count === 0
    ? 'The run has not written anything yet.'
    : `None of the ${countOf(view.model.lines.count, 'line')} is of this kind.`

/** Keeps the rows in view as they were drawn, because scrolling draws the list again and changes few of them. */
class RowCache {
  #before = new Map<number, { readonly drawn: DrawnRow; readonly node: VNode }>()
  #current = new Map<number, { readonly drawn: DrawnRow; readonly node: VNode }>()

  begin(): void {
    this.#before = this.#current
    this.#current = new Map()
  }

  draw(id: number, drawn: DrawnRow, draw: () => VNode): VNode {
    const known = this.#before.get(id)
    const isSame = known !== undefined && KEYS.every((key) => known.drawn[key] === drawn[key])
    const entry = isSame ? known : { drawn, node: draw() }
    this.#current.set(id, entry)
    return entry.node
  }
}

const KEYS: readonly (keyof DrawnRow)[] = [
  'row',
  'top',
  'text',
  'repeats',
  'outcome',
  'isOpen',
  'end',
  'measure',
]

// ---- on paper ------------------------------------------------------------------------------------------------------

/** Rows that are printed, the newest ones: a browser lays out all of them at once. */
const PRINTED_ROWS_MAX = 5_000

const isPrinting = signal(false)
addEventListener('beforeprint', () => {
  isPrinting.value = true
})
addEventListener('afterprint', () => {
  isPrinting.value = false
})

interface PrintedRowsProps {
  readonly view: LogView
  readonly choose: (id: number, isRange: boolean) => void
}

function PrintedRows({ view, choose }: PrintedRowsProps) {
  const { model } = view
  const count = Math.min(model.rowCount, PRINTED_ROWS_MAX)
  return (
    <div class="log-printed" role="table" aria-label="Lines">
      {Array.from({ length: count }, (_, at) => model.rowCount - count + at).map((row) => {
        const id = model.lineOf(row)
        const drawn = { ...drawnRow(view, row, false, undefined), top: 0, measure: undefined }
        return (
          <div key={id} role="row">
            <LogRow view={view} drawn={drawn} choose={choose} />
          </div>
        )
      })}
    </div>
  )
}

// ---- rows ----------------------------------------------------------------------------------------------------------

/** The rows of these kinds wrap. */
function isMeasured({ model }: LogView, row: number): boolean {
  const kind = model.lines.kind(model.lineOf(row))
  return kind === 'words' || kind === 'gap' || kind === 'phase'
}

/** A close guess keeps the rows after it where they are. @param width of the list in pixels */
function heightOf({ model }: LogView, row: number, width: number): number {
  const id = model.lineOf(row)
  const kind = model.lines.kind(id)
  if (kind === 'phase') return PHASE_HEIGHT
  if (kind === 'gap') return GAP_HEIGHT
  if (kind !== 'words') return LINE_HEIGHT
  const columns = Math.max(20, (width - BESIDE_WORDS) / LETTER_WIDTH)
  const lines = model.lines.text(id).split('\n')
  return LINE_HEIGHT * lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / columns)), 0)
}
