/** The chosen actor's chart: its states are lit as they are, or as they were at the instant that is looked at. */
import { useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { Skeleton } from '../elements/placeholder.tsx'
import { surroundingsOf } from './causes.ts'
import { arrowsAround, marksOf } from './chart-marks.ts'
import { charts, loadCharts, type MachineChart } from './charts.ts'
import type { ActorMoment } from './history.ts'
import { chosenActorId, chosenRecord, recordsOfLanes } from './state.ts'

export interface ChartViewProps {
  readonly kind: string
  readonly moment: ActorMoment
}

export function ChartView({ kind, moment }: ChartViewProps) {
  useEffect(() => void loadCharts(), [])
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
  useEffect(() => {
    place.current?.replaceChildren(drawing)
    const [, , width = '0'] = (drawing.getAttribute('viewBox') ?? '').split(' ')
    place.current?.style.setProperty('--chart-width', `${Math.round(Number(width) * 1.15)}px`)
  }, [drawing])
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
  useEffect(() => {
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
  const arrows = chart.arrows.filter(({ from, to }) => `e:${from}>${to}` === chosen.value)
  return (
    <>
      <div ref={place} class="chart" />
      {arrows.length > 0 && (
        <ul class="arrow-list">
          {arrows.map(({ event = 'at once', guard, actions }) => (
            <li key={`${event} ${guard}`}>
              <strong>{event}</strong>
              {guard !== undefined && <span class="quiet"> when {guard}</span>}
              {actions.length > 0 && <span class="faint"> / {actions.join(', ')}</span>}
            </li>
          ))}
        </ul>
      )}
    </>
  )
}
