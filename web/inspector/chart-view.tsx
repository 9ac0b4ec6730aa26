/** The chosen actor's chart: its states are lit as they are, or as they were at the instant that is looked at. */
import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { Button } from '../elements/button.tsx'
import { Skeleton } from '../elements/placeholder.tsx'
import { surroundingsOf } from './causes.ts'
import {
  type ChartPart,
  firstPart,
  listenForGestures,
  type Size,
  wholeChart,
  ZOOM_STEP,
  zoomPart,
} from './chart-gestures.ts'
import { arrowsAround, charts, loadCharts, type MachineChart, marksOf } from './charts.ts'
import type { ActorMoment } from './model.ts'
import { chosenActorId, chosenRecord, recordsOfLanes } from './state.ts'

export interface ChartViewProps {
  readonly kind: string
  readonly moment: ActorMoment
}

export function ChartView({ kind, moment }: ChartViewProps) {
  useEffect(() => void loadCharts().catch(() => {}), [])
  const chart = charts.value?.[kind]
  if (charts.value === undefined) return <Skeleton rows={4} />
  if (chart === undefined) return <p class="quiet padded">This version has no chart of {kind}.</p>
  return <Chart key={kind} chart={chart} kind={kind} moment={moment} />
}

function Chart({ chart, kind, moment }: ChartViewProps & { readonly chart: MachineChart }) {
  const place = useRef<HTMLDivElement>(null)
  const chosen = useSignal<string | undefined>(undefined)
  const drawing = useMemo(() => {
    const svg = new DOMParser().parseFromString(chart.svg, 'image/svg+xml').documentElement
    svg.setAttribute('role', 'img')
    return document.importNode(svg, true)
  }, [chart])
  const { state, entered } = moment
  const marks = marksOf(chart, state, entered)
  const records = recordsOfLanes()
  const related = arrowsAround(
    chart,
    records.filter(({ actor }) => actor === chosenActorId.value),
    chosenRecord.value,
    surroundingsOf(records, chosenRecord.value),
  )
  useLayoutEffect(() => place.current?.replaceChildren(drawing), [drawing])
  useEffect(() => {
    // The list beside the chart has the same arrows for those who use no pointer.
    const choose = ({ target }: Event) => {
      const group = target instanceof Element ? target.closest('g.arrow, g.any') : null
      const id = group?.id === 'n:' ? 'e:>' : group?.id
      chosen.value = id === chosen.value ? undefined : id
    }
    drawing.addEventListener('click', choose)
    return () => drawing.removeEventListener('click', choose)
  }, [drawing])
  useLayoutEffect(() => {
    drawing.setAttribute(
      'aria-label',
      `The states of ${kind}; ${moment.isOver ? 'ended in' : 'now'} ${state}`,
    )
    for (const group of drawing.querySelectorAll('g[id]')) {
      const { id } = group
      group.classList.toggle('active', id === marks.active)
      group.classList.toggle('around', marks.around.includes(id))
      group.classList.toggle('last', id === marks.arrow)
      group.classList.toggle('related', related.has(id))
      group.classList.toggle('chosen', id === chosen.value)
    }
  })
  const zoom = useChartPart(place, drawing, marks.active)
  const arrows = chart.arrows.filter(({ from, to }) => `e:${from}>${to}` === chosen.value)
  return (
    <>
      <div class="chart-frame">
        <div
          ref={place}
          class="chart"
          role="group"
          tabIndex={0}
          aria-label="Chart. Arrow keys move it, + and − zoom, 0 fits it."
        />
        <div class="chart-buttons">
          <Button small label="Zoom out" act={() => zoom.by(1 / ZOOM_STEP)}>
            −
          </Button>
          <Button small label="Zoom in" act={() => zoom.by(ZOOM_STEP)}>
            +
          </Button>
          <Button small act={zoom.fit}>
            Fit
          </Button>
        </div>
      </div>
      {arrows.length > 0 && <ArrowList arrows={arrows} />}
    </>
  )
}

const ArrowList = ({ arrows }: Pick<MachineChart, 'arrows'>) => (
  <ul class="arrow-list">
    {arrows.map(({ event = 'at once', guard, actions }) => (
      <li key={`${event} ${guard}`}>
        <strong>{event}</strong>
        {guard !== undefined && <span class="quiet"> when {guard}</span>}
        {actions.length > 0 && <span class="faint"> / {actions.join(', ')}</span>}
      </li>
    ))}
  </ul>
)

// ---- the part in view ----------------------------------------------------------------------------------------------

type PlaceRef = { readonly current: HTMLDivElement | null }

const sizeOf = (place: HTMLElement | null): Size => ({
  width: Math.max(1, place?.clientWidth ?? 1),
  height: Math.max(1, place?.clientHeight ?? 1),
})

function sizeOfDrawing(drawing: Element): Size {
  const [, , width = 1, height = 1] = (drawing.getAttribute('viewBox') ?? '').split(' ').map(Number)
  return { width, height }
}

/** The middle of the active state, in units of the drawing. */
function middleOf(drawing: Element, chart: Size, active: string | undefined): { x: number; y: number } {
  const group = [...drawing.querySelectorAll('g.state')].find(({ id }) => id === active)
  const [own, whole] = [group?.getBoundingClientRect(), drawing.getBoundingClientRect()]
  if (own === undefined || whole.width === 0) return { x: chart.width / 2, y: chart.height / 2 }
  const scale = chart.width / whole.width
  return {
    x: (own.left + own.width / 2 - whole.left) * scale,
    y: (own.top + own.height / 2 - whole.top) * scale,
  }
}

/** Until a person moves the chart, the active state stays in view. */
function useChartPart(place: PlaceRef, drawing: HTMLElement, active: string | undefined) {
  const chart = useMemo(() => sizeOfDrawing(drawing), [drawing])
  const current = useRef<{ part: ChartPart; isMoved: boolean }>({
    part: { scale: 1, x: 0, y: 0 },
    isMoved: false,
  })
  const show = (part: ChartPart, isMoved: boolean) => {
    current.current = { part, isMoved }
    const { scale, x, y } = part
    drawing.style.setProperty('width', `${chart.width * scale}px`)
    drawing.style.setProperty('height', `${chart.height * scale}px`)
    drawing.style.setProperty('transform', `translate(${-x * scale}px, ${-y * scale}px)`)
  }
  const showFirst = () => {
    if (!current.current.isMoved)
      show(firstPart(chart, sizeOf(place.current), middleOf(drawing, chart, active)), false)
  }
  const fit = () => show(wholeChart(chart, sizeOf(place.current)), true)
  const latest = useRef(showFirst)
  latest.current = showFirst
  useLayoutEffect(showFirst, [drawing, active])
  useEffect(() => {
    const element = place.current
    if (element === null) return undefined
    const observer = new ResizeObserver(() => latest.current())
    observer.observe(element)
    const stop = listenForGestures(element, {
      chart: () => chart,
      part: () => current.current.part,
      onChange: (part) => show(part, true),
      showWhole: fit,
    })
    return () => {
      observer.disconnect()
      stop()
    }
  }, [drawing])
  const by = (factor: number) => {
    const size = sizeOf(place.current)
    const middle = { x: size.width / 2, y: size.height / 2 }
    show(zoomPart(current.current.part, factor, middle, chart, size), true)
  }
  return { by, fit }
}
