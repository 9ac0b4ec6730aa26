/**
 * The couriers of this process: one for each service, place and credential, whoever asks for it.
 *
 * They are told apart by a hash, so that no credential lies around in a table, and those that have nothing to do and
 * nothing to remember are forgotten first when there are many. A driver holds only the name of its courier, so two of
 * them never spend from the same budget without knowing of each other.
 */
import { createHash } from 'node:crypto'
import type { Clock, Log, RandomSource } from '../../core/ports.ts'
import { no, type Result } from '../../core/result.ts'
import type { Courier, Couriers, Errand, Manners } from './client-types.ts'
import { KeptReplies } from './etag-cache.ts'
import type { Http, HttpReply } from './http.ts'
import { Rounds } from './rate-limited-client.ts'

export interface CouriersParts {
  readonly http: Pick<Http, 'ask'>
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'fraction'>
  readonly log: Log
}

export interface OpenCouriers extends Couriers {
  /** Whoever waits is refused, and whoever comes. */
  close(): void
}

export const COURIERS_MAX = 64

export function makeCouriers(parts: CouriersParts): OpenCouriers {
  return new Office(parts)
}

class Office implements OpenCouriers {
  readonly #parts: CouriersParts
  readonly #kept = new KeptReplies()
  /** Whoever was asked last comes last. */
  readonly #rounds = new Map<string, Rounds>()
  #isClosed = false

  constructor(parts: CouriersParts) {
    this.#parts = parts
  }

  courier(manners: Manners, origin: string, credential: string | undefined): Courier {
    const place = URL.canParse(origin) ? new URL(origin).origin : origin
    const key = createHash('sha256')
      .update(JSON.stringify([manners.name, place, credential ?? null]))
      .digest('base64url')
    return { ask: (errand) => this.#ask(key, manners, place, errand) }
  }

  close(): void {
    this.#isClosed = true
    for (const rounds of this.#rounds.values()) rounds.close()
  }

  async #ask(key: string, manners: Manners, place: string, errand: Errand): Promise<Result<HttpReply>> {
    if (this.#isClosed)
      return no('unavailable', `${manners.name} is not asked any more: this process is stopping`)
    // An address that a service named itself must not carry the credential elsewhere.
    if (!URL.canParse(errand.url) || new URL(errand.url).origin !== place) {
      return no(
        'invalid',
        `an address of ${manners.name} leads away from where its credential may go; nothing was asked`,
      )
    }
    const rounds = this.#roundsOf(key, manners)
    if (rounds === undefined) {
      return no('unavailable', `${COURIERS_MAX} accounts are being asked at once; try again in a while`)
    }
    return rounds.ask(errand)
  }

  #roundsOf(key: string, manners: Manners): Rounds | undefined {
    const known = this.#rounds.get(key)
    this.#rounds.delete(key)
    if (known === undefined && !this.#makeRoom()) return undefined
    const rounds = known ?? new Rounds({ ...this.#parts, manners, owner: key, kept: this.#kept })
    this.#rounds.set(key, rounds)
    return rounds
  }

  #makeRoom(): boolean {
    if (this.#rounds.size < COURIERS_MAX) return true
    const idle = [...this.#rounds].filter(([, rounds]) => rounds.isIdle)
    const [key] = idle.find(([, rounds]) => rounds.isBlank) ?? idle[0] ?? []
    return key !== undefined && this.#rounds.delete(key)
  }
}
