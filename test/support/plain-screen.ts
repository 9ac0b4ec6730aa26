/** A screen that serializes to all text printed on it, so tests see when each text is drawn. */
import type { CreateScreen } from '../../core/daemon/terminal.ts'

/** A program's query for the cursor position, and the terminal's reply. */
export const CURSOR_QUERY = '\x1b[6n'
export const CURSOR_REPLY = '\x1b[1;1R'

export const createPlainScreen: CreateScreen = ({ cols, rows }, answer) => {
  let [printed, size, isClosed] = ['', `${cols}x${rows}`, false]
  return {
    async write(data) {
      if (isClosed) throw new Error('the screen is closed')
      printed += data
      if (data.includes(CURSOR_QUERY)) answer(CURSOR_REPLY)
    },
    resize: (now) => {
      size = `${now.cols}x${now.rows}`
    },
    serialize: () => `[${size} ${printed}]`,
    close: () => {
      isClosed = true
    },
  }
}
