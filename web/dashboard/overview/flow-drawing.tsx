/**
 * The flow drawing: the queue fans out to one track a worker, and joins again before the ends of runs.
 *
 * Everything in it is a link, and a list says the same for those who do not see it.
 */

import { shortenEnd } from '../../../protocol/shorten.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { capitalized } from '../../text/sentences.ts'
import { runAddress, workerAddress } from '../addresses.ts'
import { countOfToday, totals } from '../state/current-totals.ts'
import { runs, workers } from '../state/records.ts'
import { type FlowBlock, type FlowTrack, flowFrame, flowTracks, PHASES, TRACK_HEIGHT } from './flow.ts'

const WIDTH = 1080
const COLUMNS = { preparing: 300, running: 400, finalizing: 580 } as const
const BLOCK = { width: 34, height: 8, gap: 6 } as const
const NAME_AT = 196
const WORDS_AT = 650
const ENDS_AT = 890
const FAN = { queue: 62, out: 128, join: 750, in: 816, end: 1060 } as const
/** Blocks of one phase on one track before a number stands for the others. */
const BLOCKS_MAX = 4

export function FlowDrawing() {
  const tracks = flowTracks(workers.value, runs.value.values())
  return (
    <div class="card flow">
      <FlowPicture tracks={tracks} />
      <FlowCounts />
      <FlowList tracks={tracks} />
    </div>
  )
}

function FlowPicture({ tracks }: { readonly tracks: readonly FlowTrack[] }) {
  const { height, middle, top } = flowFrame(tracks.length)
  const sum = totals.value
  return (
    <svg class="flow-picture" viewBox={`0 0 ${WIDTH} ${height}`} role="group" aria-label="The flow of runs">
      <path class="flow-line" d={`M4 ${middle}H${FAN.out}`} />
      <circle class="flow-stop" cx={FAN.queue} cy={middle} r="3.5" />
      <Figure at={4} y={middle - 12} count={sum.queued} word="Queued" to="/runs?status=queued" />
      {PHASES.map((phase) => (
        <Figure
          key={phase}
          at={COLUMNS[phase]}
          y={20}
          count={sum[phase]}
          word={capitalized(phase)}
          to={`/runs?status=${phase}`}
        />
      ))}
      {tracks.map((track, at) => (
        <Track key={track.id} track={track} y={top + at * TRACK_HEIGHT} middle={middle} />
      ))}
      <path
        class="flow-line"
        d={`M${FAN.in} ${middle}h40l24 -24H${FAN.end}M${FAN.in + 40} ${middle}l24 24H${FAN.end}`}
      />
      <Figure
        at={ENDS_AT}
        y={middle - 36}
        count={sum.completedToday}
        number={countOfToday(sum.completedToday)}
        word="Completed today"
        to="/runs?status=completed&ended=today"
        tone="good"
      />
      {/* Both figures share a text, so that a long number moves the second on. */}
      <text x={ENDS_AT} y={middle + 46}>
        <FigureLink
          count={sum.failedToday}
          number={countOfToday(sum.failedToday)}
          word="Failed"
          to="/runs?status=failed&ended=today"
          tone="bad"
        />
        <FigureLink
          count={sum.cancelledToday}
          number={countOfToday(sum.cancelledToday)}
          word="Cancelled"
          to="/runs?status=cancelled&ended=today"
          gap={12}
        />
      </text>
    </svg>
  )
}

interface FigureProps {
  readonly count: number
  /** The count as it is written, where it may be incomplete. */
  readonly number?: string
  readonly word: string
  readonly to: string
  readonly tone?: 'good' | 'bad'
  /** The distance from the figure before it in the same text. */
  readonly gap?: number
}

function Figure({ at, y, ...figure }: FigureProps & { readonly at: number; readonly y: number }) {
  return (
    <text x={at} y={y}>
      <FigureLink {...figure} />
    </text>
  )
}

function FigureLink({ count, number = formatCount(count), word, to, tone, gap = 0 }: FigureProps) {
  return (
    <a href={to} class={`flow-figure ${count > 0 && tone !== undefined ? `tone-${tone}` : ''}`}>
      <tspan class="flow-count" dx={gap}>
        {number}
      </tspan>{' '}
      <tspan class="flow-word" dx="2">
        {word}
      </tspan>
    </a>
  )
}

function Track({
  track,
  y,
  middle,
}: {
  readonly track: FlowTrack
  readonly y: number
  readonly middle: number
}) {
  const slope = Math.abs(y - middle)
  const from = FAN.out + slope
  const to = FAN.join - slope + (FAN.in - FAN.join)
  return (
    <g class={`flow-track ${track.state}`}>
      <path class="flow-line" d={`M${FAN.out} ${middle}L${from} ${y}H${to}L${FAN.in} ${middle}`} />
      <a href={track.id === '' ? '/fleet' : workerAddress(track.id)}>
        <rect class="flow-plate" x={NAME_AT - 4} y={y - 9} width={96} height={18} />
        <text class="flow-name" x={NAME_AT} y={y + 4}>
          {shortenEnd(track.name, 14)}
        </text>
      </a>
      {PHASES.map((phase) => (
        <Blocks key={phase} blocks={track.blocks.filter((block) => block.phase === phase)} y={y} />
      ))}
      <rect class="flow-plate" x={WORDS_AT - 4} y={y - 9} width={track.words.length * 6 + 10} height={18} />
      <text class="flow-words" x={WORDS_AT} y={y + 4}>
        {track.words}
      </text>
    </g>
  )
}

function Blocks({ blocks, y }: { readonly blocks: readonly FlowBlock[]; readonly y: number }) {
  const [first] = blocks
  if (first === undefined) return null
  const start = COLUMNS[first.phase]
  const shown = blocks.slice(0, first.phase === 'running' ? BLOCKS_MAX : 1)
  const left = blocks.length - shown.length
  return (
    <>
      {shown.map(({ run, phase }, at) => (
        <a key={run.id} href={runAddress(run.id)}>
          <title>{`${run.ticket.identifier}, ${phase}: ${run.ticket.title}`}</title>
          <rect
            class={`flow-block ${phase}`}
            x={start + at * (BLOCK.width + BLOCK.gap)}
            y={y - BLOCK.height / 2}
            width={BLOCK.width}
            height={BLOCK.height}
            rx="2"
          />
        </a>
      ))}
      {left > 0 && (
        <text class="flow-words" x={start + shown.length * (BLOCK.width + BLOCK.gap)} y={y + 4}>
          +{left}
        </text>
      )}
    </>
  )
}

/** Five counts in a strip, where the drawing has too little width. */
function FlowCounts() {
  const { queued, inProgress, completedToday, failedToday, cancelledToday } = totals.value
  const counts = [
    ['Queued', formatCount(queued), 'queued'],
    ['In progress', formatCount(inProgress), PHASES.join(',')],
    ['Completed', countOfToday(completedToday), 'completed&ended=today'],
    ['Failed', countOfToday(failedToday), 'failed&ended=today'],
    ['Cancelled', countOfToday(cancelledToday), 'cancelled&ended=today'],
  ] as const
  return (
    <ul class="flow-counts">
      {counts.map(([word, count, query]) => (
        <li key={word}>
          <a href={`/runs?status=${query}`}>
            <strong>{count}</strong> <span>{word}</span>
          </a>
        </li>
      ))}
    </ul>
  )
}

function FlowList({ tracks }: { readonly tracks: readonly FlowTrack[] }) {
  return (
    <div class="visually-hidden">
      <p>{countOf(tracks.length, 'worker')}:</p>
      <ul>
        {tracks.map(({ id, name, words, blocks }) => (
          <li key={id}>
            {name}: {words}.{' '}
            {blocks.map(({ run, phase }) => `${run.ticket.identifier} is ${phase}`).join(', ')}
          </li>
        ))}
      </ul>
    </div>
  )
}
