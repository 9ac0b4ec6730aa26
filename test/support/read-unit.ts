/** Reads a line of words of a systemd unit by the rules of systemd.service(5) and systemd.syntax(7). */

/** @param isCommand `$$` is one dollar, and `$` alone would begin a variable */
export function readUnitWords(line: string, isCommand: boolean): string[] {
  const words: string[] = []
  for (let at = 0; at < line.length; ) {
    if (line[at] === ' ') at += 1
    else if (line[at] === '"') {
      const end = endOfQuote(line, at + 1)
      words.push(unquote(line.slice(at + 1, end)))
      at = end + 1
      if (at < line.length && line[at] !== ' ') throw new Error(`no space after a quote in ${line}`)
    } else {
      const word = /^[^\s"'\\]+/.exec(line.slice(at))?.[0] ?? ''
      if (word === '') throw new Error(`not one of the plain characters in ${line}`)
      words.push(expandSpecifiers(word))
      at += word.length
    }
  }
  // Variables are expanded in all words but the program.
  return isCommand ? words.map((word, index) => (index === 0 ? word : expandDollars(word))) : words
}

function endOfQuote(line: string, from: number): number {
  for (let at = from; at < line.length; at += 1) {
    if (line[at] === '\\') at += 1
    else if (line[at] === '"') return at
  }
  throw new Error(`no closing quote in ${line}`)
}

const unquote = (text: string): string =>
  expandSpecifiers(
    text.replace(/\\(?:u([0-9a-f]{4})|(.))/gs, (_, code, char) => {
      if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16))
      if (char !== '"' && char !== '\\') throw new Error(`unknown escape \\${char}`)
      return char
    }),
  )

function expandSpecifiers(text: string): string {
  if (/%/.test(text.replaceAll('%%', ''))) throw new Error(`a specifier in ${text}`)
  return text.replaceAll('%%', '%')
}

function expandDollars(text: string): string {
  if (/\$/.test(text.replaceAll('$$', ''))) throw new Error(`a variable in ${text}`)
  return text.replaceAll('$$', '$')
}
