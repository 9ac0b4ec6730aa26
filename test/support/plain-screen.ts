/** A screen whose picture is simply all that was printed on it, for whoever wants to see what is drawn when. */
import type { CreateScreen } from '../../core/daemon/terminal.ts'

/** Asks for the cursor, as a program does; answered like a terminal would. */
export const CURSOR_QUERY = '\x1b[6n'
export const CURSOR_REPLY = '\x1b[1;1R'

export const createPlainScreen: CreateScreen = ({ cols, rows }, answer) => {
  let [printed, size, isClosed] = ['', `${cols}x${rows}`, false]
  return {
    async write(data) {
      if (isClosed) throw new Error('it is closed')
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
