/**
 * The flow drawing as numbers: one track a worker, one block a lease, in the column of its phase.
 *
 * More than eight workers are the seven fullest, and one track for all others.
 */
import type { Run, RunStatus } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'

export const PHASES = ['preparing', 'running', 'finalizing'] as const
export type FlowPhase = (typeof PHASES)[number]

export interface FlowBlock {
  readonly run: Run
  readonly phase: FlowPhase
}

export interface FlowTrack {
  readonly id: string
  readonly name: string
  readonly state: 'online' | 'draining' | 'offline'
  /** The state in words: `4 of 4`, `draining, 1 left`. */
  readonly words: string
  readonly blocks: readonly FlowBlock[]
}

const TRACKS_MAX = 8
export const TRACK_HEIGHT = 21
/** Room for the heads of the columns above the tracks, and below the last one. */
const ABOVE_TRACKS = 40
const BELOW_TRACKS = 14
/** Room for what stands above and below the line where the tracks join. */
const ABOVE_JOIN = 56
const BELOW_JOIN = 52

/**
 * The drawing's measures for a number of tracks; a single one needs as much room for its ends as three. The line before
 * and after the tracks is at `middle`, the first track at `top`.
 */
export function flowFrame(tracks: number) {
  const half = ((Math.max(1, tracks) - 1) * TRACK_HEIGHT) / 2
  const middle = Math.max(ABOVE_TRACKS + half, ABOVE_JOIN)
  const below = Math.max(half + TRACK_HEIGHT + BELOW_TRACKS, BELOW_JOIN)
  return { height: middle + below, middle, top: middle - half }
}

export function flowTracks(workers: readonly WorkerView[], runs: Iterable<Run>): FlowTrack[] {
  const blocks = [...blocksOf(runs)]
  const tracks = workers.map((worker) =>
    trackOf(
      worker,
      blocks.filter(({ run }) => run.sandbox.workerId === worker.id),
    ),
  )
  if (tracks.length === 0)
    return [{ id: '', name: 'no worker', state: 'offline', words: 'none is enrolled', blocks: [] }]
  if (tracks.length <= TRACKS_MAX) return tracks
  const fullest = [...tracks].sort((a, b) => b.blocks.length - a.blocks.length).slice(0, TRACKS_MAX - 1)
  const shown = tracks.filter((track) => fullest.includes(track))
  const rest = tracks.filter((track) => !fullest.includes(track))
  return [
    ...shown,
    {
      id: '',
      name: `${rest.length} more`,
      state: 'online',
      words: '',
      blocks: rest.flatMap((track) => track.blocks),
    },
  ]
}

function* blocksOf(runs: Iterable<Run>): Generator<FlowBlock> {
  for (const run of runs) if (isPhase(run.status)) yield { run, phase: run.status }
}

export const isPhase = (status: RunStatus): status is FlowPhase => PHASES.some((phase) => phase === status)

function trackOf(
  { id, name, state, connection, capabilities, activeRuns }: WorkerView,
  blocks: readonly FlowBlock[],
): FlowTrack {
  const slots = capabilities?.maxConcurrency
  const used = Math.max(activeRuns, blocks.length)
  if (connection === 'offline') return { id, name, state: 'offline', words: 'offline', blocks }
  if (state === 'draining')
    return { id, name, state: 'draining', words: used === 0 ? 'drained' : `draining, ${used} left`, blocks }
  return { id, name, state: 'online', words: slots === undefined ? '' : `${used} of ${slots}`, blocks }
}
