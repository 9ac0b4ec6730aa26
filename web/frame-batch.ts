/** Frames of a socket, applied once for each frame of the screen. */

interface FrameBatch<F> {
  readonly receive: (frame: F) => void
  /** Applies what waits, before a page that is hidden paints no more. */
  readonly flush: () => void
}

export function createFrameBatch<F>(apply: (frames: readonly F[]) => void): FrameBatch<F> {
  let waiting: F[] = []
  const flush = () => {
    const frames = waiting
    waiting = []
    apply(frames)
  }
  const receive = (frame: F) => {
    if (waiting.length === 0) afterPaint(flush)
    waiting.push(frame)
  }
  return { receive, flush }
}

/** A hidden page paints nothing, and still has to apply what comes. */
function afterPaint(apply: () => void): void {
  if (document.hidden) setTimeout(apply)
  else requestAnimationFrame(apply)
}
