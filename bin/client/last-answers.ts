/**
 * Keeps the last answers that a command has got. When the command fails over one that no host sends, because another
 * program uses the port, the person reads that in one sentence instead of the place in the code.
 */
import type { OnAnswer, RequestName } from '../../client/client.ts'
import { EXIT, ExitError } from '../exit.ts'
import { isUnexpected } from '../report-error.ts'

const ANSWERS_MAX = 16

export class LastAnswers {
  readonly #answers: (readonly [RequestName, unknown])[] = []

  readonly keep: OnAnswer = (name, answer) => {
    this.#answers.push([name, answer])
    if (this.#answers.length > ANSWERS_MAX) this.#answers.shift()
  }

  /** The error for the person. */
  async explain(error: unknown): Promise<unknown> {
    if (!isUnexpected(error) || this.#answers.length === 0) return error
    const { answerFaults } = await import('../commands/answer-faults.ts')
    const fault = await answerFaults(this.#answers)
    if (fault === undefined) return error
    return new ExitError(
      EXIT.unavailable,
      `what answers is no host of this version, or another program: ${fault}`,
      'restart the host, or name the right one with --data-dir',
    )
  }
}
