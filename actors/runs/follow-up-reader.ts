/**
 * What people say on the pull requests that are to be followed up: read right before a follow-up goes to a worker, and
 * kept in memory until it is there.
 *
 * A follow-up that nobody has room for is not read for. Once a worker could take it, it waits for its pull request
 * (`waitingFor` says so), and is looked at again when that has been read; a code host that is away is asked again, ever
 * less often. Nothing in here is durable: after a restart everything is read anew.
 */
import { backoffMs } from '../../core/backoff.ts'
import type { Cancel, Clock, Log, RandomSource } from '../../core/ports.ts'
import type { PullHost, PullPlace } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { type PullTalk, talkOf } from '../../core/run/follow-up.ts'
import {
  FOLLOW_UP_FRESH_MS,
  FOLLOW_UP_READS_AT_ONCE,
  FOLLOW_UP_READS_KEPT,
  FOLLOW_UP_RETRY_MS_FIRST,
  FOLLOW_UP_RETRY_MS_MAX,
} from '../../protocol/limits.ts'
import type { PullState, Run } from '../../protocol/run.ts'

export interface FollowUpPorts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  /** Refused while no code host is connected. */
  readonly pulls: () => Result<PullHost>
  /** What keeps this run from a worker may have changed. */
  readonly changed: (runId: string) => void
  /** Something that may let any of them be placed. */
  readonly look: () => void
  readonly seen: (runId: string, url: string, state: PullState) => void
  /** Keys of what earlier follow-ups of this pull request were told; undefined: it is not known. */
  readonly answered: (runId: string, url: string) => ReadonlySet<string> | undefined
  /** There is nothing any more that could be followed up. */
  readonly gone: (runId: string, reason: string) => void
}

/** `later`: others are being read for, and it is looked at again after one of them. */
export type Readiness = 'ready' | 'held' | 'later'

/** So long at most until it is looked again whether a sandbox is still kept: timers count no further than some weeks. */
const LOOK_MS_MAX = 24 * 3_600_000

interface Page {
  /** `due`: it may be read again. */
  readonly is: 'reading' | 'away' | 'due' | 'ready'
  /** Failures in a row. */
  readonly tries: number
  readonly says?: string
  readonly talk?: PullTalk
  readonly readAt?: number
}

interface Asked {
  readonly state: PullState
  readonly talk: Result<PullTalk>
}

export class FollowUps {
  readonly #ports: FollowUpPorts
  /** Oldest first. */
  readonly #pages = new Map<string, Page>()
  readonly #wakes = new Map<string, Cancel>()
  /** When sandboxes that are waited for cease to be kept. */
  readonly #ends = new Map<string, Cancel>()
  readonly #starting = new Set<string>()
  #reading = 0
  #isOver = false

  constructor(ports: FollowUpPorts) {
    this.#ports = ports
  }

  get size(): number {
    return this.#pages.size + this.#ends.size
  }

  stop(): void {
    this.#isOver = true
    for (const cancel of [...this.#wakes.values(), ...this.#ends.values()]) cancel()
    this.#wakes.clear()
    this.#ends.clear()
  }

  // ---- being asked for ---------------------------------------------------------------------------------------------

  /** Somebody has asked for one, and the code host has not answered yet. */
  isStarting(runId: string): boolean {
    return this.#starting.has(runId)
  }

  async starting<T>(runId: string, ask: () => Promise<T>): Promise<T> {
    this.#starting.add(runId)
    try {
      return await ask()
    } finally {
      this.#starting.delete(runId)
    }
  }

  // ---- waiting -----------------------------------------------------------------------------------------------------

  /** It waits for a worker: until then for the one that keeps its sandbox. */
  waits({ id, sandbox }: Pick<Run, 'id' | 'sandbox'>): void {
    this.#ends.get(id)?.()
    this.#ends.delete(id)
    const leftMs = Date.parse(sandbox.retainedUntil ?? '') - this.#ports.clock.now()
    if (!(leftMs > 0)) return
    const end = this.#ports.clock.after(Math.min(leftMs, LOOK_MS_MAX), () => {
      this.waits({ id, sandbox })
      this.#ports.changed(id)
    })
    this.#ends.set(id, end)
  }

  /** It waits no more. What was read stays until a worker has it. */
  left(runId: string): void {
    this.#ends.get(runId)?.()
    this.#ends.delete(runId)
  }

  forget(runId: string): void {
    this.left(runId)
    this.#wakes.get(runId)?.()
    this.#wakes.delete(runId)
    this.#pages.delete(runId)
  }

  /** What it waits for besides a worker. */
  waitingFor(runId: string): string | undefined {
    const page = this.#pages.get(runId)
    if (page?.is === 'reading') return 'its pull request is being read'
    return page?.is === 'away' ? page.says : undefined
  }

  /** A worker has room for it: may it go? When not, what it needs for that is under way. */
  readiness({ id, prUrl }: Pick<Run, 'id' | 'prUrl'>): Readiness {
    const page = this.#pages.get(id)
    if (page?.is === 'reading' || page?.is === 'away') return 'held'
    const isFresh =
      this.#ports.clock.monotonic() - (page?.readAt ?? Number.NEGATIVE_INFINITY) < FOLLOW_UP_FRESH_MS
    if (page?.is === 'ready' && isFresh) return 'ready'
    if (this.#reading >= FOLLOW_UP_READS_AT_ONCE) return 'later'
    void this.#read(id, prUrl ?? '', page?.is === 'due' ? page.tries : 0)
    return 'held'
  }

  talk(runId: string): Result<PullTalk> {
    const talk = this.#pages.get(runId)?.talk
    return talk === undefined ? no('unavailable', 'its pull request has not been read yet') : yes(talk)
  }

  /** There may be another code host now, or one at last. */
  configured(): void {
    for (const runId of [...this.#pages.keys()]) this.#due(runId, 0)
  }

  // ---- reading -----------------------------------------------------------------------------------------------------

  async #read(runId: string, url: string, tries: number): Promise<void> {
    const page: Page = { is: 'reading', tries }
    this.#write(runId, page)
    this.#reading += 1
    const asked = await this.#ask(runId, url)
    this.#reading -= 1
    if (this.#isOver) return
    // It came to rest meanwhile, or the code host is another one.
    if (this.#pages.get(runId) === page) this.#take(runId, url, tries, asked)
    this.#ports.look()
  }

  #take(runId: string, url: string, tries: number, asked: Result<Asked>): void {
    if (!asked.ok) {
      if (asked.refusal.kind === 'unknown')
        this.#gone(runId, 'the code host does not know its pull request any more')
      else this.#away(runId, tries + 1, asked.refusal.message)
      return
    }
    const { state, talk } = asked.value
    // One that is over ends its follow-up by that.
    this.#ports.seen(runId, url, state)
    if (!this.#pages.has(runId)) return
    if (!talk.ok) {
      this.#gone(runId, talk.refusal.message)
      return
    }
    this.#write(runId, { is: 'ready', tries: 0, talk: talk.value, readAt: this.#ports.clock.monotonic() })
    this.#makeRoom()
    this.#ports.changed(runId)
  }

  async #ask(runId: string, url: string): Promise<Result<Asked>> {
    try {
      const pulls = this.#ports.pulls()
      if (!pulls.ok) return pulls
      const place = pulls.value.placeOf(url)
      if (place === undefined) return ELSEWHERE
      return await asked(pulls.value, place, url, this.#ports.answered(runId, url))
    } catch (error) {
      this.#ports.log.error({ url, err: error }, 'a pull request could not be read')
      return no('failed', 'the service failed; its log says why')
    }
  }

  #gone(runId: string, reason: string): void {
    this.#pages.delete(runId)
    this.#ports.gone(runId, reason)
  }

  #away(runId: string, tries: number, reason: string): void {
    const { random, changed, clock, log } = this.#ports
    const says = `its pull request cannot be read: ${reason}`
    log.debug({ run: runId, reason }, 'the pull request of a follow-up cannot be read')
    this.#write(runId, { is: 'away', tries, says })
    const waitMs = backoffMs(tries, FOLLOW_UP_RETRY_MS_FIRST, FOLLOW_UP_RETRY_MS_MAX, random.fraction())
    this.#wakes.set(
      runId,
      clock.after(waitMs, () => this.#due(runId, tries)),
    )
    changed(runId)
  }

  #due(runId: string, tries: number): void {
    this.#wakes.get(runId)?.()
    this.#wakes.delete(runId)
    this.#write(runId, { is: 'due', tries })
    this.#ports.changed(runId)
  }

  /** The newest comes last. */
  #write(runId: string, page: Page): void {
    this.#pages.delete(runId)
    this.#pages.set(runId, page)
  }

  /** Those that were read longest ago, and that no worker took, are read again when one does. */
  #makeRoom(): void {
    const ready = [...this.#pages].filter(([, { is }]) => is === 'ready')
    for (const [runId] of ready.slice(0, Math.max(0, ready.length - FOLLOW_UP_READS_KEPT)))
      this.#pages.delete(runId)
  }
}

const ELSEWHERE = no('invalid', 'it is not at the code host that is connected now')

async function asked(
  pulls: PullHost,
  place: PullPlace,
  url: string,
  answered: ReadonlySet<string> | undefined,
): Promise<Result<Asked>> {
  const [detail, origin] = await Promise.all([pulls.detail(place), pulls.origin(place)])
  if (!detail.ok) return detail
  // Of one that is over, nobody asks any more where it came from.
  const { state } = detail.value
  if (state === 'merged' || state === 'closed') return yes({ state, talk: OVER })
  return origin.ok ? yes({ state, talk: talkOf(url, detail.value, origin.value, answered) }) : origin
}

const OVER = no('conflict', 'its pull request is over')
