/** The slots of a worker: filled, empty, and hatched for the leases of an absent worker. */
import { useId } from 'preact/hooks'

const HEIGHT = 10
/** More slots than these are drawn as one bar. */
const SLOTS_DRAWN_MAX = 32

export interface SlotsProps {
  readonly taken: number
  readonly count: number
  readonly isOffline: boolean
}

const widthOf = (count: number): number => (count <= 6 ? 34 : count <= 12 ? 18 : 8)

export function Slots({ taken, count, isOffline }: SlotsProps) {
  const id = useId()
  if (count === 0) return null
  const isDrawn = count <= SLOTS_DRAWN_MAX
  const [width, gap] = isDrawn ? [widthOf(count), count <= 12 ? 4 : 3] : [280, 0]
  const filled = isOffline ? `url(#${id})` : 'currentColor'
  const total = isDrawn ? count * (width + gap) - gap : width
  return (
    <svg
      class={`slots${isOffline ? ' offline' : ''}`}
      width={total}
      height={HEIGHT}
      viewBox={`0 0 ${total} ${HEIGHT}`}
      preserveAspectRatio="xMinYMid meet"
      aria-hidden="true"
    >
      <pattern id={id} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <path d="M1 0v5" stroke="currentColor" stroke-width="2.2" />
      </pattern>
      {isDrawn ? (
        Array.from({ length: count }, (_, at) => (
          <rect
            key={at}
            class={at < taken ? 'taken' : 'free'}
            x={at * (width + gap) + 0.5}
            y="0.5"
            width={width - 1}
            height={HEIGHT - 1}
            rx="2"
            fill={at < taken ? filled : 'none'}
          />
        ))
      ) : (
        <>
          <rect class="free" x="0.5" y="0.5" width={width - 1} height={HEIGHT - 1} rx="2" fill="none" />
          <rect
            class="taken"
            x="0.5"
            y="0.5"
            width={(Math.min(taken, count) / count) * (width - 1)}
            height={HEIGHT - 1}
            rx="2"
            fill={filled}
          />
        </>
      )}
    </svg>
  )
}
