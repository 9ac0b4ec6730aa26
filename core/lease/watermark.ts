/**
 * How far the host has come in one lease's numbered frames.
 *
 * Every frame up to and including the mark is applied, or named as lost by the worker, so the mark may be acknowledged
 * once it is on disk. Nothing that comes early is kept: the unchanged mark asks for it again.
 */
export interface LeaseWatermark {
  readonly mark: number
  /** Ranges that the worker lost, both ends included, oldest first. */
  readonly lost: readonly FrameRange[]
}

export type FrameRange = readonly [from: number, to: number]

export const INITIAL_WATERMARK: LeaseWatermark = { mark: 0, lost: [] }

/** A worker loses frames in few, large ranges; more than these are folded into the last one's neighbours. */
export const LOST_RANGES_MAX = 64

export function judgeFrame(mark: number, seq: number): 'repeat' | 'next' | 'early' {
  if (seq <= mark) return 'repeat'
  return seq === mark + 1 ? 'next' : 'early'
}

/** What of a lost range is news: the part above the mark, when it begins right behind it or below. */
export function judgeLostRange(mark: number, from: number, to: number): 'repeat' | 'early' | FrameRange {
  if (to <= mark) return 'repeat'
  return from > mark + 1 ? 'early' : [mark + 1, to]
}

/** The mark behind a lost range. */
export function addLostRange({ lost }: LeaseWatermark, [from, to]: FrameRange): LeaseWatermark {
  const last = lost.at(-1)
  if (last !== undefined && (last[1] + 1 === from || lost.length >= LOST_RANGES_MAX))
    return { mark: to, lost: [...lost.slice(0, -1), [last[0], to]] }
  return { mark: to, lost: [...lost, [from, to]] }
}
