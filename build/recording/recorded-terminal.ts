/**
 * The terminal in which a session is recorded: tmux where it is installed, otherwise the emulator of the product's
 * own terminals. Both show the same text.
 */

export interface TerminalOptions {
  readonly columns: number
  readonly rows: number
  readonly folder: string
  /** The whole environment of the shell. */
  readonly env: Readonly<Record<string, string>>
}

export interface RecordedTerminal {
  /** Types characters; control characters are keys. */
  type(characters: string): Promise<void>
  /** The lines as the terminal shows them, wrapped at its width, with those that scrolled out of it. */
  lines(): Promise<readonly string[]>
  /** Ends the shell and everything that it has started. */
  close(): Promise<void>
}

export const SHELL = ['/bin/sh', '-i'] as const

/** No recorded session prints more. */
export const SCROLLBACK_LINES = 5_000

/** Removes what no reader sees: spaces at the end of a line, and empty lines at the end. */
export function trimLines(lines: readonly string[]): readonly string[] {
  const trimmed = lines.map((line) => line.trimEnd())
  return trimmed.slice(0, trimmed.findLastIndex((line) => line !== '') + 1)
}
