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
const HEAVY =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
  /\x1b(?!\[(?:[\d;:]*[@A-HKPXadefgm`r]|\?(?:1|7|12|25|100\d|20\d\d)[hl])|[()][0AB]|[78=>])|[\x80-\x9f]/g
/** Then everything else of this process has its turn. */
const TURN_MS = 8

/** So far as they are reached for: the library's own parts. */
interface Insides {
  readonly _inputHandler: { readonly _parser: Parser }
  writeSync(data: string): void
}

interface Parser {
  /** Asked before those that are there already; false: those are asked too. */
  registerCsiHandler(id: { prefix?: string; final: string }, handler: (params: Params) => boolean): void
}

interface Params {
  /** Changed in place, before it is read. */
  readonly params: Int32Array
}

export class Emulator {
  readonly #answer: (data: string) => void
  #terminal: Terminal
  #isClosed = false

  constructor(size: TerminalSize, answer: (data: string) => void) {
    this.#answer = answer
    this.#terminal = this.#made(size)
  }

  get terminal(): Terminal {
    return this.#terminal
  }

  /** Resolves when it has been read, or when there is nobody to read it any more. */
  async write(data: string): Promise<void> {
    let since = performance.now()
    for (let from = 0; from < data.length && !this.#isClosed; ) {
      const portion = this.#bearable(data.slice(from, from + PORTION_CHARS))
      from += portion.length
      this.#read(portion)
      if (performance.now() - since < TURN_MS) continue
      await new Promise(setImmediate)
      since = performance.now()
    }
  }

  /** The beginning of it, as far as that is read in a moment. */
  #bearable(portion: string): string {
    const { cols, rows } = this.#terminal
    let left = PORTION_CELLS / (cols * rows)
    HEAVY.lastIndex = 0
    for (let found = HEAVY.exec(portion); found !== null; found = HEAVY.exec(portion)) {
      if (left < 1 && found.index > 0) return portion.slice(0, found.index)
      left -= 1
    }
    return portion
  }

  resize({ cols, rows }: TerminalSize): void {
    this.#safely(() => this.#terminal.resize(cols, rows))
  }

  close(): void {
    this.#isClosed = true
    this.#terminal.dispose()
  }

  #read(data: string): void {
    this.#safely(() => insidesOf(this.#terminal).writeSync(data))
  }

  #safely(step: () => void): void {
    try {
      step()
    } catch {
      const { cols, rows } = this.#terminal
      this.#terminal.dispose()
      this.#terminal = this.#made({ cols, rows })
    }
  }

  #made(size: TerminalSize): Terminal {
    const terminal = terminalOf(size)
    terminal.onData(this.#answer)
    return terminal
  }
}

export function terminalOf({ cols, rows }: TerminalSize): Terminal {
  const terminal = new headless.Terminal({
    cols,
    rows,
    scrollback: SCROLLBACK_MAX,
    allowProposedApi: true,
    logLevel: 'off',
  })
  const { _parser } = insidesOf(terminal)._inputHandler
  for (const final of COUNT_ROWS)
    _parser.registerCsiHandler(
      { final },
      atMost(() => terminal.rows),
    )
  for (const final of COUNT_COLUMNS)
    _parser.registerCsiHandler(
      { final },
      atMost(() => terminal.cols),
    )
  for (const id of [{ final: 'J' }, { prefix: '?', final: 'J' }])
    _parser.registerCsiHandler(id, ({ params }) => eraseAll(terminal, params))
  terminal.parser.registerOscHandler(LINK, () => true)
  return terminal
}

/** Lines inserted, deleted, scrolled up and down. */
const COUNT_ROWS = ['L', 'M', 'S', 'T']
/** Tabs onwards and back; the last character again, which nobody means for more than a line. */
const COUNT_COLUMNS = ['I', 'Z', 'b']
const LINK = 8

function atMost(bound: () => number): (params: Params) => boolean {
  return ({ params }) => {
    const count = params[0]
    if (count !== undefined && count > bound()) params[0] = bound()
    return false
  }
}

const UP_TO_HERE = 1
const ALL = 2

/** From the screen's last cell upwards is all of it; there the library looks for a line below, and breaks. */
function eraseAll({ buffer: { active }, cols, rows }: Terminal, params: Int32Array): boolean {
  const isLast = active.cursorY === rows - 1 && active.cursorX >= cols - 1
  if (params[0] === UP_TO_HERE && isLast) params[0] = ALL
  return false
}

// The library's types leave them out.
const insidesOf = (terminal: Terminal): Insides => (terminal as unknown as { readonly _core: Insides })._core
