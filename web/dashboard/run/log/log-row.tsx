/** A row of the log: number, time, mark, text. Phases and gaps are rows of their own form. */
import type { ComponentChildren } from 'preact'
import { formatCount } from '../../../text/amounts.ts'
import { formatClock, formatDuration, formatFullTime } from '../../../text/times.ts'
import { hasColors, plainText } from './clean-text.ts'
import { type ColoredSpan, coloredSpans, legibleColor } from './colored-text.ts'
import { TOOL_SEPARATOR } from './lines-of-events.ts'
import type { LogSearch, MatchRange } from './log-finder.ts'
import type { LineKind } from './log-lines.ts'
import type { LogView } from './log-view.ts'
import { lineNumber } from './log-view.ts'
import type { ToolOutcome } from './tool-words.ts'

const MARKS: Readonly<Partial<Record<LineKind, readonly [sign: string, meaning: string]>>> = {
  'error-output': ['!', 'standard error'],
  system: ['·', 'system'],
  words: ['‹', 'agent says'],
  tool: ['›', 'agent uses'],
}

const SURFACE_LIGHT = [255, 255, 255] as const
const SURFACE_DARK = [25, 26, 29] as const

/** The values that a row is drawn from, besides signals. */
export interface DrawnRow {
  readonly row: number
  readonly top: number
  /** The end of a text may still come. */
  readonly text: string
  readonly repeats: number
  readonly outcome: ToolOutcome | undefined
  /** Whether the output of the tool is shown. */
  readonly isOpen: boolean
  /** The end of a phase, or the present while it goes on. */
  readonly end: number | undefined
  readonly measure: ((row: Element | null) => void) | undefined
}

export interface LogRowProps {
  readonly view: LogView
  readonly drawn: DrawnRow
  readonly choose: (id: number, isRange: boolean) => void
}

export function LogRow({ view, drawn, choose }: LogRowProps) {
  const { model } = view
  const { lines } = model
  const { row, repeats } = drawn
  const id = model.lineOf(row)
  const kind = lines.kind(id)
  if (kind === 'phase') return <PhaseRow view={view} id={id} drawn={drawn} />
  const search = view.finder.search.value
  if (kind === 'gap')
    return (
      <div class="log-gap" role="cell">
        <span>{marked(lines.text(id), search)}</span>
      </div>
    )
  const point = { event: lines.event(id), part: lines.part(id) }
  const number = lineNumber(point)
  const [sign, meaning] = MARKS[kind] ?? ['', '']
  const isCurrent = id === view.finder.line
  return (
    <div
      class={`log-line ${kind}${lines.isError(id) ? ' error' : ''}${view.isChosen(id) ? ' chosen' : ''}${isCurrent ? ' current' : ''}`}
    >
      <span role="cell" class="log-number">
        <a
          href={`#L${number}`}
          tabIndex={-1}
          onClick={(event) => {
            event.preventDefault()
            choose(id, event.shiftKey)
          }}
        >
          {point.part === 0 ? formatCount(point.event + 1) : <span class="log-part">.{point.part + 1}</span>}
        </a>
      </span>
      <time role="cell" class="log-time" title={formatFullTime(lines.at(id))}>
        {formatClock(lines.at(id))}
      </time>
      <span role="cell" class="log-mark" title={meaning}>
        <span aria-hidden="true">{sign}</span>
        {meaning !== '' && <span class="visually-hidden">{meaning}</span>}
      </span>
      <span role="cell" class={`log-text${repeats > 1 ? ' repeated' : ''}`}>
        {kind === 'tool' ? (
          <ToolText view={view} id={id} drawn={drawn} />
        ) : (
          <LineText text={lines.text(id)} search={search} />
        )}
        {repeats > 1 && (
          <button type="button" class="log-repeats" title="Show each line" onClick={() => view.unfold(row)}>
            × {formatCount(repeats)}
            <span class="log-until"> until {formatClock(model.repeatedUntil(row))}</span>
          </button>
        )}
      </span>
    </div>
  )
}

interface PhaseRowProps {
  readonly view: LogView
  readonly id: number
  readonly drawn: Pick<DrawnRow, 'text' | 'end'>
}

function PhaseRow({ view, id, drawn: { text, end } }: PhaseRowProps) {
  const { lines } = view.model
  const [words = '', reason] = text.split(TOOL_SEPARATOR)
  return (
    <div class={`log-phase${lines.isError(id) ? ' error' : ''}`} role="cell">
      <strong>
        {words}
        {end === undefined ? '' : `, ${formatDuration(end - lines.at(id))}`}
      </strong>
      {reason !== undefined && <span class="log-reason">{reason}</span>}
      <span class="log-rule" aria-hidden="true" />
      <time class="faint" title={formatFullTime(lines.at(id))}>
        {formatClock(lines.at(id))}
      </time>
    </div>
  )
}

interface ToolTextProps {
  readonly view: LogView
  readonly id: number
  readonly drawn: Pick<DrawnRow, 'outcome' | 'isOpen'>
}

/** Verb, object, lines added and removed, outcome. The verb opens what the tool has printed. */
function ToolText({ view, id, drawn: { outcome, isOpen } }: ToolTextProps) {
  const [verb = '', object = '', added, removed] = view.model.lines.text(id).split(TOOL_SEPARATOR)
  const search = view.finder.search.value
  const output = outcome?.output
  return (
    <>
      {output === undefined ? (
        <span class="log-verb">{marked(verb, search)}</span>
      ) : (
        <button
          type="button"
          class="log-verb log-opener"
          aria-expanded={isOpen}
          title={isOpen ? 'Hide its output' : 'Show its output'}
          onClick={() => view.toggleOutput(output)}
        >
          <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> {marked(verb, search)}
        </button>
      )}{' '}
      {marked(object, search)}
      {added !== undefined && (
        <>
          {'  '}
          <span class="tone-good">{added}</span> <span class="tone-bad">{removed}</span>
        </>
      )}
      {outcome !== undefined && outcome.text !== '' && (
        <span class={outcome.isError ? 'tone-bad' : 'faint'}>
          {'  '}
          {outcome.text}
        </span>
      )}
    </>
  )
}

function LineText({ text, search }: { readonly text: string; readonly search: LogSearch | undefined }) {
  if (text === '') return <>{'\u200b'}</>
  if (!hasColors(text)) return <>{marked(text, search)}</>
  const ranges = search?.rangesIn(plainText(text)) ?? []
  let at = 0
  return (
    <>
      {coloredSpans(text).map((span, position) => {
        const from = at
        at += span.text.length
        const words = markRanges(
          span.text,
          ranges.map(([start, end]) => [start - from, end - from]),
        )
        return span.classes === '' && span.color === undefined ? (
          words
        ) : (
          // The spans of a line never change their order.
          <span key={position} class={span.classes} ref={(element) => paint(element, span)}>
            {words}
          </span>
        )
      })}
    </>
  )
}

/** A colour without a class is set through the object model, which the page's policy allows. */
function paint(element: HTMLElement | null, { color }: ColoredSpan): void {
  if (element === null || color === undefined) return
  const [light, dark] = [SURFACE_LIGHT, SURFACE_DARK].map(
    (surface) => `rgb(${legibleColor(color, surface).join(' ')})`,
  )
  element.style.setProperty('color', `light-dark(${light}, ${dark})`)
}

const marked = (text: string, search: LogSearch | undefined): ComponentChildren =>
  search === undefined ? text : markRanges(text, search.rangesIn(text))

function markRanges(text: string, ranges: readonly MatchRange[]): ComponentChildren {
  const inside = ranges.filter(([from, to]) => to > 0 && from < text.length && to > from)
  if (inside.length === 0) return text
  let at = 0
  const parts = inside.map(([from, to]) => {
    const before = text.slice(at, Math.max(0, from))
    at = Math.min(text.length, to)
    return [before, <mark key={from}>{text.slice(Math.max(0, from), at)}</mark>]
  })
  return [...parts, text.slice(at)]
}
