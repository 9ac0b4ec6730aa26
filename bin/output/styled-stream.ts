/** A stream of this process with what decides how text looks on it: terminal or not, width, colours, glyphs. */
import { type ColorChoice, type Colors, createColors, type Paint, type StreamFacts } from './colors.ts'
import type { TableCell } from './table.ts'
import { cleanLine, columnsOf, padEnd, toAscii, truncateEnd } from './text-width.ts'

/** The part of `process.stdout` that printing needs. */
export interface OutputStream extends StreamFacts {
  readonly columns?: number
  readonly rows?: number
  write(text: string): boolean
  on(event: 'error', onError: (error: NodeJS.ErrnoException) => void): unknown
  once(event: 'drain', onDrain: () => void): unknown
}

export interface StyleFacts {
  readonly env: NodeJS.ProcessEnv
  readonly platform: NodeJS.Platform
  readonly color?: ColorChoice | undefined
}

const COLUMNS_DEFAULT = 80
/** A shorter left text would name nothing. */
const LEFT_COLUMNS_MIN = 24

export class StyledStream {
  readonly isTerminal: boolean
  readonly colors: Colors
  readonly glyphs: Glyphs
  readonly #stream: OutputStream

  constructor(stream: OutputStream, { env, platform, color }: StyleFacts) {
    this.#stream = stream
    this.isTerminal = stream.isTTY === true
    this.colors = createColors(stream, env, color)
    this.glyphs = createGlyphs(env, platform)
  }

  /** A terminal that does not know its size reports 0. */
  get width(): number {
    return this.#stream.columns || COLUMNS_DEFAULT
  }

  /** Undefined where lines do not scroll away. */
  get height(): number | undefined {
    return this.isTerminal ? this.#stream.rows || undefined : undefined
  }

  /** Makes foreign text safe to print in one line. */
  clean(text: string): string {
    const line = cleanLine(text)
    return this.isTerminal && this.glyphs.isAsciiOnly ? toAscii(line) : line
  }

  /** Truncates a text that is not coloured yet at the width of a terminal; elsewhere it stays whole. */
  truncate(text: string, columns = this.width): string {
    return this.isTerminal ? truncateEnd(text, columns, this.glyphs.ellipsis) : text
  }

  /**
   * Puts two texts at the ends of a line; the left text is truncated. Elsewhere two spaces stand between them.
   *
   * @param columns the columns of a line that ends before the terminal's edge
   */
  alignEnds(left: string, right: string, columns = this.width): string {
    if (!this.isTerminal) return `${left}  ${right}`
    const leftColumns = columns - columnsOf(right) - 2
    if (leftColumns < LEFT_COLUMNS_MIN) return `${left}\n  ${right}`
    return `${padEnd(this.truncate(left, leftColumns), leftColumns)}  ${right}`
  }

  /** The glyph of a status in its colour; nothing without a terminal. */
  glyph(name: GlyphName): TableCell {
    if (!this.isTerminal) return { text: '' }
    return { text: this.glyphs.of(name), paint: glyphColor(name, this.colors) }
  }
}

// ---- glyphs --------------------------------------------------------------------------------------------------------

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

interface Glyphs {
  readonly of: (name: GlyphName) => string
  readonly ellipsis: string
  /** The terminal draws no character but ASCII. */
  readonly isAsciiOnly: boolean
}

/**
 * Glyphs that repeat the status of a run, and the sign of a truncated text, in the characters that the terminal can
 * draw.
 *
 * A locale without UTF-8 and the terminals `dumb` and `linux` get ASCII characters.
 */
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
