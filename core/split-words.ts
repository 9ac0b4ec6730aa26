/**
 * Splits a command line into words, without a shell: words end at blanks, quotes keep them together, and nothing is
 * expanded. A list in JSON is taken as it is.
 */
import { no, type Result, yes } from './result.ts'

const WORD = /(?:[^\s'"\\]|\\[\s\S]|'[^']*'|"(?:[^"\\]|\\[\s\S])*")+/y
const BLANK = /\s*/y

export function splitWords(line: string): Result<readonly string[]> {
  if (line.trimStart().startsWith('[')) return readList(line)
  const words: string[] = []
  for (let at = skipBlanks(line, 0); at < line.length; at = skipBlanks(line, WORD.lastIndex)) {
    WORD.lastIndex = at
    const word = WORD.exec(line)?.[0]
    if (word === undefined) return no('invalid', `a quote is not closed: ${line.slice(at)}`)
    words.push(unquote(word))
  }
  return words.length === 0 ? no('invalid', 'there is no program') : yes(words)
}

function skipBlanks(line: string, from: number): number {
  BLANK.lastIndex = from
  BLANK.exec(line)
  return BLANK.lastIndex
}

const unquote = (word: string): string =>
  word.replace(/'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])/g, (_, single, double, escaped) =>
    typeof single === 'string'
      ? single
      : typeof double === 'string'
        ? double.replace(/\\(["\\])/g, '$1')
        : String(escaped),
  )

function readList(line: string): Result<readonly string[]> {
  try {
    const list: unknown = JSON.parse(line)
    if (Array.isArray(list) && list.length > 0 && list.every((word) => typeof word === 'string'))
      return yes(list)
  } catch {
    // The message below says what is expected.
  }
  return no('invalid', 'a list must be JSON with one text for each word, the program first')
}
