/** The upper edge of the sequence: dragged, or moved by the arrow keys, it changes the sequence's height. */
import { signal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'

const KEY = 'switchyard-inspector-sequence'
const HEIGHT = 330
const HEIGHT_MIN = 120
/** The chart keeps at least so much. */
const ABOVE_MIN = 220
const STEP = 24

const highest = (): number => Math.max(HEIGHT_MIN, innerHeight - ABOVE_MIN)
const within = (height: number): number => Math.round(Math.max(HEIGHT_MIN, Math.min(highest(), height)))

const height = signal(Number(localStorage.getItem(KEY)) || HEIGHT)

function change(to: number): void {
  height.value = within(to)
  localStorage.setItem(KEY, String(height.value))
}

export function SequenceEdge() {
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
