/**
 * Shared by the processes of the terminal benchmarks: the terminal's size, the commands for a view, and its
 * responses.
 */

export const SIZE = { cols: 120, rows: 40 } as const

/** A line of JSON; the response is one line, too. */
export type ViewerCommand =
  /** Types `typed`, if given, and waits for new output that contains `until`. Responds with `TextFound`. */
  | { readonly do: 'see'; readonly typed?: string; readonly until: string }
  /** Types this many keys with a pause before each. Responds with the milliseconds until each echo. */
  | { readonly do: 'echo'; readonly keys: number; readonly pauseMs: number }

export interface TextFound {
  readonly ms: number
  /** Characters printed meanwhile. */
  readonly chars: number
}

/** A terminal, local or remote. */
export interface TerminalIo {
  write(data: string): void
  /** The only listener; `undefined`: none. */
  onOutput: ((data: string) => void) | undefined
}

const KEY = 'x'
/** The input line is cleared before it reaches the terminal's width. */
const KEYS_PER_LINE = 60
const CLEAR_LINE_KEY = '\u0015'
const CLEAR_MS = 100

export async function waitForText(terminal: TerminalIo, until: string, typed = ''): Promise<TextFound> {
  const from = performance.now()
  let [chars, end] = [0, '']
  return new Promise((resolve) => {
    terminal.onOutput = (data) => {
      chars += data.length
      // A text may arrive in two pieces.
      const isThere = data.includes(until) || `${end}${data.slice(0, until.length)}`.includes(until)
      end = `${end}${data.slice(-until.length)}`.slice(-until.length)
      if (!isThere) return
      terminal.onOutput = undefined
      resolve({ ms: performance.now() - from, chars })
    }
    if (typed !== '') terminal.write(typed)
  })
}

/** Varies the pauses, so that they do not fall into step with periodic work. */
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

/** Executes the command in each line of the input. */
export async function runCommands(lines: AsyncIterable<string>, terminal: TerminalIo): Promise<void> {
  for await (const line of lines) {
    // Sent by the bench.
    const command = JSON.parse(line) as ViewerCommand
    if (command.do === 'see')
      console.log(JSON.stringify(await waitForText(terminal, command.until, command.typed)))
    else console.log(JSON.stringify(await measureEchoes(terminal, command.keys, command.pauseMs)))
  }
}
