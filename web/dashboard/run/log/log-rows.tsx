/** The rows of the log that are in view, in an element that scrolls. */
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Button } from '../../../elements/button.tsx'
import { now } from '../../../elements/moments.tsx'
import { useVirtualList } from '../../../elements/virtual-list.ts'
import { countOf } from '../../../text/amounts.ts'
import { extendLines } from './line-address.ts'
import { LogRow } from './log-row.tsx'
import type { LogView } from './log-view.ts'

const LINE_HEIGHT = 20
const PHASE_HEIGHT = 32
const GAP_HEIGHT = 32
/** Letters of the agent's words on a line, for a first guess of their height. */
const WORDS_CHARS = 110
/** Older lines are read when this few rows are above the view. */
const OLDER_ROWS = 40

export function LogRows({ view, isRunning }: { readonly view: LogView; readonly isRunning: boolean }) {
  void view.version.value
  void view.finder.version.value
  const { model } = view
  const isWrapping = view.isWrapping.value
  const lastTop = useRef(0)
  const list = useVirtualList({
    count: model.rowCount,
    keyOf: (row) => model.lineOf(row),
    heightOf: (row) => heightOf(view, row),
    scrolls: 'inside',
    isFromEnd: true,
  })
  const toEnd = (): void => {
    const scroller = list.scroller.current
    if (scroller !== null) scroller.scrollTop = scroller.scrollHeight
  }
  view.scroller = {
    toRow: (row) => list.scrollTo(row, 'center'),
    toEnd,
    firstRow: () => list.items.find(({ end }) => end > (list.scroller.current?.scrollTop ?? 0))?.index ?? 0,
  }
  useLayoutEffect(() => {
    if (view.isFollowing.value) toEnd()
  })
  useEffect(() => list.measureAgain(), [isWrapping])
  const onScroll = (): void => {
    const { scrollTop: top = 0, scrollHeight = 0, clientHeight = 0 } = list.scroller.current ?? {}
    view.onScroll(scrollHeight - clientHeight - top < LINE_HEIGHT, top < lastTop.current - 1)
    lastTop.current = top
    if ((list.items[0]?.index ?? OLDER_ROWS) < OLDER_ROWS && !view.isFollowing.value) void view.loadOlder()
  }
  const choose = (id: number, isRange: boolean): void => {
    const { lines } = model
    const point = { event: lines.event(id), part: lines.part(id) }
    view.isFollowing.value = false
    view.chosen.value = isRange ? extendLines(view.chosen.value, point) : { from: point, to: point }
  }
  return (
    <div class="log-view">
      <div
        ref={list.scroller}
        class={`log-scroller${isWrapping ? ' wrapping' : ''}`}
        onScroll={onScroll}
        role="table"
        aria-label="Lines"
        aria-rowcount={model.rowCount}
        // Scrolling by keys needs the focus.
        tabIndex={0}
      >
        <div ref={list.space} class="log-space" role="rowgroup">
          {list.items.map((item) => (
            <div
              key={item.key}
              class="log-row"
              role="row"
              aria-rowindex={item.index + 1}
              data-index={item.index}
              ref={(element) => {
                element?.style.setProperty('transform', `translateY(${item.start}px)`)
                if (isWrapping || isMeasured(view, item.index)) list.measure(element)
              }}
            >
              <LogRow
                view={view}
                row={item.index}
                now={isRunning && isPhase(view, item.index) ? now.value : undefined}
                choose={choose}
              />
            </div>
          ))}
        </div>
      </div>
      {model.rowCount === 0 && <p class="log-empty quiet">{emptyWords(view)}</p>}
      {view.unseen.value > 0 && (
        <span class="log-unseen">
          <Button act={() => view.follow()}>{countOf(view.unseen.value, 'new line')}</Button>
        </span>
      )}
    </div>
  )
}

const emptyWords = (view: LogView): string =>
  view.model.lines.count === 0
    ? 'The run has not written anything yet.'
    : `None of the ${countOf(view.model.lines.count, 'line')} is of this kind.`

const isPhase = (view: LogView, row: number): boolean =>
  view.model.lines.kind(view.model.lineOf(row)) === 'phase'

/** The rows of these kinds wrap. */
function isMeasured({ model }: LogView, row: number): boolean {
  const kind = model.lines.kind(model.lineOf(row))
  return kind === 'words' || kind === 'gap' || kind === 'phase'
}

function heightOf({ model }: LogView, row: number): number {
  const id = model.lineOf(row)
  const kind = model.lines.kind(id)
  if (kind === 'phase') return PHASE_HEIGHT
  if (kind === 'gap') return GAP_HEIGHT
  return kind === 'words'
    ? LINE_HEIGHT * Math.max(1, Math.ceil(model.lines.text(id).length / WORDS_CHARS))
    : LINE_HEIGHT
}
