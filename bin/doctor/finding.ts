/**
 * A finding is what `switchyard doctor` says of one thing: in order, worth a look, or broken, and what mends it.
 *
 * A check is a module with an id and a function; `registry.ts` lists all checks in the order in which they are printed.
 */
import type { ExaminedMachine, Place } from './examined-machine.ts'

export type FindingStatus = 'ok' | 'warn' | 'fail'

/** A record of `doctor --json`. */
export interface Finding {
  readonly id: string
  readonly status: FindingStatus
  readonly message: string
  /** A command, or the deed that helps where no command does. */
  readonly cure?: string
}

/** A change that loses nothing and may be made twice. */
export interface Fix {
  /** The sentence that is true afterwards: `config.json has mode 0600`. */
  readonly result: string
  apply(): Promise<void>
}

export interface Judgement {
  readonly status: FindingStatus
  readonly message: string
  readonly cure?: string
  readonly fix?: Fix
}

export interface Check {
  readonly id: string
  /** The places in which the check makes sense. */
  readonly places: readonly Place[]
  /** A thing that does not exist here has no judgement. */
  judge(machine: ExaminedMachine): Promise<readonly Judgement[]>
}

export const ok = (message: string): Judgement => ({ status: 'ok', message })

export const warn = (message: string, cure?: string, fix?: Fix): Judgement =>
  withCure('warn', message, cure, fix)

export const fail = (message: string, cure?: string, fix?: Fix): Judgement =>
  withCure('fail', message, cure, fix)

function withCure(status: FindingStatus, message: string, cure?: string, fix?: Fix): Judgement {
  return { status, message, ...(cure === undefined ? {} : { cure }), ...(fix === undefined ? {} : { fix }) }
}

/** Many messages of the service end with what helps; the separator stands between problem and cure. */
export function splitCure(text: string, separator: RegExp | string = '; '): readonly [string, string?] {
  const found = typeof separator === 'string' ? text.indexOf(separator) : text.search(separator)
  if (found === -1) return [text]
  const length = typeof separator === 'string' ? separator.length : (separator.exec(text)?.[0].length ?? 0)
  return [text.slice(0, found), text.slice(found + length)]
}
