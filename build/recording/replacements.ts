/** Replaces what differs each time a session is recorded, so that recordings of the same behaviour are the same text. */

export type Replacement = (text: string) => string

const replaceAll =
  (pattern: RegExp, by: string): Replacement =>
  (text) =>
    text.replaceAll(pattern, by)

/** Every replacement keeps the usual width, so that columns stay aligned. */
const EVERYWHERE: readonly Replacement[] = [
  replaceAll(/^ *\d+\.\ds(?= )/gm, ' 1.2s'),
  replaceAll(/\b\d+\.\ds\b/g, '1.2s'),
  replaceAll(/\brun-[0-9a-f]{32}\b/g, 'run-01a20393fd407b3c9e01a4d8f2c60b17'),
  replaceAll(/\b127\.0\.0\.1:\d+\b/g, '127.0.0.1:40000'),
  replaceAll(/#code=[\w-]{22}/g, '#code=kQ1vY0sJ8mXn2bRt4cLw6A'),
]

export function replaceChanging(text: string, replacements: readonly Replacement[]): string {
  return [...EVERYWHERE, ...replacements].reduce((replaced, replace) => replace(replaced), text)
}

/** Numbers the things that a pattern's first group numbers again, in the order in which the text names them. */
export function renumber(pattern: RegExp): Replacement {
  const all = new RegExp(pattern, 'g')
  return (text) => {
    const known: string[] = []
    return text.replace(all, (found, number: string) => {
      if (!known.includes(number)) known.push(number)
      return found.slice(0, -number.length) + (known.indexOf(number) + 1)
    })
  }
}
