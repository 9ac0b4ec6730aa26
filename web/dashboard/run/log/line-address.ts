/**
 * Lines in the address: `L12`, `L12-L18`, and `L12.3` for the third line of an event with several.
 *
 * Numbers count events of the run from 1, because those never change, whatever part of the log is loaded.
 */

export interface LinePoint {
  readonly event: number
  readonly part: number
}

export interface LineRange {
  readonly from: LinePoint
  readonly to: LinePoint
}

const POINT = /^L(\d{1,12})(?:\.(\d{1,7}))?$/

export function parseLines(fragment: string): LineRange | undefined {
  const [first = '', last = first, ...more] = fragment.split('-')
  const [from, to] = [parsePoint(first), parsePoint(last)]
  if (from === undefined || to === undefined || more.length > 0) return undefined
  return comparePoints(from, to) <= 0 ? { from, to } : { from: to, to: from }
}

function parsePoint(text: string): LinePoint | undefined {
  const found = POINT.exec(text)
  if (found === null || Number(found[1]) === 0) return undefined
  return { event: Number(found[1]) - 1, part: Math.max(0, Number(found[2] ?? 1) - 1) }
}

export function formatLines({ from, to }: LineRange): string {
  return comparePoints(from, to) === 0 ? formatPoint(from) : `${formatPoint(from)}-${formatPoint(to)}`
}

const formatPoint = (point: LinePoint): string => `L${lineNumber(point)}`

/** `12`, `12.3`. */
export const lineNumber = ({ event, part }: LinePoint): string =>
  part === 0 ? String(event + 1) : `${event + 1}.${part + 1}`

export const comparePoints = (a: LinePoint, b: LinePoint): number => a.event - b.event || a.part - b.part

/** The range that reaches from the chosen lines to another one. */
export function extendLines(range: LineRange | undefined, point: LinePoint): LineRange {
  if (range === undefined) return { from: point, to: point }
  return comparePoints(point, range.from) < 0
    ? { from: point, to: range.to }
    : { from: range.from, to: point }
}
