/**
 * Colours for one stream: whether it has any, and the functions that paint a text in one of seven roles.
 *
 * A colour only repeats what a word says. Paint a text after it is measured and truncated, because the sequences of a
 * colour have no columns.
 */

export const COLOR_CHOICES = ['auto', 'always', 'never'] as const
/** The values of `--color`. */
export type ColorChoice = (typeof COLOR_CHOICES)[number]

export type Paint = (text: string) => string

export interface Colors {
  readonly good: Paint
  readonly bad: Paint
  readonly attention: Paint
  /** Active states and headings. */
  readonly bold: Paint
  /** Secondary text: times, waiting states. */
  readonly dim: Paint
  readonly address: Paint
  readonly selection: Paint
  /** The verdicts `fail` and `stop`, and the prefix of an error: a hue on words only together with bold. */
  readonly failure: Paint
  readonly stop: Paint
}

/** The facts of a stream that decide how a command prints to it. */
export interface StreamFacts {
  readonly isTTY?: boolean
}

/** Decides in this order: `--color`, `NO_COLOR`, `FORCE_COLOR`, the terminal. */
export function hasColors(
  stream: StreamFacts,
  env: NodeJS.ProcessEnv,
  choice: ColorChoice = 'auto',
): boolean {
  if (choice !== 'auto') return choice === 'always'
  if ((env.NO_COLOR ?? '') !== '') return false
  const forced = env.FORCE_COLOR ?? ''
  if (forced !== '') return forced !== '0' && forced !== 'false'
  return stream.isTTY === true && env.TERM !== 'dumb'
}

export function createColors(stream: StreamFacts, env: NodeJS.ProcessEnv, choice?: ColorChoice): Colors {
  return hasColors(stream, env, choice) ? TERMINAL_COLORS : NO_COLORS
}

const paint =
  (begin: number, end: number): Paint =>
  (text) =>
    text === '' ? '' : `\x1b[${begin}m${text}\x1b[${end}m`

const FOREGROUND = 39
const INTENSITY = 22
const [good, bad, attention] = [paint(32, FOREGROUND), paint(31, FOREGROUND), paint(35, FOREGROUND)]
const bold = paint(1, INTENSITY)

const TERMINAL_COLORS: Colors = {
  good,
  bad,
  attention,
  bold,
  dim: paint(2, INTENSITY),
  address: paint(4, 24),
  selection: paint(7, 27),
  failure: (text) => bold(bad(text)),
  stop: (text) => bold(attention(text)),
}

const plain: Paint = (text) => text
export const NO_COLORS: Colors = {
  good: plain,
  bad: plain,
  attention: plain,
  bold: plain,
  dim: plain,
  address: plain,
  selection: plain,
  failure: plain,
  stop: plain,
}
