/** Turns what a terminal sends into names of keys. */

export type BoardKey =
  | 'up'
  | 'down'
  | 'enter'
  | 'escape'
  | 'interrupt'
  | 'suspend'
  /** A letter or a sign; other keys have no name. */
  | { readonly letter: string }

const NAMES: Readonly<Record<string, BoardKey>> = {
  '\x1b[A': 'up',
  '\x1bOA': 'up',
  '\x1b[B': 'down',
  '\x1bOB': 'down',
  '\r': 'enter',
  '\n': 'enter',
  '\x1b': 'escape',
  '\x03': 'interrupt',
  '\x1a': 'suspend',
}

/** A sequence of the terminal with its parameters, or one character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: keys are control characters
const KEY = /\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1bO[ -~]|\x1b|./gsu

export function readKeys(text: string): BoardKey[] {
  return [...text.matchAll(KEY)].flatMap(([key]): BoardKey[] => {
    const name = NAMES[key]
    if (name !== undefined) return [name]
    return /^[ -~]$/.test(key) ? [{ letter: key }] : []
  })
}
