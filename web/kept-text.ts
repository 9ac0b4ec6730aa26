/** Texts that the browser keeps. One that refuses, in a private window or for want of space, forgets them at a reload. */

/** The part that is used; tests run rules without the types of a browser. */
declare const localStorage: {
  getItem(key: string): string | null
  setItem(key: string, text: string): void
  removeItem(key: string): void
}

export function readKeptText(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null
  }
}

/**
 * Returns whether the browser did it.
 *
 * @param text undefined deletes what is kept
 */
export function keepText(key: string, text: string | undefined): boolean {
  try {
    if (text === undefined) localStorage.removeItem(key)
    else localStorage.setItem(key, text)
    return true
  } catch {
    return false
  }
}
