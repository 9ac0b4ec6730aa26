/**
 * Finds what a person types for the page among what is for the session: Ctrl ] and then a letter.
 *
 * Ctrl ] is held back until the next key decides whether it is for the session.
 */

export type TerminalCommand = 'leave' | 'find'

/** The byte of Ctrl ]. */
export const PREFIX_BYTE = '\x1d'
const COMMANDS: ReadonlyMap<string, TerminalCommand> = new Map([
  ['d', 'leave'],
  ['f', 'find'],
])

export interface TypedText {
  /** The part for the session. */
  readonly text: string
  /** Input after it is dropped. */
  readonly command?: TerminalCommand
}

export class CommandKeys {
  #isHeld = false

  filter(typed: string): TypedText {
    let text = ''
    for (const sign of typed) {
      const command = this.#isHeld ? COMMANDS.get(sign.toLowerCase()) : undefined
      if (command !== undefined) {
        this.#isHeld = false
        return { text, command }
      }
      if (this.#isHeld) text += PREFIX_BYTE
      this.#isHeld = sign === PREFIX_BYTE
      if (!this.#isHeld) text += sign
    }
    return { text }
  }
}
