/**
 * `WildcardNames` counts the names below the wildcards of a run, because whoever owns a zone reads what is asked of it.
 *
 * A name carries as much as a short message, and its lookup alone delivers it. So new names are logged, and few.
 */
import { no, type Result, yes } from '../../../core/result.ts'
import { WILDCARD_NAMES_MAX } from '../../../protocol/limits.ts'

export class WildcardNames {
  readonly #names = new Set<string>()
  readonly #log: (line: string) => void

  constructor(log: (line: string) => void) {
    this.#log = log
  }

  /** `zone`: the entry without its `*.`. */
  admit(name: string, zone: string): Result<void> {
    if (this.#names.has(name)) return yes(undefined)
    if (this.#names.size >= WILDCARD_NAMES_MAX)
      return no(
        'forbidden',
        `this run has used ${WILDCARD_NAMES_MAX} names below wildcards; add "${name}" to sandbox.allowedHosts to allow it`,
      )
    this.#names.add(name)
    this.#log(`${name} is name ${this.#names.size} of ${WILDCARD_NAMES_MAX} below wildcards, by *.${zone}`)
    return yes(undefined)
  }
}
