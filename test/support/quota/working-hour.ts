/**
 * SimulatedPeople plays a working hour: people open and comment on pull requests in the dashboard, others push and
 * comment on GitHub, and tickets change, some of them in bulk.
 *
 * The rates are daily totals, spread over eight working hours.
 */
import type { Result } from '../../../core/result.ts'
import type { Random } from '../random.ts'
import { type HostWithProviders, PULLS_A_REPO } from './host-with-providers.ts'
import { HOUR_MS, MINUTE_MS } from './meter.ts'

/** How often each action happens per day. */
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

export type PersonAction = keyof typeof DAILY

const WORKING_HOURS = 8
/** The probability that a person opens the page a second time. */
const REPEAT_PROBABILITY = 0.3
const BULK_TICKETS = 300
const BATCH_TICKETS = 50
const BATCH_MS = 100
/** The period of bulk changes. */
const BULK_EVERY_MINUTES = 60

export class SimulatedPeople {
  /** How often each action was performed. */
  readonly done = new Map<PersonAction, number>()
  /** The messages of refused actions. */
  readonly refusals: string[] = []
  readonly #place: HostWithProviders
  readonly #random: Random
  #lastText = 0

  constructor(place: HostWithProviders, random: Random) {
    this.#place = place
    this.#random = random
  }

  /** Simulates working hours. */
  async work(hours: number): Promise<void> {
    for (let minute = 0; minute < hours * 60; minute++) {
      if (minute % BULK_EVERY_MINUTES === 30) await this.#changeMany()
      const actions = this.#actionsOfMinute()
      for (const action of actions) {
        await this.perform(action)
        await this.#place.clock.advance(MINUTE_MS / 2 / actions.length)
      }
      await this.#place.clock.advance(actions.length === 0 ? MINUTE_MS : MINUTE_MS / 2)
    }
  }

  /** Simulates hours without any action. */
  async sleep(hours: number): Promise<void> {
    await this.#place.clock.advance(hours * HOUR_MS)
  }

  async perform(action: PersonAction): Promise<void> {
    this.done.set(action, (this.done.get(action) ?? 0) + 1)
    await this.#actions[action]()
  }

  #actionsOfMinute(): PersonAction[] {
    const kinds = Object.entries(DAILY) as [PersonAction, number][] // the keys of a literal
    return kinds.flatMap(([action, daily]) => {
      const rate = daily / WORKING_HOURS / 60
      const times = Math.floor(rate) + (this.#random.chance(rate % 1) ? 1 : 0)
      return Array.from({ length: times }, () => action)
    })
  }

  readonly #actions: Readonly<Record<PersonAction, () => unknown>> = {
    'open the page of pull requests': () => {
      this.#recordRefusal(this.#place.host.hostApi.pulls())
      if (this.#random.chance(REPEAT_PROBABILITY))
        this.#place.clock.after(15_000, () => this.#recordRefusal(this.#place.host.hostApi.pulls()))
    },
    'open a pull request': () => this.#recordRefusal(this.#place.host.hostApi.pull(...this.#pull())),
    'open a run': () => void this.#place.host.hostApi.run(this.#random.pick(this.#place.runs).id),
    'comment on a pull request': () =>
      this.#recordRefusal(this.#place.host.hostApi.commentPull(...this.#pull(), { body: this.#nextText() })),
    'approve a pull request': () =>
      this.#recordRefusal(
        this.#place.host.hostApi.reviewPull(...this.#pull(), { event: 'APPROVE', body: this.#nextText() }),
      ),
    'merge a pull request': () =>
      this.#recordRefusal(this.#place.host.hostApi.mergePull(...this.#pull(), { method: 'merge' })),
    'change a pull request on GitHub': () => this.#changePull(),
    'change a ticket': () => this.#changeTicket(),
  }

  #recordRefusal(answer: Promise<Result<unknown>>): void {
    void answer.then((result) => {
      if (!result.ok) this.refusals.push(result.refusal.message)
    })
  }

  #pull(): [repo: string, number: number] {
    return [`r${1 + this.#random.below(this.#place.remotes.length)}`, 1 + this.#random.below(PULLS_A_REPO)]
  }

  #nextText(): string {
    this.#lastText += 1
    return `Word ${this.#lastText}`
  }

  // ---- changes at the services ---------------------------------------------------------------------------------------

  async #changePull(): Promise<void> {
    const { github, remotes } = this.#place
    const [remote, number] = [this.#random.pick(remotes), 1 + this.#random.below(PULLS_A_REPO)]
    const pull = github.pull(remote, number)
    if (this.#random.chance(0.2) && pull.state === 'open') {
      const branch = pull.pull.headRef
      await github.commit(remote, {
        branch,
        from: branch,
        files: { [`more-${this.#lastText++}.txt`]: 'more\n' },
      })
    } else github.addComment(remote, number, { author: 'bo', body: this.#nextText() })
  }

  /** Changes a ticket, or comments on an issue when GitHub issues are the tickets. */
  #changeTicket(): void {
    const { github, issues, linear, remotes } = this.#place
    if (issues.length > 0) linear.world.change(this.#random.pick(issues), { title: this.#nextText() })
    else
      github.addComment(this.#random.pick(remotes), this.#issue(), { author: 'bo', body: this.#nextText() })
  }

  /** Issue numbers follow the numbers of the pull requests. */
  #issue(): number {
    return 1 + PULLS_A_REPO + this.#random.below(this.#place.issuesARepo)
  }

  /** Changes many tickets; Linear accepts at most fifty at once. */
  async #changeMany(): Promise<void> {
    for (let n = 0; n < BULK_TICKETS; n++) {
      this.#changeTicket()
      if (n % BATCH_TICKETS === BATCH_TICKETS - 1) await this.#place.clock.advance(BATCH_MS)
    }
  }
}
