/** The sequence of the chosen actor and those around it, as lanes; and the slider that leads back in time. */
import { signal, useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { shortenMiddle } from '../../protocol/shorten.ts'
import { keepText, readKeptText } from '../kept-text.ts'
import { clockWithMs, type Surroundings, senderOf, surroundingsOf, titleOf } from './causes.ts'
import { type Sequence, type SequenceRow, sequenceOf } from './sequence.ts'
import {
  chosenActorId,
  chosenRecord,
  cursor,
  lanes,
  model,
  moveCursor,
  recordsOfLanes,
  source,
} from './state.ts'

const ROW = 20
const LANE_MIN = 200
const LANE_MAX = 300
const LEFT = 136
const OVERSCAN = 10
/** The length of an arrow from outside. */
const OUTSIDE = 64
const NAME_CHARS = 24
const SENDER_CHARS = 22
/** From outside there is room for words. */
const OUTSIDE_CHARS = 30
/** Words behind the last lane. */
const RIGHT = 120

export function SequenceView() {
  const { histories, lastN } = model()
  const ids = lanes.value
  const whole = useMemo(() => sequenceOf(ids, histories), [ids, lastN, histories.size])
  const until = cursor.value
  const count =
    until === undefined ? whole.rows.length : whole.rows.filter(({ record }) => record.n <= until).length
  return (
    <section class="sequence" aria-label="Sequence">
      <SequenceEdge />
      <div class="sequence-head">
        <h2>
          Sequence <span class="faint">{ids.length === 1 ? '1 actor' : `${ids.length} actors`}</span>
        </h2>
        <TimeSlider rows={whole.rows} count={count} />
      </div>
      <Lanes ids={ids} sequence={whole} count={count} />
    </section>
  )
}

function TimeSlider({ rows, count }: { readonly rows: readonly SequenceRow[]; readonly count: number }) {
  const first = rows[0]?.record
  const at = rows[count - 1]?.record
  const isStory = source.value.is === 'story'
  return (
    <div class="time">
      <span class="mono faint">{first === undefined ? '' : clockWithMs(first.at)}</span>
      <input
        type="range"
        aria-label="Instant"
        aria-valuetext={at === undefined ? 'the beginning' : clockWithMs(at.at)}
        min={0}
        max={rows.length}
        value={count}
        onInput={({ currentTarget }) => {
          const to = Number(currentTarget.value)
          const isEnd = to >= rows.length && !isStory
          moveCursor(isEnd ? undefined : (rows[to - 1]?.record.n ?? 0))
        }}
      />
      {cursor.value === undefined ? (
        <strong class="tone-accent">Live</strong>
      ) : (
        <span class="mono">{at === undefined ? '–' : clockWithMs(at.at)}</span>
      )}
    </div>
  )
}

interface LanesProps {
  readonly ids: readonly string[]
  readonly sequence: Sequence
  readonly count: number
}

function Lanes({ ids, sequence, count }: LanesProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const top = useSignal(0)
  const height = useSignal(300)
  const available = useSignal(0)
  const isAtEnd = useRef(true)
  // The list of events has the same records for those who use no pointer.
  useEffect(() => scroller.current?.addEventListener('click', chooseMessage), [])
  useEffect(() => {
    const element = scroller.current
    if (element === null) return undefined
    const observer = new ResizeObserver(() => {
      height.value = element.clientHeight
      available.value = element.clientWidth
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  useEffect(() => {
    if (isAtEnd.current) scroller.current?.scrollTo({ top: count * ROW })
  }, [count])
  const fitting = (available.value - LEFT - RIGHT) / Math.max(1, ids.length)
  const laneWidth = Math.round(Math.min(LANE_MAX, Math.max(LANE_MIN, fitting)))
  const laneX = (lane: number): number => LEFT + (lane + 0.5) * laneWidth
  const width = LEFT + ids.length * laneWidth + RIGHT
  const around = surroundingsOf(recordsOfLanes(), chosenRecord.value)
  const from = Math.max(0, Math.floor(top.value / ROW) - OVERSCAN)
  const to = Math.min(count, Math.ceil((top.value + height.value) / ROW) + OVERSCAN)
  return (
    <div
      class="lanes"
      ref={scroller}
      tabIndex={0}
      role="group"
      aria-label="Messages between the actors"
      onScroll={({ currentTarget }) => {
        top.value = currentTarget.scrollTop
        isAtEnd.current =
          currentTarget.scrollTop + currentTarget.clientHeight >= currentTarget.scrollHeight - ROW
      }}
    >
      <LaneHeads ids={ids} width={width} laneX={laneX} />
      <svg class="lane-rows" width={width} height={Math.max(1, count) * ROW + 8} role="presentation">
        {ids.map((id, lane) => (
          <line key={id} class="lane" x1={laneX(lane)} x2={laneX(lane)} y1={0} y2={count * ROW + 8} />
        ))}
        {sequence.spans
          .filter(({ fromRow, toRow }) => fromRow < to && toRow > from)
          .map(({ lane, state, fromRow, toRow }) => (
            <g key={`${lane} ${fromRow}`} class="span">
              <title>{state}</title>
              <rect
                x={laneX(lane) - 4}
                y={fromRow * ROW + 10}
                width={8}
                height={Math.max(4, (Math.min(toRow, count) - fromRow) * ROW - 2)}
                rx={2}
                class={fromRow % 2 === 0 ? 'even' : 'odd'}
              />
            </g>
          ))}
        {sequence.rows.slice(from, to).map((row, index) => (
          <Message key={row.record.n} row={row} y={(from + index) * ROW + 12} laneX={laneX} around={around} />
        ))}
      </svg>
    </div>
  )
}

interface LaneHeadsProps {
  readonly ids: readonly string[]
  readonly width: number
  readonly laneX: (lane: number) => number
}

const LaneHeads = ({ ids, width, laneX }: LaneHeadsProps) => (
  <svg class="lane-heads" width={width} height={34} aria-hidden="true">
    {ids.map((id, lane) => (
      <g key={id} class={id === chosenActorId.value ? 'chosen' : ''}>
        <title>{id}</title>
        <rect x={laneX(lane) - 80} y={4} width={160} height={24} rx={6} />
        <text x={laneX(lane)} y={20} text-anchor="middle">
          {shortenMiddle(id, 22)}
        </text>
      </g>
    ))}
  </svg>
)

// ---- one message ---------------------------------------------------------------------------------------------------

interface MessageProps {
  readonly row: SequenceRow
  readonly y: number
  readonly laneX: (lane: number) => number
  readonly around: Surroundings
}

function Message({ row, y, laneX, around }: MessageProps) {
  const { record, to, from } = row
  const x2 = laneX(to)
  const isOutside = from === undefined || from === to || from < 0
  const x1 = isOutside ? x2 - OUTSIDE : laneX(from)
  const direction = x1 < x2 ? -1 : 1
  const tip = x2 + direction * 5
  const isRelated = record.n === around.cause || around.effects.has(record.n)
  const mark = record.n === chosenRecord.value ? ' chosen' : isRelated ? ' related' : ''
  // From outside the words stand behind the lane, where no arrow is.
  const words = isOutside ? { x: x2 + 10, y: y + 4 } : { x: Math.min(x1, x2) + 10, y: y - 4 }
  return (
    <g class={`message${mark}`} data-n={record.n}>
      <title>{`${titleOf(record)} from ${senderOf(record)}`}</title>
      <text class="at" x={4} y={y + 4}>
        {clockWithMs(record.at)}
      </text>
      <line x1={x1} x2={tip} y1={y} y2={y} />
      <path d={`M${tip},${y} l${direction * 7},-3.5 v7 z`} />
      <text class="name" x={words.x} y={words.y}>
        {shortenMiddle(record.name === '' ? record.is : record.name, NAME_CHARS)}
        <tspan class="sender">
          {' '}
          from {shortenMiddle(senderOf(record), isOutside ? OUTSIDE_CHARS : SENDER_CHARS)}
        </tspan>
      </text>
    </g>
  )
}

function chooseMessage({ target }: Event): void {
  const message = target instanceof Element ? target.closest('.message') : null
  const n = Number(message?.getAttribute('data-n') ?? Number.NaN)
  if (!Number.isNaN(n)) chosenRecord.value = n
}

// ---- the edge ------------------------------------------------------------------------------------------------------

const KEY = 'switchyard-inspector-sequence'
const HEIGHT = 330
const HEIGHT_MIN = 120
/** The chart keeps at least so much. */
const ABOVE_MIN = 220
const STEP = 24

const highest = (): number => Math.max(HEIGHT_MIN, innerHeight - ABOVE_MIN)
const within = (height: number): number => Math.round(Math.max(HEIGHT_MIN, Math.min(highest(), height)))

const height = signal(Number(readKeptText(KEY)) || HEIGHT)

function change(to: number): void {
  height.value = within(to)
  keepText(KEY, String(height.value))
}

/** The upper edge of the sequence: dragged, or moved by the arrow keys, it changes the sequence's height. */
function SequenceEdge() {
  const edge = useRef<HTMLDivElement>(null)
  const { value } = height
  useLayoutEffect(() => {
    edge.current?.closest<HTMLElement>('.inspector')?.style.setProperty('--sequence', `${within(value)}px`)
  }, [value])
  return (
    <div
      ref={edge}
      class="sequence-edge"
      // A separator that can be moved is a widget, and has the focus.
      role="separator"
      tabIndex={0}
      aria-orientation="horizontal"
      aria-label="Height of the sequence"
      aria-valuenow={within(value)}
      aria-valuemin={HEIGHT_MIN}
      aria-valuemax={highest()}
      onKeyDown={(event) => {
        const step = event.key === 'ArrowUp' ? STEP : event.key === 'ArrowDown' ? -STEP : 0
        if (step === 0) return
        event.preventDefault()
        change(value + step)
      }}
      onPointerDown={({ currentTarget, pointerId }) => currentTarget.setPointerCapture(pointerId)}
      onPointerMove={({ currentTarget, pointerId, clientY }) => {
        if (currentTarget.hasPointerCapture(pointerId)) change(innerHeight - clientY)
      }}
    />
  )
}
