/** Icons of places and acts, drawn from their paths. They stand beside words or have a label. */

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

export interface IconProps {
  readonly name: IconName
  /** For an icon without a word beside it. */
  readonly label?: string
}

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
