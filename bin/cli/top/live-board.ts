/**
 * LiveBoard draws the board while it changes, and does what the keys say, until the person quits.
 *
 * The terminal belongs to the board except while another command runs in the foreground, and is restored at every end.
 */
import { ReadStream, WriteStream } from 'node:tty'
import { reasonOf } from '../../../client/errors.ts'
import { beginningOf } from '../../../client/run-beginning.ts'
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { formatCost } from '../../output/amounts.ts'
import { formatAge } from '../../output/times.ts'
import { realClock } from '../../process/clock.ts'
import { EXIT, EXIT_OF_SIGNAL, usageError } from '../../process/exit.ts'
import { handleProcessEnd } from '../attach/local-terminal.ts'
import type { CommandContext } from '../command/run-command.ts'
import { describeCancelled } from '../runs/run-actions.ts'
import { withRunCure } from '../runs/run-cures.ts'
import { describeRun } from '../runs/runs.ts'
import { describeWorkers } from '../status/status-lines.ts'
import { type Board, createBoard, keepSelection, moveSelection, selectedRow } from './board.ts'
import { BoardFeed } from './board-feed.ts'
import {
  type BoardKey,
  BoardTerminal,
  type ForegroundCommand,
  FrameTimer,
  readKeys,
  startForegroundCommand,
} from './board-terminal.ts'
import { type BoardView, layoutBoard } from './layout.ts'
import type { BoardLine } from './line.ts'
import { BoardScreen } from './line.ts'
import { helpPage, isTooSmall, smallStatus } from './pages.ts'
import { LOG_ROWS_MIN } from './plan-rows.ts'

const INSTEAD = 'switchyard status --watch'

/** `switchyard top`: a live board of runs and workers, for terminals that can be redrawn. */
export async function top(context: CommandContext): Promise<number> {
  if (context.output.format !== 'table')
    throw usageError('top draws a board and prints no records', `${INSTEAD} --json`)
  const { stdin, stdout, env } = process
  // A process whose stream is a terminal has these classes.
  if (!(stdin instanceof ReadStream && stdout instanceof WriteStream))
    throw usageError('top needs a terminal', INSTEAD)
  if (env.TERM === 'dumb')
    throw usageError('top needs a terminal that can be redrawn, and TERM is dumb', INSTEAD)
  return await new LiveBoard(context, stdin, stdout).run()
}

type BoardMode =
  | { readonly is: 'board' }
  | { readonly is: 'help' }
  /** The message is a question, and `y` does it. */
  | { readonly is: 'asking'; readonly act: () => void }
  /** Another command has the terminal. */
  | { readonly is: 'away' }
  /** The other command has ended, and any key comes back. */
  | { readonly is: 'waiting'; readonly onKey: () => void }

const UNCHANGED = 'nothing was changed'
/** For a terminal that does not tell its size. */
const ROWS_DEFAULT = 24

export class LiveBoard {
  readonly #context: CommandContext
  readonly #output: WriteStream
  readonly #terminal: BoardTerminal
  readonly #feed: BoardFeed
  readonly #frames = new FrameTimer(() => this.#draw(), realClock)
  readonly #screen: BoardScreen
  readonly #redraw = () => {
    this.#screen.forget()
    this.#frames.request()
  }
  #mode: BoardMode = { is: 'board' }
  #message: string | undefined
  #board: Board | undefined
  #selected: string | undefined
  /** The person has moved the selection. */
  #isChosen = false
  #command: ForegroundCommand | undefined
  #settle: (end: number | Error) => void = () => {}
  /** The feed has ended while another command had the terminal. */
  #failure: Error | undefined

  constructor(context: CommandContext, input: ReadStream, output: WriteStream) {
    this.#context = context
    this.#output = output
    this.#screen = new BoardScreen(context.output.stdout.colors)
    this.#terminal = new BoardTerminal({
      input,
      output,
      onKeys: (text) => {
        for (const key of readKeys(text)) this.#onKey(key)
      },
      onContinue: this.#redraw,
      onGone: () => process.exit(EXIT_OF_SIGNAL.SIGHUP),
    })
    handleProcessEnd(
      () => this.#restore(),
      () => this.#mode.is === 'away',
    )
    this.#feed = new BoardFeed(context, {
      onChange: () => this.#onChange(),
      onEnd: (error) => {
        this.#failure = error
        if (this.#mode.is !== 'away' && this.#mode.is !== 'waiting') this.#settle(error)
      },
    })
  }

  /** Returns the exit code when the person quits. Rejects when the host refuses, and at first without one. */
  async run(): Promise<number> {
    this.#output.on('resize', this.#redraw)
    try {
      return await new Promise<number>((resolve, reject) => {
        this.#settle = (end) => (typeof end === 'number' ? resolve(end) : reject(end))
      })
    } finally {
      this.#output.off('resize', this.#redraw)
      this.#frames.stop()
      this.#feed.close()
      this.#terminal.close()
    }
  }

  #restore(): void {
    this.#command?.child.kill('SIGTERM')
    this.#frames.stop()
    this.#terminal.restore()
  }

  /** The board appears with the first hello; an earlier error is printed as that of every command. */
  #onChange(): void {
    if (this.#feed.hasHello && this.#board === undefined) this.#show()
    else this.#frames.request()
  }

  #show(): void {
    this.#mode = { is: 'board' }
    this.#terminal.takeOver()
    this.#screen.forget()
    this.#frames.start()
  }

  // ---- drawing -------------------------------------------------------------------------------------------------------

  #draw(): void {
    // A terminal that reads slowly gets the newest board when it has read the last one.
    if (this.#output.writableNeedDrain) {
      this.#output.once('drain', () => this.#frames.request())
      return
    }
    const board = createBoard(this.#feed.records, this.#context.present())
    this.#selected = keepSelection(this.#selected, this.#board, board, this.#isChosen)
    this.#board = board
    const view = this.#view()
    this.#terminal.draw(this.#screen.draw(this.#lines(board, view), view.columns))
  }

  #view(): BoardView {
    const { present, output } = this.#context
    const { records, state } = this.#feed
    return {
      text: output.stdout,
      columns: output.stdout.width,
      rows: this.#output.rows || ROWS_DEFAULT,
      present: present(),
      feed: state,
      selected: this.#selected,
      log: records.logLines,
      message: this.#message,
      workersSummary: describeWorkers(records.workers),
    }
  }

  #lines(board: Board, view: BoardView): BoardLine[] {
    const { records } = this.#feed
    if (isTooSmall(view)) return smallStatus(records, board, view, process)
    if (this.#mode.is === 'help') return helpPage(view)
    if (view.rows >= LOG_ROWS_MIN) {
      records.selectLog(selectedRow(board, this.#selected)?.run?.id)
      this.#feed.completeLog()
    }
    return layoutBoard(board, { ...view, log: records.logLines })
  }

  // ---- keys ----------------------------------------------------------------------------------------------------------

  #onKey(key: BoardKey): void {
    const mode = this.#mode
    if (mode.is === 'waiting') mode.onKey()
    else if (key === 'interrupt') this.#settle(EXIT.interrupted)
    else if (key === 'suspend') this.#terminal.suspend(0)
    else if (mode.is === 'away') return
    else if (mode.is === 'asking') this.#answer(key, mode.act)
    else if (mode.is === 'help') this.#mode = { is: 'board' }
    else this.#onBoardKey(typeof key === 'string' ? key : key.letter)
    this.#frames.request()
  }

  #answer(key: BoardKey, act: () => void): void {
    const isYes = typeof key === 'object' && key.letter.toLowerCase() === 'y'
    this.#mode = { is: 'board' }
    this.#message = isYes ? undefined : UNCHANGED
    if (isYes) act()
  }

  #onBoardKey(key: string): void {
    this.#message = undefined
    if (key === 'q') this.#settle(EXIT.done)
    // A key acts on what is seen, and a small terminal shows no row.
    else if (this.#board === undefined || isTooSmall(this.#view())) return
    else if (key === '?') this.#mode = { is: 'help' }
    else if (key === 'up' || key === 'k') this.#moveBy(this.#board, -1)
    else if (key === 'down' || key === 'j') this.#moveBy(this.#board, 1)
    else this.#actOnSelected(this.#board, key)
  }

  #moveBy(board: Board, by: 1 | -1): void {
    this.#isChosen = true
    this.#selected = moveSelection(board, this.#selected, by)
  }

  #actOnSelected(board: Board, key: string): void {
    const command = COMMANDS_OF_KEYS[key]
    if (command === undefined && key !== 'c' && key !== 'r') return
    const row = selectedRow(board, this.#selected)
    const { run } = row ?? {}
    if (run === undefined) this.#message = row?.cure ?? 'no run is selected'
    else if (command !== undefined) void this.#runCommand(command(run))
    else if (key === 'r') this.#report(retryRun(this.#context, run))
    else
      this.#askToCancel(() => this.#report(cancelRun(this.#context, run)), cancelQuestion(this.#context, run))
  }

  #askToCancel(act: () => void, question: string | undefined): void {
    if (question === undefined) this.#message = 'the run has ended'
    else if (this.#context.options.yes === true) act()
    else {
      this.#mode = { is: 'asking', act }
      this.#message = question
    }
  }

  #report(outcome: Promise<string>): void {
    void outcome.then((text) => {
      if (this.#mode.is !== 'asking') this.#message = text
      this.#frames.request()
    })
  }

  // ---- other commands ------------------------------------------------------------------------------------------------

  async #runCommand(words: readonly string[]): Promise<void> {
    const { connection, options, output } = this.#context
    this.#mode = { is: 'away' }
    this.#frames.stop()
    this.#terminal.lend()
    try {
      this.#command = await startForegroundCommand(connection, options, words)
      const code = await this.#command.exit
      // Ctrl-C has ended the watching, and the person is done with it.
      if (code !== EXIT.interrupted) await this.#waitForKey()
    } catch (error) {
      this.#message = output.stderr.clean(String(error))
    }
    this.#command = undefined
    if (this.#failure === undefined) this.#show()
    else this.#settle(this.#failure)
  }

  async #waitForKey(): Promise<void> {
    const { colors } = this.#context.output.stdout
    this.#terminal.write(colors.dim('\nany key: back to the board '))
    await new Promise<void>((resolve) => {
      this.#mode = { is: 'waiting', onKey: resolve }
      this.#terminal.takeKeys()
    })
    this.#terminal.write('\r\n')
  }
}

// ---- what a key does to a run --------------------------------------------------------------------------------------

type ActionContext = Pick<CommandContext, 'client' | 'output' | 'present'>

/** As many lines as a page of the log has. */
const LOG_LINES = 1_000

/** The command that shows a run, follows its log or opens its session, by its key. */
const COMMANDS_OF_KEYS: Readonly<Record<string, (run: Run) => readonly string[]>> = {
  enter: ({ id }) => ['runs', 'show', id],
  l: ({ id }) => ['logs', id, '--tail', String(LOG_LINES), '--follow'],
  a: ({ id }) => ['attach', id],
}

/** Undefined when there is nothing to cancel. */
function cancelQuestion({ present }: Pick<ActionContext, 'present'>, run: Run): string | undefined {
  const { ticket, status, costTotals } = run
  if (hasEnded(run)) return undefined
  const loss =
    status === 'queued'
      ? `This takes ${ticket.identifier} out of the queue: its place is lost.`
      : `This ends ${ticket.identifier} after ${formatAge(present().now - Date.parse(beginningOf(run)))}` +
        `${costTotals === undefined ? '' : ` and ${formatCost(costTotals)}`}: its agent stops, and nothing more is pushed.`
  return `${loss} Go on? [y/N]`
}

const cancelRun = ({ client, output }: ActionContext, { id }: Run): Promise<string> =>
  describeOutcome(async () => describeCancelled(output, await client.cancelRun({ id })))

const retryRun = ({ client, output }: ActionContext, run: Run): Promise<string> =>
  describeOutcome(async () =>
    describeRun(output, await withRunCure(client, 'retry', run, client.retryRun({ id: run.id }))),
  )

/** The board goes on after a refusal, and without a host. */
async function describeOutcome(act: () => Promise<string>): Promise<string> {
  try {
    return await act()
  } catch (error) {
    const cure: unknown = Reflect.get(Object(error), 'cure')
    const message = error instanceof Error ? error.message : reasonOf(error)
    return typeof cure === 'string' ? `${message}; try: ${cure}` : message
  }
}
