/** Wheel, mouse, fingers and keys that zoom and move a chart. */

export interface ChartGestures {
  readonly chart: () => Size
  readonly part: () => ChartPart
  readonly onChange: (part: ChartPart) => void
  /** Shows the whole chart. */
  readonly showWhole: () => void
}

export const ZOOM_STEP = 1.25
const KEY_PX = 48
/** A notch of a usual wheel is 100 px and zooms by a fifth. */
const WHEEL_PER_PX = 0.0018
/** A press that moves less is a click. */
const DRAG_PX_MIN = 4

const sizeOfPlace = ({ clientWidth: width, clientHeight: height }: HTMLElement): Size => ({ width, height })

/** @returns a function that ends the listening */
export function listenForGestures(place: HTMLElement, gestures: ChartGestures): () => void {
  const { chart, part, onChange, showWhole } = gestures
  const move = (dx: number, dy: number) => onChange(movePart(part(), dx, dy, chart(), sizeOfPlace(place)))
  const zoom = (factor: number, at: { x: number; y: number }) =>
    onChange(zoomPart(part(), factor, at, chart(), sizeOfPlace(place)))
  const pointAt = (x: number, y: number) => {
    const { left, top } = place.getBoundingClientRect()
    return { x: x - left, y: y - top }
  }
  const stop = new AbortController()
  const { signal } = stop
  place.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault()
      zoom(Math.exp(-event.deltaY * WHEEL_PER_PX), pointAt(event.clientX, event.clientY))
    },
    { signal, passive: false },
  )
  place.addEventListener(
    'keydown',
    (event) => onKey(event, { move, zoom: (factor) => zoom(factor, middleOfPlace(place)), showWhole }),
    { signal },
  )
  listenForPointers(place, signal, {
    move,
    pinch: (factor, x, y) => zoom(factor, pointAt(x, y)),
  })
  return () => stop.abort()
}

const middleOfPlace = (place: HTMLElement) => ({ x: place.clientWidth / 2, y: place.clientHeight / 2 })

const MOVES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [KEY_PX, 0],
  ArrowRight: [-KEY_PX, 0],
  ArrowUp: [0, KEY_PX],
  ArrowDown: [0, -KEY_PX],
}

interface KeyActs {
  readonly move: (dx: number, dy: number) => void
  readonly zoom: (factor: number) => void
  readonly showWhole: () => void
}

function onKey(event: KeyboardEvent, { move, zoom, showWhole }: KeyActs): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return
  const by = MOVES[event.key]
  if (by !== undefined) move(...by)
  else if (event.key === '+' || event.key === '=') zoom(ZOOM_STEP)
  else if (event.key === '-') zoom(1 / ZOOM_STEP)
  else if (event.key === '0') showWhole()
  else return
  event.preventDefault()
}

interface PointerActs {
  readonly move: (dx: number, dy: number) => void
  readonly pinch: (factor: number, x: number, y: number) => void
}

/** A single pointer moves the chart, two zoom it. A click reaches the arrow below it. */
function listenForPointers(place: HTMLElement, signal: AbortSignal, { move, pinch }: PointerActs): void {
  const pointers = new Map<number, { x: number; y: number }>()
  let moved = 0
  const options = { signal }
  const release = ({ pointerId }: PointerEvent) => pointers.delete(pointerId)
  place.addEventListener(
    'pointerdown',
    ({ pointerId, clientX: x, clientY: y }) => {
      if (pointers.size === 0) moved = 0
      pointers.set(pointerId, { x, y })
    },
    options,
  )
  place.addEventListener(
    'pointermove',
    (event) => {
      const before = pointers.get(event.pointerId)
      if (before === undefined) return
      // A pointer that was released beside the place, before it was captured, moves nothing any more.
      if (event.buttons === 0) return void pointers.delete(event.pointerId)
      const { clientX: x, clientY: y } = event
      const second = [...pointers].find(([id]) => id !== event.pointerId)?.[1]
      pointers.set(event.pointerId, { x, y })
      moved += Math.abs(x - before.x) + Math.abs(y - before.y)
      if (moved < DRAG_PX_MIN) return
      // Captured from the beginning, a press would click the place instead of the arrow.
      if (!place.hasPointerCapture(event.pointerId)) place.setPointerCapture(event.pointerId)
      if (second === undefined) move(x - before.x, y - before.y)
      else
        pinch(
          Math.hypot(x - second.x, y - second.y) /
            Math.max(1, Math.hypot(before.x - second.x, before.y - second.y)),
          (x + second.x) / 2,
          (y + second.y) / 2,
        )
    },
    options,
  )
  for (const type of ['pointerup', 'pointercancel'] as const) place.addEventListener(type, release, options)
}

// ---- parts of a chart ----------------------------------------------------------------------------------------------

export interface Size {
  readonly width: number
  readonly height: number
}

/** The part of a chart that is in view, kept so that the chart never leaves its place. */
export interface ChartPart {
  /** Pixels for a unit of the drawing. */
  readonly scale: number
  /** The unit of the drawing at the upper left corner of the place. */
  readonly x: number
  readonly y: number
}

/** The smallest text of a chart, in units of its drawing, as `parts.css` sets it. */
const TEXT = 12.5
const TEXT_PX_MIN = 12
/** Below, texts are too small to read at first sight. */
const READABLE_SCALE = TEXT_PX_MIN / TEXT
const SCALE_FIRST_MAX = 1.3
const SCALE_MIN = 0.25
const SCALE_MAX = 4

/** The scale at which the whole chart is in view. */
const wholeScale = (chart: Size, place: Size): number =>
  Math.min(SCALE_FIRST_MAX, place.width / chart.width, place.height / chart.height)

export const wholeChart = (chart: Size, place: Size): ChartPart =>
  within({ scale: wholeScale(chart, place), x: 0, y: 0 }, chart, place)

/** The whole chart where its texts can be read then; otherwise the part around a point. */
export function firstPart(
  chart: Size,
  place: Size,
  around: { readonly x: number; readonly y: number },
): ChartPart {
  const scale = Math.max(READABLE_SCALE, wholeScale(chart, place))
  const x = around.x - place.width / scale / 2
  const y = around.y - place.height / scale / 2
  return within({ scale, x, y }, chart, place)
}

/** @param at the pixel of the place that stays where it is */
export function zoomPart(
  part: ChartPart,
  factor: number,
  at: { readonly x: number; readonly y: number },
  chart: Size,
  place: Size,
): ChartPart {
  const smallest = Math.min(SCALE_MIN, wholeScale(chart, place))
  const scale = Math.min(SCALE_MAX, Math.max(smallest, part.scale * factor))
  const x = part.x + at.x / part.scale - at.x / scale
  const y = part.y + at.y / part.scale - at.y / scale
  return within({ scale, x, y }, chart, place)
}

/** @param dx how many pixels the chart moves to the right */
const movePart = (part: ChartPart, dx: number, dy: number, chart: Size, place: Size): ChartPart =>
  within({ ...part, x: part.x - dx / part.scale, y: part.y - dy / part.scale }, chart, place)

/** A chart that is smaller than its place stands in the middle; of a larger one no edge leaves the place's edge. */
function within({ scale, x, y }: ChartPart, chart: Size, place: Size): ChartPart {
  return {
    scale,
    x: clamp(x, chart.width - place.width / scale),
    y: clamp(y, chart.height - place.height / scale),
  }
}

const clamp = (start: number, startMax: number): number =>
  startMax <= 0 ? startMax / 2 : Math.max(0, Math.min(startMax, start))
