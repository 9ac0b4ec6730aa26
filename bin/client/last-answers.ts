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

  /** The error for the person. The schemas are loaded only now, because a command that works needs none. */
  async explain(error: unknown): Promise<unknown> {
    if (!isUnexpected(error) || this.#answers.length === 0) return error
    const [{ routes }, { createOpenChecker }] = await Promise.all([
      import('../../protocol/routes.ts'),
      import('../../protocol/parse.ts'),
    ])
    for (const [name, answer] of this.#answers) {
      const { method, path, response } = routes[name]
      if (typeof response === 'string') continue
      const checked = createOpenChecker(response)(answer)
      if (!checked.ok)
        return new ExitError(
          EXIT.unavailable,
          `what answers is no host of this version, or another program: ${method} ${path}: ${checked.error}`,
          'restart the host, or name the right one with --data-dir',
        )
    }
    return error
  }
}
