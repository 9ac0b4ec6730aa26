/** Remembers what the terminal shows, and returns the sequences that draw the lines which have changed. */
import type { Colors } from '../output/colors.ts'
import { type BoardLine, paintLine } from './line.ts'

export class BoardScreen {
  readonly #colors: Colors
  #shown: readonly string[] = []
  #cursor = ''
  #isUnknown = true

  constructor(colors: Colors) {
    this.#colors = colors
  }

  /** The terminal shows something else, or has another size: the next drawing begins anew. */
  forget(): void {
    this.#isUnknown = true
  }

  /** Returns the text to write; nothing when nothing has changed. */
  draw(lines: readonly BoardLine[], columns: number): string {
    const before = this.#isUnknown ? [] : this.#shown
    const painted = lines.map((line) => paintLine(line, this.#colors, columns))
    const changed = painted.map((line, at) =>
      line === (before[at] ?? '') ? '' : `${moveTo(at)}\x1b[2K${line}`,
    )
    const cursor = this.#cursorOn(lines.findIndex(({ isSelected }) => isSelected === true))
    const drawn = `${this.#isUnknown ? '\x1b[H\x1b[2J' : ''}${changed.join('')}`
    if (drawn === '' && cursor === this.#cursor) return ''
    this.#shown = painted
    this.#cursor = cursor
    this.#isUnknown = false
    return drawn + cursor
  }

  /**
   * The cursor stands on the selected row, for people whose program reads that row to them. Without colours the cursor
   * alone shows the selection.
   */
  #cursorOn(selected: number): string {
    const isShown = selected >= 0 && this.#colors.selection('x') === 'x'
    return `${isShown ? '\x1b[?25h' : '\x1b[?25l'}${moveTo(Math.max(0, selected))}`
  }
}

const moveTo = (row: number): string => `\x1b[${row + 1};1H`
