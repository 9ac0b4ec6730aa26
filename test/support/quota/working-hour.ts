/**
 * What goes on in a working hour between the host and its neighbours: people look at pull requests and talk about
 * them, others push and comment on GitHub, and tickets change, some of them many at once.
 *
 * The rates are those of a day whose whole work is done in eight hours.
 */
import type { Result } from '../../../core/result.ts'
import type { Random } from '../random.ts'
import { type Neighbourhood, PULLS_A_REPO } from './host-with-providers.ts'
import { HOUR_MS, MINUTE_MS } from './meter.ts'

/** A day's, by what is done. */
const DAILY = {
  'open the page of pull requests': 100,
  'open a pull request': 60,
  'open a run': 60,
  'comment on a pull request': 20,
  'approve a pull request': 10,
  'merge a pull request': 10,
  'change a pull request on GitHub': 500,
  'change a ticket': 1_000,
} as const

export type Deed = keyof typeof DAILY

const WORKING_HOURS = 8
/** Somebody who opens the page looks again in a moment. */
const AGAIN = 0.3
const BULK_TICKETS = 300
const BATCH_TICKETS = 50
const BATCH_MS = 100
/** In each working hour, as it begins. */
const BULK_EVERY_MINUTES = 60

export class People {
  /** How often each was done. */
  readonly done = new Map<Deed, number>()
  /** What they were told instead of an answer. */
  readonly refusals: string[] = []
  readonly #place: Neighbourhood
  readonly #random: Random
  #said = 0

  constructor(place: Neighbourhood, random: Random) {
    this.#place = place
    this.#random = random
  }

  /** Lets so many hours go by, with people at work. */
  async work(hours: number): Promise<void> {
    for (let minute = 0; minute < hours * 60; minute++) {
      if (minute % BULK_EVERY_MINUTES === 30) await this.#changeMany()
      const deeds = this.#deedsOfAMinute()
      for (const deed of deeds) {
        await this.do(deed)
        await this.#place.clock.advance(MINUTE_MS / 2 / deeds.length)
      }
      await this.#place.clock.advance(deeds.length === 0 ? MINUTE_MS : MINUTE_MS / 2)
    }
  }

  /** At night nobody does anything. */
  async sleep(hours: number): Promise<void> {
    await this.#place.clock.advance(hours * HOUR_MS)
  }

  async do(deed: Deed): Promise<void> {
    this.done.set(deed, (this.done.get(deed) ?? 0) + 1)
    await this.#deeds[deed]()
  }

  #deedsOfAMinute(): Deed[] {
    const kinds = Object.entries(DAILY) as [Deed, number][] // the keys of a literal
    return kinds.flatMap(([deed, daily]) => {
      const rate = daily / WORKING_HOURS / 60
      const times = Math.floor(rate) + (this.#random.random(rate % 1) ? 1 : 0)
      return Array.from({ length: times }, () => deed)
    })
  }

  readonly #deeds: Readonly<Record<Deed, () => unknown>> = {
    'open the page of pull requests': () => {
      this.#asks(this.#place.host.hostApi.pulls())
      if (this.#random.random(AGAIN))
        this.#place.clock.after(15_000, () => this.#asks(this.#place.host.hostApi.pulls()))
    },
    'open a pull request': () => this.#asks(this.#place.host.hostApi.pull(...this.#pull())),
    'open a run': () => void this.#place.host.hostApi.run(this.#random.pick(this.#place.runs).id),
    'comment on a pull request': () =>
      this.#asks(this.#place.host.hostApi.commentPull(...this.#pull(), { body: this.#words() })),
    'approve a pull request': () =>
      this.#asks(
        this.#place.host.hostApi.reviewPull(...this.#pull(), { event: 'APPROVE', body: this.#words() }),
      ),
    'merge a pull request': () =>
      this.#asks(this.#place.host.hostApi.mergePull(...this.#pull(), { method: 'merge' })),
    'change a pull request on GitHub': () => this.#changePull(),
    'change a ticket': () => this.#changeTicket(),
  }

  #asks(answer: Promise<Result<unknown>>): void {
    void answer.then((told) => {
      if (!told.ok) this.refusals.push(told.refusal.message)
    })
  }

  #pull(): [repo: string, number: number] {
    return [`r${1 + this.#random.below(this.#place.remotes.length)}`, 1 + this.#random.below(PULLS_A_REPO)]
  }

  #words(): string {
    this.#said += 1
    return `Word ${this.#said}`
  }

  // ---- elsewhere -----------------------------------------------------------------------------------------------------

  async #changePull(): Promise<void> {
    const { github, remotes } = this.#place
    const [remote, number] = [this.#random.pick(remotes), 1 + this.#random.below(PULLS_A_REPO)]
    const pull = github.pull(remote, number)
    if (this.#random.random(0.2) && pull.state === 'open') {
      const branch = pull.pull.headRef
      await github.commit(remote, { branch, from: branch, files: { [`more-${this.#said++}.txt`]: 'more\n' } })
    } else github.addComment(remote, number, { author: 'bo', body: this.#words() })
  }

  /** Where issues are the tickets, they are talked about. */
  #changeTicket(): void {
    const { github, issues, linear, remotes } = this.#place
    if (issues.length > 0) linear.world.change(this.#random.pick(issues), { title: this.#words() })
    else github.addComment(this.#random.pick(remotes), this.#issue(), { author: 'bo', body: this.#words() })
  }

  /** They come after the pull requests. */
  #issue(): number {
    return 1 + PULLS_A_REPO + this.#random.below(this.#place.issuesARepo)
  }

  /** Linear changes at most fifty in one go. */
  async #changeMany(): Promise<void> {
    for (let n = 0; n < BULK_TICKETS; n++) {
      this.#changeTicket()
      if (n % BATCH_TICKETS === BATCH_TICKETS - 1) await this.#place.clock.advance(BATCH_MS)
    }
  }
}
