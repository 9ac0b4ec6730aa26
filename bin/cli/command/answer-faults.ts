/**
 * Finds the answer that no host of this version sends. The schemas cost a command its quick start, so they are loaded only
 * when a command has failed.
 */
import type { RequestName } from '../../../client/client.ts'
import { createOpenChecker } from '../../../protocol/parse.ts'
import { routes } from '../../../protocol/routes.ts'

/** Returns the request and the fault of its answer. Programs are called by the name of their file, and later. */
export async function answerFaults(
  answers: readonly (readonly [RequestName, unknown])[],
): Promise<string | undefined> {
  for (const [name, answer] of answers) {
    const { method, path, response } = routes[name]
    if (typeof response === 'string') continue
    const checked = createOpenChecker(response)(answer)
    if (!checked.ok) return `${method} ${path}: ${checked.error}`
  }
  return undefined
}
