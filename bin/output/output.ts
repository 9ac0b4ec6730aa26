/**
 * The output of a command: data on standard output, words for people on standard error.
 *
 * Data is a table on a terminal and tab-separated values elsewhere, ids alone, or JSON. Words are left out when nobody
 * asked for them (`--quiet`) or standard error belongs to a program (`--json`). A reader that closes the pipe ends the
 * command with 0, because it has what it wanted.
 */
import { EXIT } from '../process/exit.ts'
import { startedAs } from '../process/this-program.ts'
import { type ColorChoice, type Colors, NO_COLORS } from './colors.ts'
import { completeCommands, dataDirIn } from './complete-commands.ts'
import { type OutputStream, StyledStream, type StyleFacts } from './styled-stream.ts'
import { drawTable, formatTabSeparated, type RowMark, type TableColumn } from './table.ts'
import { columnsOf, wrapWords } from './text-width.ts'

export const PRINT_FORMATS = ['table', 'id', 'json'] as const
/** The values of `-o`; `--json` is short for `-o json`. */
export type PrintFormat = (typeof PRINT_FORMATS)[number]

export interface OutputOptions extends StyleFacts {
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  readonly format?: PrintFormat | undefined
  readonly quiet?: boolean | undefined
  /** The words by which this program was started, and the value of `--data-dir`, for the commands that are named. */
  readonly program?: string | undefined
  readonly dataDir?: string | undefined
  /** Ends the process. */
  readonly exit: (code: number) => void
}

export interface RecordList<Row> {
  readonly records: readonly Row[]
  readonly columns: readonly TableColumn<Row>[]
  readonly id: (row: Row) => string
  readonly mark?: RowMark<Row>
  /** The records for `--json` when they are more than the rows. */
  readonly json?: unknown
  /** The sentence for people when there is no record. */
  readonly empty?: string
}

export class Output {
  readonly stdout: StyledStream
  readonly stderr: StyledStream
  readonly format: PrintFormat
  /** Notes and progress are printed. */
  readonly hasNotes: boolean
  readonly #options: OutputOptions
  /** Erases what is redrawn in place before other text is printed. */
  #eraseProgress: () => void = () => {}
  #isDraining: Promise<void> | undefined

  constructor(options: OutputOptions) {
    this.#options = options
    this.stdout = new StyledStream(options.stdout, options)
    this.stderr = new StyledStream(options.stderr, options)
    this.format = options.format ?? 'table'
    this.hasNotes = options.quiet !== true && this.format !== 'json'
    options.stdout.on('error', (error) => this.#onStdoutError(error))
    // Without a reader of the words the command still does its work.
    options.stderr.on('error', () => {})
  }

  /** Prints a line, or several, of what the person asked for. */
  data(text: string): void {
    this.writeData(`${text}\n`)
  }

  /** Writes data as it is. Await `drained` between many writes, because a pipe may be slow. */
  writeData(text: string): void {
    this.#eraseProgress()
    const { stdout } = this.#options
    if (!stdout.write(text)) this.#isDraining ??= this.#untilDrained()
  }

  /** Resolves when the reader of standard output has caught up. */
  async drained(): Promise<void> {
    await this.#isDraining
  }

  /** Prints one of the three formats; `empty` is a note. */
  list<Row>(list: RecordList<Row>): void {
    const { records, columns, id, mark, empty } = list
    if (this.format === 'json') this.json(list.json ?? records)
    else if (this.format === 'id') for (const record of records) this.data(id(record))
    else {
      if (records.length === 0 && empty !== undefined) this.note(empty)
      this.table(columns, records, mark)
    }
  }

  /** Prints what a command has done: the record of the API, its id, or a sentence. */
  outcome(record: unknown, id: string, sentence: string): void {
    if (this.format === 'json') this.json(record)
    else this.data(this.format === 'id' ? id : this.stdout.clean(sentence))
  }

  /** The outcome of one of several: JSON stands in a line of its own. */
  outcomeLine(record: unknown, id: string, sentence: string): void {
    if (this.format === 'json') this.jsonLine(record)
    else this.outcome(record, id, sentence)
  }

  /** A table without rows is nothing on a terminal, and its heading elsewhere. */
  table<Row>(columns: readonly TableColumn<Row>[], rows: readonly Row[], mark?: RowMark<Row>): void {
    const { isTerminal, width, glyphs, colors } = this.stdout
    if (!isTerminal) this.data(formatTabSeparated(columns, rows))
    else if (rows.length > 0)
      this.data(drawTable(columns, rows, { width, ...glyphs, paintHeading: colors.bold }, mark))
  }

  /** Prints a record or a list as the API has it: indented on a terminal, in one line elsewhere. */
  json(value: unknown): void {
    const { isTerminal } = this.stdout
    this.data(this.#safeJson(JSON.stringify(value, undefined, isTerminal ? 2 : undefined)))
  }

  /** Prints a record of a stream in one line. */
  jsonLine(value: unknown): void {
    this.data(this.#safeJson(JSON.stringify(value)))
  }

  /** Words for the person: prose, which wraps at words on a terminal. */
  note(text: string): void {
    if (this.hasNotes) this.#printProse(this.completeCommands(text))
  }

  /** A note about this program itself: `switchyard: connection lost, trying again`. */
  warn(text: string): void {
    this.note(`switchyard: ${text}`)
  }

  /** Names the commands that people may want next. A command is copied, so none is broken at the edge. */
  next(...commands: readonly string[]): void {
    if (!this.hasNotes) return
    const named = commands.map((command) => this.completeCommands(command))
    const line = `Next: ${named.join('   or   ')}`
    const { isTerminal, width } = this.stderr
    const fits = !isTerminal || columnsOf(line) <= width
    this.writeError(`${fits ? line : `Next: ${named.join('\n  or  ')}`}\n`)
  }

  /** Prints the error that ends the command; `--quiet` leaves it in. */
  error(message: string, cure?: string): void {
    const { colors, isTerminal, width } = this.stderr
    const style = { colors, width: isTerminal ? width : undefined, asJson: this.format === 'json' }
    this.writeError(formatError({ message, cure: cure && this.completeCommands(cure) }, style))
  }

  /**
   * Completes the commands in a text of ours. Words and cures are completed already.
   *
   * @param dataDir what the commands name, where that is not what was typed
   */
  completeCommands(text: string, dataDir = this.#options.dataDir): string {
    return completeCommands(text, { ...this.#options, dataDir })
  }

  writeError(text: string): void {
    this.#eraseProgress()
    this.#options.stderr.write(text)
  }

  /** Registers what erases the line that `ProgressLine` redraws. */
  onErase(erase: () => void): void {
    this.#eraseProgress = erase
  }

  #printProse(text: string): void {
    const { isTerminal, width } = this.stderr
    const lines = text.split('\n').flatMap((line) => (isTerminal ? wrapWords(line, width) : [line]))
    this.writeError(`${lines.join('\n')}\n`)
  }

  /** JSON leaves some control characters as they are, and a terminal would obey them. */
  #safeJson(json: string): string {
    if (!this.stdout.isTerminal) return json
    return json.replace(/(?![\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escapeUnits)
  }

  #untilDrained(): Promise<void> {
    return new Promise((resolve) => {
      this.#options.stdout.once('drain', () => {
        this.#isDraining = undefined
        resolve()
      })
    })
  }

  #onStdoutError(error: NodeJS.ErrnoException): void {
    const isClosed = error.code === 'EPIPE'
    if (!isClosed) this.error(`standard output cannot be written (${error.code ?? error.message})`)
    this.#options.exit(isClosed ? EXIT.done : EXIT.broken)
  }
}

/** An escape of JSON for each UTF-16 unit. */
const escapeUnits = (text: string): string =>
  text.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

// ---- errors --------------------------------------------------------------------------------------------------------

interface ErrorText {
  readonly message: string
  /** A command or a deed that helps. */
  readonly cure?: string | undefined
}

interface ErrorStyle {
  readonly colors?: Colors
  /** The width at which prose wraps; undefined when it stays whole. */
  readonly width?: number | undefined
  readonly asJson?: boolean
}

/** Returns lines with their line ends. The cure is never wrapped, because people copy it. */
export function formatError({ message, cure }: ErrorText, style: ErrorStyle = {}): string {
  const { colors = NO_COLORS, width, asJson } = style
  if (asJson === true) return `${JSON.stringify({ error: message, ...(cure !== undefined && { cure }) })}\n`
  const lines = `${PREFIX}${message}`
    .split('\n')
    .flatMap((line) => (width === undefined ? [line] : wrapWords(line, width)))
  const painted = lines.join('\n').replace(PREFIX, `${colors.failure(PREFIX.trimEnd())} `)
  return cure === undefined ? `${painted}\n` : `${painted}\n  try: ${cure}\n`
}

const PREFIX = 'switchyard: '

// ---- the output of this process ------------------------------------------------------------------------------------

/** The options that every client command has. */
export interface PrintOptions {
  readonly json?: boolean | undefined
  /** The value of `-o`. */
  readonly output?: PrintFormat | undefined
  readonly quiet?: boolean | undefined
  readonly color?: ColorChoice | undefined
  readonly dataDir?: string | undefined
}

/** Creates the output of a client command from its options and the streams of this process. */
export function createOutput({ json, output, quiet, color, dataDir }: PrintOptions): Output {
  const { stdout, stderr, env, platform } = process
  const exit = (code: number) => process.exit(code)
  const format = json ? 'json' : output
  const program = startedAs().join(' ')
  return new Output({ stdout, stderr, env, platform, exit, quiet, color, program, dataDir, format })
}

/** The output for the error of a command line whose options were not read to their end. */
export const createOutputFor = (words: readonly string[]): Output =>
  createOutput({ json: asksForJson(words), dataDir: dataDirIn(words) })

const asksForJson = (words: readonly string[]): boolean =>
  words.some(
    (word, at) =>
      /^(?:--json|--output=json|-ojson)$/.test(word) ||
      (/^(?:--output|-o)$/.test(word) && words[at + 1] === 'json'),
  )
