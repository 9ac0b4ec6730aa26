/**
 * Wraps the xterm emulator so that hostile output cannot block or break this process.
 *
 * The library executes huge counts literally (scrolling two billion lines takes a minute), keeps every hyperlink, and
 * throws for some sequences. So counts of lines and columns are clamped to the screen, where the effect is the same;
 * hyperlinks are dropped; and a terminal that threw is replaced by an empty one. Output is parsed in small portions, so
 * that other work of the process can run in between.
 */
import type { Terminal } from '@xterm/headless'
import headless from '@xterm/headless'
import type { TerminalSize } from '../../core/daemon/terminal.ts'

/** Lines. */
export const SCROLLBACK_MAX = 1_000
/** Characters parsed before the elapsed time is checked. */
const PORTION_CHARS = 4 * 1024
/** Cells that full-screen sequences may touch in one portion, which takes a few milliseconds. */
const PORTION_CELLS = 48 * 1024
/**
 * Matches sequences that may touch every cell: all except those known to touch at most one line. The pattern also
 * matches incomplete introducers, so that a split sequence still counts.
 */
const FULL_SCREEN_SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
  /\x1b(?!\[(?:[\d;:]*[@A-HKPXadefgm`r]|\?(?:1|7|12|25|100\d|20\d\d)[hl])|[()][0AB]|[78=>])|[\x80-\x9f]/g
/** After this time, parsing yields to the event loop. */
const UNINTERRUPTED_MS_MAX = 8

/** The private parts of the library that this file uses. */
interface EmulatorInternals {
  readonly _inputHandler: { readonly _parser: EmulatorParser }
  writeSync(data: string): void
}

interface EmulatorParser {
  /** Handlers run before the built-in one; returning false lets the built-in one run too. */
  registerCsiHandler(
    id: { prefix?: string; final: string },
    handler: (params: SequenceParams) => boolean,
  ): void
}

interface SequenceParams {
  /** Our handlers change this array before the built-in handler reads it. */
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

  /** Resolves when the data is parsed, or the emulator is closed. */
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

  /** Returns the beginning of the text that can be parsed within a few milliseconds. */
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

/** Insert lines, delete lines, scroll up, scroll down. */
const ROW_COUNT_FINALS = ['L', 'M', 'S', 'T']
/** Forward tabs, backward tabs, and repeat character, which no program uses for more than a line. */
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

/**
 * Erasing up to the screen's last cell equals erasing everything, but the library throws there; so erase all instead.
 */
function avoidBrokenErase({ buffer: { active }, cols, rows }: Terminal, params: Int32Array): boolean {
  const isLast = active.cursorY === rows - 1 && active.cursorX >= cols - 1
  if (params[0] === ERASE_UP_TO_CURSOR && isLast) params[0] = ERASE_ALL
  return false
}

// `_core` is missing in the library's types.
const internalsOf = (terminal: Terminal): EmulatorInternals =>
  (terminal as unknown as { readonly _core: EmulatorInternals })._core
