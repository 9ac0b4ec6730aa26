/**
 * The watermark of one lease: the highest frame number up to which every frame is applied or named as lost.
 *
 * The host may acknowledge the watermark once it is on disk. Early frames are not kept; the worker sends them again
 * when it sees an unchanged watermark.
 */
export interface LeaseWatermark {
  readonly mark: number
  /** Ranges of frames that the worker lost, both ends included, oldest first. */
  readonly lost: readonly FrameRange[]
}

export type FrameRange = readonly [from: number, to: number]

export const INITIAL_WATERMARK: LeaseWatermark = { mark: 0, lost: [] }

/** A worker loses frames in few, large ranges. Ranges beyond this number are merged into the last one. */
export const LOST_RANGES_MAX = 64

export function judgeFrame(mark: number, seq: number): 'repeat' | 'next' | 'early' {
  if (seq <= mark) return 'repeat'
  return seq === mark + 1 ? 'next' : 'early'
}

/** Returns the part of a lost range above the watermark, when the range starts directly above it or below. */
export function judgeLostRange(mark: number, from: number, to: number): 'repeat' | 'early' | FrameRange {
  if (to <= mark) return 'repeat'
  return from > mark + 1 ? 'early' : [mark + 1, to]
}

/** Moves the watermark to the end of a lost range. */
export function addLostRange({ lost }: LeaseWatermark, [from, to]: FrameRange): LeaseWatermark {
  const last = lost.at(-1)
  if (last !== undefined && (last[1] + 1 === from || lost.length >= LOST_RANGES_MAX))
    return { mark: to, lost: [...lost.slice(0, -1), [last[0], to]] }
  return { mark: to, lost: [...lost, [from, to]] }
}
