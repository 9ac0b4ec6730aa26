/**
 * What the end of the host's own worker means for starting it again, from how its process ended.
 */
import type { LocalWorkerExit } from '../ports.ts'

/**
 * `turned away`: the host doesn't know it any more; with an invitation it is let in. `hopeless`: a person is needed,
 * or at least time. `died`: anything else, which a new start may cure.
 */
export type LocalWorkerExitKind = 'unauthorized' | 'unrecoverable' | 'died'

/** By exit code, as the command documents them. */
const UNAUTHORIZED_CODE = 77
const UNRECOVERABLE_CODES: ReadonlySet<number> = new Set([2, 65, 69, 76])
const DESCRIPTIONS: Readonly<Record<number, string>> = {
  0: 'somebody stopped it',
  2: 'its command line was refused',
  65: 'its data was written by a newer version',
  69: 'it found no sandbox',
  70: 'something inside broke, or its disk did',
  75: 'another worker uses its folder or its credential',
  76: 'host and worker do not understand each other',
  77: 'this host did not know it any more',
}

export function classifyExit({ code }: LocalWorkerExit): LocalWorkerExitKind {
  if (code === UNAUTHORIZED_CODE) return 'unauthorized'
  return code !== undefined && UNRECOVERABLE_CODES.has(code) ? 'unrecoverable' : 'died'
}

export function describeExit({ code, signal }: LocalWorkerExit): string {
  if (code === undefined) return `it was ended by ${signal ?? 'a signal'}`
  return DESCRIPTIONS[code] ?? `it ended with exit code ${code}`
}
