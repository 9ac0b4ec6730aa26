/** Recognizes Ctrl ] and then D, whatever modifier keys are pressed in between. */

const MODIFIERS: readonly string[] = ['Control', 'Shift', 'Alt', 'Meta']

/** The part of a keyboard event that counts. */
export interface TypedKey {
  readonly type: string
  readonly key: string
  readonly ctrlKey: boolean
}

export class LeaveKeys {
  #isBegun = false

  isLeaving({ type, key, ctrlKey }: TypedKey): boolean {
    if (type !== 'keydown' || MODIFIERS.includes(key)) return false
    const isSecond = this.#isBegun && key.toLowerCase() === 'd'
    this.#isBegun = ctrlKey && key === ']'
    return isSecond
  }
}
