/**
 * Which requests a fault of the fake GitHub hits, as a pattern, and a word to the test as soon as one arrives: long
 * before it is answered, if it ever is.
 */
export class FaultMatcher extends RegExp {
  readonly #arrived: () => void

  constructor(pattern: string, arrived: () => void) {
    super(pattern)
    this.#arrived = arrived
  }

  override test(request: string): boolean {
    const isMeant = super.test(request)
    if (isMeant) this.#arrived()
    return isMeant
  }
}
