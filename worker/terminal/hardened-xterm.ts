/**
 * The library that reads a terminal's output, with what a hostile program could do to its reader taken away.
 *
 * It reads by the letter: to scroll two thousand million lines it takes a minute, in which nothing else of this process
 * happens; it keeps every link that was ever opened; and somewhere among its hundreds of sequences it breaks. So what
 * counts lines or columns is brought down to the screen's own, where it means the same; links are not kept; and a
 * terminal that broke is replaced by an empty one. Output is taken in portions, and what is due meanwhile comes first.
 */
import type { Terminal } from '@xterm/headless'
import headless from '@xterm/headless'
import type { TerminalSize } from '../../core/daemon/terminal.ts'

/** Lines. */
export const SCROLLBACK_MAX = 1_000
/** At once, before the time is looked at. */
const PORTION_CHARS = 4 * 1024
/** Of so many cells altogether may whole screens be moved or emptied in one portion: a few milliseconds. */
const PORTION_CELLS = 48 * 1024
/**
 * What may touch each cell of the screen: any sequence that is not sure to touch a line at most. Each begins with one
 * of these characters, so that one which hides from this, being cut or broken up, still counts.
 */
const FULL_SCREEN_SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
  /\x1b(?!\[(?:[\d;:]*[@A-HKPXadefgm`r]|\?(?:1|7|12|25|100\d|20\d\d)[hl])|[()][0AB]|[78=>])|[\x80-\x9f]/g
/** Then everything else of this process has its turn. */
const UNINTERRUPTED_MS_MAX = 8

/** So far as they are reached for: the library's own parts. */
interface EmulatorInternals {
  readonly _inputHandler: { readonly _parser: EmulatorParser }
  writeSync(data: string): void
}

interface EmulatorParser {
  /** Asked before those that are there already; false: those are asked too. */
  registerCsiHandler(
    id: { prefix?: string; final: string },
    handler: (params: SequenceParams) => boolean,
  ): void
}

interface SequenceParams {
  /** Changed in place, before it is read. */
  readonly params: Int32Array
}

export class HardenedXterm {
  readonly #onReply: (data: string) => void
  #terminal: Terminal
  #isClosed = false

  constructor(size: TerminalSize, onReply: (data: string) => void) {
    this.#onReply = onReply
    this.#terminal = this.#createTerminal(size)
  }

  get terminal(): Terminal {
    return this.#terminal
  }

  /** Resolves when it has been read, or when there is nobody to read it any more. */
  async write(data: string): Promise<void> {
    let since = performance.now()
    for (let from = 0; from < data.length && !this.#isClosed; ) {
      const portion = this.#nextPortion(data.slice(from, from + PORTION_CHARS))
      from += portion.length
      this.#parse(portion)
      if (performance.now() - since < UNINTERRUPTED_MS_MAX) continue
      await new Promise(setImmediate)
      since = performance.now()
    }
  }

  /** The beginning of it, as far as that is read in a moment. */
  #nextPortion(portion: string): string {
    const { cols, rows } = this.#terminal
    let left = PORTION_CELLS / (cols * rows)
    FULL_SCREEN_SEQUENCE.lastIndex = 0
    for (
      let found = FULL_SCREEN_SEQUENCE.exec(portion);
      found !== null;
      found = FULL_SCREEN_SEQUENCE.exec(portion)
    ) {
      if (left < 1 && found.index > 0) return portion.slice(0, found.index)
      left -= 1
    }
    return portion
  }

  resize({ cols, rows }: TerminalSize): void {
    this.#replaceIfBroken(() => this.#terminal.resize(cols, rows))
  }

  close(): void {
    this.#isClosed = true
    this.#terminal.dispose()
  }

  #parse(data: string): void {
    this.#replaceIfBroken(() => internalsOf(this.#terminal).writeSync(data))
  }

  #replaceIfBroken(step: () => void): void {
    try {
      step()
    } catch {
      const { cols, rows } = this.#terminal
      this.#terminal.dispose()
      this.#terminal = this.#createTerminal({ cols, rows })
    }
  }

  #createTerminal(size: TerminalSize): Terminal {
    const terminal = createXterm(size)
    terminal.onData(this.#onReply)
    return terminal
  }
}

export function createXterm({ cols, rows }: TerminalSize): Terminal {
  const terminal = new headless.Terminal({
    cols,
    rows,
    scrollback: SCROLLBACK_MAX,
    allowProposedApi: true,
    logLevel: 'off',
  })
  const { _parser } = internalsOf(terminal)._inputHandler
  for (const final of ROW_COUNT_FINALS)
    _parser.registerCsiHandler(
      { final },
      clampCount(() => terminal.rows),
    )
  for (const final of COLUMN_COUNT_FINALS)
    _parser.registerCsiHandler(
      { final },
      clampCount(() => terminal.cols),
    )
  for (const id of [{ final: 'J' }, { prefix: '?', final: 'J' }])
    _parser.registerCsiHandler(id, ({ params }) => avoidBrokenErase(terminal, params))
  terminal.parser.registerOscHandler(HYPERLINK_OSC, () => true)
  return terminal
}

/** Lines inserted, deleted, scrolled up and down. */
const ROW_COUNT_FINALS = ['L', 'M', 'S', 'T']
/** Tabs onwards and back; the last character again, which nobody means for more than a line. */
const COLUMN_COUNT_FINALS = ['I', 'Z', 'b']
const HYPERLINK_OSC = 8

function clampCount(bound: () => number): (params: SequenceParams) => boolean {
  return ({ params }) => {
    const count = params[0]
    if (count !== undefined && count > bound()) params[0] = bound()
    return false
  }
}

const ERASE_UP_TO_CURSOR = 1
const ERASE_ALL = 2

/** From the screen's last cell upwards is all of it; there the library looks for a line below, and breaks. */
function avoidBrokenErase({ buffer: { active }, cols, rows }: Terminal, params: Int32Array): boolean {
  const isLast = active.cursorY === rows - 1 && active.cursorX >= cols - 1
  if (params[0] === ERASE_UP_TO_CURSOR && isLast) params[0] = ERASE_ALL
  return false
}

// The library's types leave them out.
const internalsOf = (terminal: Terminal): EmulatorInternals =>
  (terminal as unknown as { readonly _core: EmulatorInternals })._core
