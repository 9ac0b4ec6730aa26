/** Makes a line of a program's output safe to print: only sequences that set colours pass, and only to terminals. */
import { replaceControls } from '../output/text-width.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with a control character
const SEQUENCE = /\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: see above
const COLOR = /^\x1b\[[0-9;:]*m$/
const RESET = '\x1b[0m'

export function keepColors(line: string, hasColors: boolean): string {
  let [text, at, isColored] = ['', 0, false]
  for (const { 0: sequence, index } of line.matchAll(SEQUENCE)) {
    text += replaceControls(line.slice(at, index))
    at = index + sequence.length
    if (!hasColors || !COLOR.test(sequence)) continue
    text += sequence
    isColored = true
  }
  text += replaceControls(line.slice(at))
  return isColored ? `${text}${RESET}` : text
}
