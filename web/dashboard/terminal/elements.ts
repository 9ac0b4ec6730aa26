/** The elements of the terminal's document, which is written by hand. */
export function elementOf<T extends HTMLElement>(id: string, kind: new () => T): T {
  const element = document.getElementById(id)
  if (element instanceof kind) return element
  throw new Error(`the document has no ${id}`)
}
