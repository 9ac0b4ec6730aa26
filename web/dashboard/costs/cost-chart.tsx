/** The costs of each day as stacked bars. The drawing is loaded when it is first shown; its table stands below it. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { formatUsd } from '../../text/amounts.ts'
import { longDay } from '../../text/days.ts'
import { preferences } from '../state/preferences.ts'
import type { CostChartDrawing } from './chart-drawing.ts'
import type { ChartSeries, CostReport } from './cost-report.ts'

export function CostChart({ report, title }: { readonly report: CostReport; readonly title: string }) {
  const frame = useRef<HTMLDivElement>(null)
  const drawing = useRef<CostChartDrawing | undefined>(undefined)
  const pointed = useSignal<number | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const newest = useRef(report)
  newest.current = report
  useEffect(() => {
    let isShown = true
    import('./chart-drawing.ts').then(
      ({ CostChartDrawing: Drawing }) => {
        if (!isShown || frame.current === null) return
        drawing.current = new Drawing(frame.current, newest.current, (day) => {
          pointed.value = day
        })
      },
      () => {
        error.value = 'The chart could not be loaded. The table below has the same figures.'
      },
    )
    return () => {
      isShown = false
      drawing.current?.close()
      drawing.current = undefined
    }
  }, [])
  useEffect(() => drawing.current?.show(report), [report])
  const { theme } = preferences.value
  useEffect(() => drawing.current?.redraw(), [theme])
  return (
    <figure class="card cost-chart">
      <figcaption class="chart-head">
        <h2>{title}</h2>
        <Legend series={report.series} />
      </figcaption>
      {error.value !== undefined && <p class="quiet">{error.value}</p>}
      <div ref={frame} class="chart-frame" role="img" aria-label={describeChart(report)} />
      <Readout report={report} day={pointed.value} />
    </figure>
  )
}

/** Swatches have the patterns of the bars. */
function Legend({ series }: { readonly series: readonly ChartSeries[] }) {
  const keys = [...new Set(series.map(({ key }) => key))]
  return (
    <ul class="legend">
      {series.map(({ key, label, isEstimated }) => (
        <li key={`${key} ${isEstimated}`}>
          <svg class={`swatch series-${keys.indexOf(key)}`} viewBox="0 0 12 12" aria-hidden="true">
            {isEstimated ? (
              <>
                <rect x="0.75" y="0.75" width="10.5" height="10.5" rx="2" fill="none" stroke="currentColor" />
                <path d="M1 7L7 1M2.5 11L11 2.5M7.5 11L11 7.5" stroke="currentColor" stroke-width="1.4" />
              </>
            ) : (
              <rect width="12" height="12" rx="2" fill="currentColor" />
            )}
          </svg>
          {label}
          {isEstimated && ', estimated'}
        </li>
      ))}
    </ul>
  )
}

/** The figures of the day under the pointer, or nothing: the table has them for everyone else. */
function Readout({ report, day }: { readonly report: CostReport; readonly day: number | undefined }) {
  const name = day === undefined ? undefined : report.days[day]
  if (day === undefined || name === undefined) return <p class="readout" aria-hidden="true" />
  const parts = report.series.flatMap(({ label, isEstimated, amounts }) => {
    const amount = amounts[day] ?? 0
    return amount === 0 ? [] : [`${label} ${isEstimated ? '~' : ''}${formatUsd(amount)}`]
  })
  return (
    <p class="readout" aria-hidden="true">
      <strong>{longDay(name)}</strong> {parts.length === 0 ? 'nothing' : parts.join(', ')}
    </p>
  )
}

function describeChart({ days, byDay, total }: CostReport): string {
  const [first, last] = [days[0], days.at(-1)]
  if (first === undefined || last === undefined) return 'No days'
  const highest = byDay.reduce((a, b) => ((b.costUsd ?? 0) > (a.costUsd ?? 0) ? b : a))
  const sum = total.costUsd === undefined ? 'nothing with an amount' : formatUsd(total.costUsd)
  return `Bars of ${days.length} days, ${sum} in all; the highest is ${longDay(highest.key)} with ${formatUsd(highest.costUsd ?? 0)}. The table by day has all of them.`
}
