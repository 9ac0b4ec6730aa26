/** What the ends of the terminal benches agree on: how large it is, what a view is told to do, and what it answers. */

export const SIZE = { cols: 120, rows: 40 } as const

/** One line of JSON each; each is answered in one. */
export type ViewerCommand =
  /** Types that, if anything, and waits for a text that was not there before. Answers `Seen`. */
  | { readonly do: 'see'; readonly typed?: string; readonly until: string }
  /** Types so many keys, one after the other, each after a pause. Answers milliseconds, each until its echo is there. */
  | { readonly do: 'echo'; readonly keys: number; readonly pauseMs: number }

export interface TextFound {
  readonly ms: number
  /** That were printed meanwhile. */
  readonly chars: number
}

/** A terminal, however far away. */
export interface TerminalIo {
  write(data: string): void
  /** One listener at a time; `undefined`: none. */
  onOutput: ((data: string) => void) | undefined
}

const KEY = 'x'
/** The line is forgotten before it is as long as the terminal is wide. */
const KEYS_PER_LINE = 60
const CLEAR_LINE_KEY = '\u0015'
const CLEAR_MS = 100

export async function waitForText(terminal: TerminalIo, until: string, typed = ''): Promise<TextFound> {
  const from = performance.now()
  let [chars, end] = [0, '']
  return new Promise((resolve) => {
    terminal.onOutput = (data) => {
      chars += data.length
      // A text may come in two pieces.
      const isThere = data.includes(until) || `${end}${data.slice(0, until.length)}`.includes(until)
      end = `${end}${data.slice(-until.length)}`.slice(-until.length)
      if (!isThere) return
      terminal.onOutput = undefined
      resolve({ ms: performance.now() - from, chars })
    }
    if (typed !== '') terminal.write(typed)
  })
}

/** Pauses are not all alike, so that nothing which happens in turns is met at the same point of it each time. */
export async function measureEchoes(terminal: TerminalIo, keys: number, pauseMs: number): Promise<number[]> {
  const waits: number[] = []
  for (let key = 0; key < keys; key++) {
    if (key % KEYS_PER_LINE === 0) await clearLine(terminal)
    await new Promise((resolve) => setTimeout(resolve, pauseMs + (key % 7)))
    waits.push((await waitForText(terminal, KEY, KEY)).ms)
  }
  await clearLine(terminal)
  return waits
}

async function clearLine(terminal: TerminalIo): Promise<void> {
  terminal.write(CLEAR_LINE_KEY)
  await new Promise((resolve) => setTimeout(resolve, CLEAR_MS))
}

/** Does what each line of the input says. */
export async function runCommands(lines: AsyncIterable<string>, terminal: TerminalIo): Promise<void> {
  for await (const line of lines) {
    // Said by a bench of ours.
    const command = JSON.parse(line) as ViewerCommand
    if (command.do === 'see')
      console.log(JSON.stringify(await waitForText(terminal, command.until, command.typed)))
    else console.log(JSON.stringify(await measureEchoes(terminal, command.keys, command.pauseMs)))
  }
}
