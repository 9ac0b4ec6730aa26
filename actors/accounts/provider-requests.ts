/**
 * Asking providers: never for longer than a while, never many at once, and never beyond the end of the service.
 *
 * Nobody who waits is left waiting, whatever a provider does. One that throws has a bug: the log says where, but not
 * what it said, for that may hold what it was given.
 */
import { isNativeError } from 'node:util/types'
import type { Clock, Log } from '../../core/ports.ts'
import { no, type Refused, type Result } from '../../core/result.ts'
import { answerWithin } from '../../core/with-timeout.ts'

/** Questions under way at once, from everybody. */
export const QUESTIONS_MAX = 32
/** What one may take; providers give up on a single request much sooner. */
export const QUESTION_MS_MAX = 60_000

const STOPPING = no('unavailable', 'the service is stopping')
const CROWD = no(
  'unavailable',
  `${QUESTIONS_MAX} questions to providers are under way already; try again in a moment`,
)

type Question<T> = () => Promise<Result<T>> | Result<T>

export interface QuestionPorts {
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
}

export class Questions {
  readonly #ports: QuestionPorts
  readonly #open = new Set<(answer: Refused) => void>()
  #isOver = false

  constructor(ports: QuestionPorts) {
    this.#ports = ports
  }

  get size(): number {
    return this.#open.size
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /**
   * The first question of something: refused when there are too many.
   *
   * @param who as a person knows it: `the tracker`
   */
  async ask<T>(who: string, question: Question<T>): Promise<Result<T>> {
    return this.#open.size >= QUESTIONS_MAX ? CROWD : this.goOn(who, question)
  }

  /** A later one, of what is bounded by itself: a code that was given out must not be lost to a crowd. */
  async goOn<T>(who: string, question: Question<T>): Promise<Result<T>> {
    if (this.#isOver) return STOPPING
    let stop: (answer: Refused) => void = () => {}
    const asked = new Promise<Result<T>>((settle) => {
      stop = settle
      void this.#answered(who, question).then(settle)
    })
    this.#open.add(stop)
    const answer = await answerWithin(this.#ports.clock, QUESTION_MS_MAX, asked, who)
    this.#open.delete(stop)
    return answer
  }

  stop(): void {
    this.#isOver = true
    for (const stop of this.#open) stop(STOPPING)
  }

  async #answered<T>(who: string, question: Question<T>): Promise<Result<T>> {
    try {
      return await question()
    } catch (error) {
      this.#ports.log.error({ who, place: placeOf(error) }, 'a question to a provider threw')
      return no('failed', `${who} could not be asked; the log says where that failed`)
    }
  }
}

/** Of a stack, the frames alone. */
function placeOf(error: unknown): string {
  if (!isNativeError(error)) return 'unknown'
  const frames = (error.stack ?? '').split('\n').filter((line) => line.startsWith('    at '))
  return [error.name, ...frames].join('\n')
}
