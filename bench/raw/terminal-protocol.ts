/** What the ends of the terminal benches agree on: how large it is, what a view is told to do, and what it answers. */

export const SIZE = { cols: 120, rows: 40 } as const

/** One line of JSON each; each is answered in one. */
export type ViewOrder =
  /** Types that, if anything, and waits for a text that was not there before. Answers `Seen`. */
  | { readonly do: 'see'; readonly typed?: string; readonly until: string }
  /** Types so many keys, one after the other, each after a pause. Answers milliseconds, each until its echo is there. */
  | { readonly do: 'echo'; readonly keys: number; readonly pauseMs: number }

export interface Seen {
  readonly ms: number
  /** That were printed meanwhile. */
  readonly chars: number
}

/** A terminal, however far away. */
export interface Typewriter {
  type(data: string): void
  /** One listener at a time; `undefined`: none. */
  heard: ((data: string) => void) | undefined
}

const KEY = 'x'
/** The line is forgotten before it is as long as the terminal is wide. */
const LINE_KEYS = 60
const FORGET_LINE = '\u0015'
const FORGET_MS = 100

export async function seen(at: Typewriter, until: string, typed = ''): Promise<Seen> {
  const from = performance.now()
  let [chars, end] = [0, '']
  return new Promise((resolve) => {
    at.heard = (data) => {
      chars += data.length
      // A text may come in two pieces.
      const isThere = data.includes(until) || `${end}${data.slice(0, until.length)}`.includes(until)
      end = `${end}${data.slice(-until.length)}`.slice(-until.length)
      if (!isThere) return
      at.heard = undefined
      resolve({ ms: performance.now() - from, chars })
    }
    if (typed !== '') at.type(typed)
  })
}

/** Pauses are not all alike, so that nothing which happens in turns is met at the same point of it each time. */
export async function echoes(at: Typewriter, keys: number, pauseMs: number): Promise<number[]> {
  const waits: number[] = []
  for (let key = 0; key < keys; key++) {
    if (key % LINE_KEYS === 0) await forget(at)
    await new Promise((resolve) => setTimeout(resolve, pauseMs + (key % 7)))
    waits.push((await seen(at, KEY, KEY)).ms)
  }
  await forget(at)
  return waits
}

async function forget(at: Typewriter): Promise<void> {
  at.type(FORGET_LINE)
  await new Promise((resolve) => setTimeout(resolve, FORGET_MS))
}

/** Does what each line of the input says. */
export async function obey(lines: AsyncIterable<string>, at: Typewriter): Promise<void> {
  for await (const line of lines) {
    // Said by a bench of ours.
    const order = JSON.parse(line) as ViewOrder
    if (order.do === 'see') console.log(JSON.stringify(await seen(at, order.until, order.typed)))
    else console.log(JSON.stringify(await echoes(at, order.keys, order.pauseMs)))
  }
}
