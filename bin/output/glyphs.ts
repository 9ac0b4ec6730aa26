/**
 * Glyphs that repeat the status of a run, and the sign of a truncated text, in the characters that the terminal can draw.
 *
 * A locale without UTF-8 and the terminals `dumb` and `linux` get ASCII characters.
 */
import type { Colors, Paint } from './colors.ts'

const UNICODE = {
  queued: '◦',
  preparing: '▹',
  running: '▸',
  finalizing: '»',
  completed: '✓',
  failed: '✗',
  cancelled: '⊘',
  attention: '!',
} as const

export type GlyphName = keyof typeof UNICODE

const ASCII: Readonly<Record<GlyphName, string>> = {
  queued: '.',
  preparing: '-',
  running: '>',
  finalizing: '=',
  completed: '+',
  failed: 'x',
  cancelled: '/',
  attention: '!',
}

const ROLES: Readonly<Record<GlyphName, keyof Colors>> = {
  queued: 'dim',
  preparing: 'bold',
  running: 'bold',
  finalizing: 'bold',
  completed: 'good',
  failed: 'bad',
  cancelled: 'dim',
  attention: 'attention',
}

export interface Glyphs {
  readonly of: (name: GlyphName) => string
  readonly ellipsis: string
  /** The terminal draws no character but ASCII. */
  readonly isAsciiOnly: boolean
}

export function createGlyphs(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): Glyphs {
  const locale = localeOf(env)
  const isUnicode = drawsUnicode(locale, env.TERM, platform)
  const table = isUnicode ? UNICODE : ASCII
  return {
    of: (name) => table[name],
    // Terminals of these locales may draw `…` two columns wide.
    ellipsis: isUnicode && !/^(ja|ko|zh)/i.test(locale) ? '…' : '...',
    // A missing locale is no statement about the terminal: containers have none.
    isAsciiOnly: isPosix(locale),
  }
}

export const glyphRole = (name: GlyphName): keyof Colors => ROLES[name]

/** The colour of a glyph; it is the only part of a line with a hue. */
export const glyphColor = (name: GlyphName, colors: Colors): Paint => colors[ROLES[name]]

function drawsUnicode(locale: string, term: string | undefined, platform: NodeJS.Platform): boolean {
  if (term === 'dumb' || term === 'linux') return false
  return platform === 'darwin' ? !isPosix(locale) : /utf-?8/i.test(locale)
}

/** The first that is set; an empty variable counts as not set. */
const localeOf = (env: NodeJS.ProcessEnv): string => env.LC_ALL || env.LC_CTYPE || env.LANG || ''

const isPosix = (locale: string): boolean => locale === 'C' || locale === 'POSIX'
