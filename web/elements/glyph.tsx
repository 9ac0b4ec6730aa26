/**
 * Status glyphs: every state has a shape of its own, so that the page works without colour.
 *
 * A glyph beside its word is decoration; a glyph that stands alone gets the word as its label.
 */
import type { ComponentChildren } from 'preact'

export type StateGlyph =
  | 'queued'
  | 'preparing'
  | 'running'
  | 'finalizing'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'needs-you'
  | 'limit'
  | 'offline'
  | 'open'
  | 'draft'
  | 'merged'
  | 'closed'
  | 'conflict'

type Tone = 'accent' | 'good' | 'bad' | 'warn' | 'merged' | 'faint'

const ring = <circle cx="8" cy="8" r="6" />
/** A sector of the inner disc, clockwise from the top. */
const wedge = (path: string) => (
  <>
    {ring}
    <path d={path} fill="currentColor" stroke="none" />
  </>
)
const branch = (end: ComponentChildren) => (
  <>
    <circle cx="4" cy="3.5" r="1.6" />
    <circle cx="4" cy="12.5" r="1.6" />
    <path d="M4 5.2v5.6" />
    {end}
  </>
)
const cross = <path d="M10 2.2l3.4 3.4M13.4 2.2L10 5.6" />

const GLYPHS: Readonly<Record<StateGlyph, readonly [Tone, label: string, shape: ComponentChildren]>> = {
  queued: ['faint', 'Queued', <circle key="q" cx="8" cy="8" r="6" stroke-dasharray="2.1 2.1" />],
  preparing: ['accent', 'Preparing', wedge('M8 8V4a4 4 0 0 1 4 4z')],
  running: ['accent', 'Running', wedge('M8 8V4a4 4 0 0 1 0 8z')],
  finalizing: ['accent', 'Finalizing', wedge('M8 8V4a4 4 0 1 1-3.8 2.8z')],
  completed: [
    'good',
    'Completed',
    <>
      <circle cx="8" cy="8" r="6.8" fill="currentColor" stroke="none" />
      <path d="M5.2 8.2l2 2 3.6-4" stroke="var(--surface)" />
    </>,
  ],
  failed: [
    'bad',
    'Failed',
    <>
      <path d="M5.2 1.2h5.6l4 4v5.6l-4 4H5.2l-4-4V5.2z" fill="currentColor" stroke="none" />
      <path d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4" stroke="var(--surface)" />
    </>,
  ],
  cancelled: [
    'faint',
    'Cancelled',
    <>
      {ring}
      <path d="M3.9 12.1l8.2-8.2" />
    </>,
  ],
  'needs-you': [
    'warn',
    'Needs you',
    <>
      <path d="M8 .8L15.2 8 8 15.2.8 8z" fill="currentColor" stroke="none" />
      <path d="M8 4.6v4M8 11v.4" stroke="var(--surface)" />
    </>,
  ],
  limit: [
    'warn',
    'Usage limit',
    <>
      {ring}
      <path d="M8 4.6V8l2.4 1.6" />
    </>,
  ],
  offline: [
    'warn',
    'Worker offline',
    <>
      <path d="M8 1.8l6.6 11.6H1.4z" stroke-linejoin="round" />
      <path d="M8 6v3.4M8 11.2v.4" />
    </>,
  ],
  open: [
    'good',
    'Open',
    branch(
      <>
        <circle cx="12" cy="12.5" r="1.6" />
        <path d="M12 10.8V6.4q0-2-2-2H7.6M9.4 2.4l-2 2 2 2" />
      </>,
    ),
  ],
  draft: [
    'faint',
    'Draft',
    branch(
      <>
        <circle cx="12" cy="12.5" r="1.6" />
        <path d="M12 3.6v.2M12 7v.2" stroke-linecap="round" stroke-width="2" />
      </>,
    ),
  ],
  merged: [
    'merged',
    'Merged',
    branch(
      <>
        <circle cx="12" cy="8" r="1.6" />
        <path d="M4 5.2q.4 2.8 3.4 2.8h3" />
      </>,
    ),
  ],
  closed: [
    'bad',
    'Closed',
    branch(
      <>
        <circle cx="12" cy="12.5" r="1.6" />
        <path d="M12 10.8V8" />
        {cross}
      </>,
    ),
  ],
  conflict: [
    'warn',
    'Conflict',
    branch(
      <>
        <circle cx="12" cy="12.5" r="1.6" />
        <path d="M12 10.8V8" />
        {cross}
      </>,
    ),
  ],
}

export interface GlyphProps {
  readonly name: StateGlyph
  /** The glyph stands without its word. */
  readonly alone?: boolean
  /** Another label than the state's word. */
  readonly label?: string
}

export function Glyph({ name, alone = false, label }: GlyphProps) {
  const [tone, word, shape] = GLYPHS[name]
  const meaning = alone
    ? { role: 'img' as const, 'aria-label': label ?? word }
    : { 'aria-hidden': true as const }
  return (
    <svg
      class={`glyph tone-${tone}`}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      {...meaning}
    >
      {shape}
    </svg>
  )
}

/** The word of a state, as pages write it. */
export const glyphWord = (name: StateGlyph): string => GLYPHS[name][1]

// ---- icons ---------------------------------------------------------------------------------------------------------

const PATHS = {
  overview: 'M1.5 8h3l4-4.5h6M4.5 8l4 4.5h6',
  runs: 'M2 4h12M2 8h8M2 12h10',
  pulls:
    'M4 5.2v5.6M4 2a1.6 1.6 0 1 1 0 3.2A1.6 1.6 0 0 1 4 2zM4 10.8a1.6 1.6 0 1 1 0 3.2 1.6 1.6 0 0 1 0-3.2zM12 10.8V6.4q0-2-2-2H8M12 10.8a1.6 1.6 0 1 1 0 3.2 1.6 1.6 0 0 1 0-3.2z',
  tickets: 'M1.5 4h13v2.6a1.5 1.5 0 0 0 0 2.8V12h-13V9.4a1.5 1.5 0 0 0 0-2.8z',
  fleet: 'M2 2.5h12v4.6H2zM2 8.9h12v4.6H2zM4.4 4.8h.2M4.4 11.2h.2',
  costs: 'M2.5 13.5V9M6.2 13.5V5M9.9 13.5V7M13.6 13.5V2.5',
  memories: 'M4 2h8v12l-4-3.2L4 14z',
  settings: 'M2 5h7M13 5h1M2 11h1M7 11h7M11 3.2v3.6M5 9.2v3.6',
  connect: 'M6.2 9.8l3.6-3.6M7 4.6l1.4-1.4a3 3 0 0 1 4.4 4.4L11.4 9M9 11.4l-1.4 1.4a3 3 0 0 1-4.4-4.4L4.6 7',
  search: 'M7 2.4a4.6 4.6 0 1 1 0 9.2 4.6 4.6 0 0 1 0-9.2zM10.4 10.4l3.4 3.4',
  close: 'M4 4l8 8M12 4l-8 8',
  more: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  external: 'M6.5 3H3v10h10V9.5M9 2.5h4.5V7M13.5 2.5L7.5 8.5',
  down: 'M4 6l4 4 4-4',
  right: 'M6 4l4 4-4 4',
  filter: 'M2 3.5h12M4.5 8h7M6.5 12.5h3',
  comment: 'M2.5 3h11v8h-6l-3 2.5V11h-2z',
  terminal: 'M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3',
} as const

export type IconName = keyof typeof PATHS

interface IconProps {
  readonly name: IconName
  /** For an icon without a word beside it. */
  readonly label?: string
}

/** Icons of places and acts, drawn from their paths. They stand beside words or have a label. */
export function Icon({ name, label }: IconProps) {
  const meaning =
    label === undefined ? { 'aria-hidden': true as const } : { role: 'img' as const, 'aria-label': label }
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      {...meaning}
    >
      <path d={PATHS[name]} />
    </svg>
  )
}
