/**
 * Draws the bars of a chart of costs: uPlot gives scales, axes and the pointer, the bars are drawn here.
 *
 * Colours are read from the stylesheet at each drawing, so that a change of the theme needs a redraw only.
 */
import uPlot from 'uplot'
import { dayAndMonth, shortDay } from '../../text/days.ts'
import type { CostReport } from './cost-report.ts'
import { shortUsd } from './cost-report.ts'

const HEIGHT = 280
const BAR_SHARE = 0.68
const BAR_PIXELS_MAX = 46
/** A label needs so many pixels. */
const DAY_PIXELS = 52
/** Above the highest bar is room for its amount. */
const HEADROOM = 1.14
const TOKENS = ['--accent', '--accent-mid', '--text-3', '--control'] as const
const WEEKDAYS_MAX = 14
/** Labels of larger amounts have no cents. */
const LABEL_CENTS_MAX = 10
const HATCH_PIXELS = 5

export class CostChartDrawing {
  readonly #frame: HTMLElement
  readonly #plot: uPlot
  readonly #resizing: ResizeObserver
  readonly #dark = matchMedia('(prefers-color-scheme: dark)')
  readonly #onTheme = () => this.redraw()
  #report: CostReport

  /** @param point is told the day under the pointer, by its place in the range */
  constructor(frame: HTMLElement, report: CostReport, point: (day: number | undefined) => void) {
    this.#frame = frame
    this.#report = report
    this.#plot = new uPlot(this.#options(point), dataOf(report), frame)
    this.#resizing = new ResizeObserver(() => {
      this.#plot.setSize({ width: frame.clientWidth, height: HEIGHT })
    })
    this.#resizing.observe(frame)
    this.#dark.addEventListener('change', this.#onTheme)
  }

  show(report: CostReport): void {
    this.#report = report
    this.#plot.setData(dataOf(report))
  }

  redraw(): void {
    this.#plot.redraw(false, true)
  }

  close(): void {
    this.#dark.removeEventListener('change', this.#onTheme)
    this.#resizing.disconnect()
    this.#plot.destroy()
  }

  #options(point: (day: number | undefined) => void): uPlot.Options {
    const font = () => `500 11px ${getComputedStyle(this.#frame).fontFamily}`
    return {
      width: this.#frame.clientWidth,
      height: HEIGHT,
      padding: [8, 16, 0, 0],
      legend: { show: false },
      cursor: { x: false, y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: false, range: () => [-0.5, this.#report.days.length - 0.5] },
        y: { range: (_, __, highest) => [0, Math.max(highest, 0.01) * HEADROOM] },
      },
      axes: [
        {
          stroke: () => this.#color('--text-3'),
          font: font(),
          size: 24,
          gap: 4,
          grid: { show: false },
          ticks: { show: false },
          splits: (plot) => this.#labelledDays(plot),
          values: (_, splits) => this.#dayNames(splits),
        },
        {
          stroke: () => this.#color('--text-3'),
          font: font(),
          size: (_, values) => 16 + 7 * Math.max(0, ...(values ?? []).map((value) => String(value).length)),
          space: 52,
          grid: { stroke: () => this.#color('--line'), width: 1 },
          ticks: { show: false },
          values: (_, splits) => splits.map(shortUsd),
        },
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: {
        draw: [() => this.#drawBars()],
        setCursor: [
          ({ cursor }) =>
            point(cursor.left === undefined || cursor.left < 0 ? undefined : (cursor.idx ?? undefined)),
        ],
      },
    }
  }

  /** Today is always named, and of the others as many as there is width for. */
  #labelledDays(plot: uPlot): number[] {
    const count = this.#report.days.length
    const step = Math.max(1, Math.ceil((count * DAY_PIXELS) / Math.max(1, plot.width)))
    return Array.from({ length: count }, (_, at) => at).filter((at) => (count - 1 - at) % step === 0)
  }

  /** The days of the week matter within two weeks, and the months in a longer range. */
  #dayNames(splits: readonly number[]): string[] {
    const { days } = this.#report
    const nameOf = days.length > WEEKDAYS_MAX ? dayAndMonth : shortDay
    return splits.map((at) => nameOf(days[at] ?? ''))
  }

  #drawBars(): void {
    const { ctx } = this.#plot
    const { series, days } = this.#report
    const ratio = uPlot.pxRatio
    const step = Math.abs(this.#x(1) - this.#x(0))
    const width = Math.min(step * BAR_SHARE, BAR_PIXELS_MAX * ratio)
    const keys = [...new Set(series.map(({ key }) => key))]
    const colors = keys.map((_, at) => this.#color(TOKENS[at] ?? '--control'))
    ctx.save()
    for (const [at] of days.entries()) {
      const left = Math.round(this.#x(at) - width / 2)
      let sum = 0
      for (const { key, isEstimated, amounts } of series) {
        const amount = amounts[at] ?? 0
        if (amount <= 0) continue
        const bottom = this.#y(sum)
        sum += amount
        const top = this.#y(sum)
        const color = colors[keys.indexOf(key)] ?? ''
        this.#drawBlock({ left, top, width: Math.round(width), height: bottom - top, color, isEstimated })
      }
    }
    this.#drawAmounts()
    ctx.restore()
  }

  #drawBlock(block: Bar): void {
    const { ctx } = this.#plot
    const { left, top, width, height, color, isEstimated } = block
    const ratio = uPlot.pxRatio
    // A hairline of the ground parts the blocks of a stack.
    const shown = Math.max(1, height - ratio)
    ctx.beginPath()
    ctx.roundRect(left, top, width, shown, Math.min(2 * ratio, shown / 2))
    ctx.fillStyle = isEstimated ? (hatching(ctx, color, ratio) ?? color) : color
    ctx.fill()
    if (!isEstimated) return
    ctx.lineWidth = ratio
    ctx.strokeStyle = color
    ctx.stroke()
  }

  /** The highest bar and today carry their amounts. */
  #drawAmounts(): void {
    const { ctx } = this.#plot
    const amounts = totalsOf(this.#report)
    const highest = amounts.indexOf(Math.max(...amounts))
    ctx.font = `640 ${11 * uPlot.pxRatio}px ${getComputedStyle(this.#frame).fontFamily}`
    ctx.fillStyle = this.#color('--text')
    ctx.textAlign = 'center'
    ctx.textBaseline = 'bottom'
    for (const at of new Set([highest, amounts.length - 1])) {
      const amount = amounts[at] ?? 0
      if (amount <= 0) continue
      const text = shortUsd(amount < LABEL_CENTS_MAX ? amount : Math.round(amount))
      ctx.fillText(text, this.#x(at), this.#y(amount) - 4 * uPlot.pxRatio)
    }
  }

  #x(at: number): number {
    return this.#plot.valToPos(at, 'x', true)
  }

  #y(amount: number): number {
    return this.#plot.valToPos(amount, 'y', true)
  }

  /** A colour of the stylesheet as the theme resolves it. */
  #color(token: string): string {
    this.#frame.style.setProperty('color', `var(${token})`)
    const { color } = getComputedStyle(this.#frame)
    this.#frame.style.removeProperty('color')
    return color
  }
}

interface Bar {
  readonly left: number
  readonly top: number
  readonly width: number
  readonly height: number
  readonly color: string
  readonly isEstimated: boolean
}

const dataOf = (report: CostReport): uPlot.AlignedData => [report.days.map((_, at) => at), totalsOf(report)]

const totalsOf = ({ days, series }: CostReport): number[] =>
  days.map((_, at) => series.reduce((sum, { amounts }) => sum + (amounts[at] ?? 0), 0))

function hatching(ctx: CanvasRenderingContext2D, color: string, ratio: number): CanvasPattern | null {
  const tile = document.createElement('canvas')
  const size = Math.round(HATCH_PIXELS * ratio)
  tile.width = size
  tile.height = size
  const pen = tile.getContext('2d')
  if (pen === null) return null
  pen.strokeStyle = color
  pen.lineWidth = 1.3 * ratio
  pen.beginPath()
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, size)
    pen.lineTo(shift + size, 0)
  }
  pen.stroke()
  return ctx.createPattern(tile, 'repeat')
}
