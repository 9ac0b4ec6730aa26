/** Colours for terminals that support them, and the removal of control characters from foreign text. */

export interface Colors {
  readonly bold: (text: string) => string
  readonly dim: (text: string) => string
  readonly good: (text: string) => string
  readonly bad: (text: string) => string
}

export function createColors(out: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): Colors {
  const isColoured = out.isTTY === true && (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb'
  const with_ = (code: number) => (text: string) => (isColoured ? `\x1b[${code}m${text}\x1b[0m` : text)
  return { bold: with_(1), dim: with_(2), good: with_(32), bad: with_(31) }
}

/** Replaces control characters, so that text of agents, tickets and diffs cannot control the terminal. */
export function removeControls(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(/[^\P{C}\n\t]/gu, '\u{fffd}')
}
