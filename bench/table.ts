/**
 * Formats figures as lines of text: aligned columns, one line per figure, notes indented below.
 */
import { type Figure, isClose, type Spread, type Target, verdict } from './figures.ts'

const HEADINGS = [
  'figure',
  'ours',
  'raw',
  'unit',
  'ratio (min–max)',
  'by processor time',
  'target',
  'verdict',
]
/** Numbers are aligned right, words left. */
const RIGHT = [false, true, true, false, true, true, false, false]

export function table(figures: readonly Figure[]): string {
  const cells = figures.map(cellsOf)
  const widths = HEADINGS.map((heading, at) =>
    Math.max(heading.length, ...cells.map((row) => row[at]?.length ?? 0)),
  )
  const line = (row: readonly string[]): string =>
    row
      .map((cell, at) => (RIGHT[at] ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0)))
      .join('  ')
      .trimEnd()
  const body = figures.flatMap(({ notes }, at) => [
    line(cells[at] ?? []),
    ...notes.map((note) => `    ${note}`),
  ])
  return [line(HEADINGS), line(widths.map((width) => '─'.repeat(width))), ...body].join('\n')
}

function cellsOf(figure: Figure): string[] {
  const { name, ours, raw, unit, ratio, target } = figure
  return [
    name,
    amount(ours.median),
    raw === undefined ? '' : amount(raw.median),
    unit,
    ratio === undefined ? range(ours, amount) : `${factor(ratio.median)} ${range(ratio, factor)}`,
    processorText(figure),
    target === undefined ? '' : targetText(target, unit),
    verdictText(figure),
  ]
}

function processorText({ processor }: Figure): string {
  if (processor === undefined) return ''
  const { ours, raw, ratio } = processor
  return `${amount(ours.median)}/${amount(raw.median)} µs, ${factor(ratio.median)} ${range(ratio, factor)}`
}

function range({ min, max }: Spread, text: (value: number) => string): string {
  return `(${text(min)}–${text(max)})`
}

function targetText({ of, is, bound }: Target, unit: string): string {
  const sign = is === 'at least' ? '≥' : '≤'
  if (of === 'ours') return `${sign} ${amount(bound)} ${unit}`
  return of === 'ratio' ? `${sign} ${factor(bound)}` : `${sign} ${factor(bound)} processor`
}

function verdictText(figure: Figure): string {
  const text = verdict(figure)
  if (text === 'no target') return ''
  return isClose(figure) ? `${text} (close)` : text
}

const factor = (value: number): string => `${value.toFixed(2)}×`

/** Three digits, because the noise allows no more. */
export function amount(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  const [whole = '', part] = value.toFixed(digits).split('.')
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return part === undefined ? grouped : `${grouped}.${part}`
}
