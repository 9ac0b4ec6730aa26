/**
 * A pattern for the requests that a fault of the fake GitHub affects.
 *
 * The matcher calls `arrived` as soon as such a request arrives, long before the fake answers it.
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
