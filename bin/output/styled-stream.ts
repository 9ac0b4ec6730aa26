/** A stream of this process with what decides how text looks on it: terminal or not, width, colours, glyphs. */
import { type ColorChoice, type Colors, createColors, type StreamFacts } from './colors.ts'
import { createGlyphs, type GlyphName, type Glyphs, glyphColor } from './glyphs.ts'
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
