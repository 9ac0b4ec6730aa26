/**
 * Runs all checks at once, each within its time limit, and returns the findings in the order of the registry.
 *
 * A check that takes too long or throws has a finding of its own, so that one broken thing never hides the others.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import type { ExaminedMachine, Place } from './examined-machine.ts'

/** Time limit of one check, with all its requests. */
export const DOCTOR_CHECK_MS_MAX = 20_000

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
interface Fix {
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

export interface FixableFinding extends Finding {
  readonly fix?: Fix
}

/** @param onWaiting called with the ids of the checks that have no result yet */
export async function examine(
  machine: ExaminedMachine,
  checks: readonly Check[],
  clock: Pick<Clock, 'after'>,
  onWaiting: (ids: readonly string[]) => void = () => {},
): Promise<readonly FixableFinding[]> {
  const all = checks.filter(({ places }) => places.includes(machine.place))
  const waiting = new Set(all.map(({ id }) => id))
  onWaiting([...waiting])
  const found = await Promise.all(
    all.map(async (check) => {
      const judgements = await judgeInTime(check, machine, clock)
      waiting.delete(check.id)
      onWaiting([...waiting])
      return judgements.map((judgement) => ({ id: check.id, ...judgement }))
    }),
  )
  return found.flat()
}

function judgeInTime(
  check: Check,
  machine: ExaminedMachine,
  clock: Pick<Clock, 'after'>,
): Promise<readonly Judgement[]> {
  return new Promise((resolve) => {
    const cancel = clock.after(DOCTOR_CHECK_MS_MAX, () =>
      resolve([warn(`could not be checked within ${DOCTOR_CHECK_MS_MAX / 1000} s`, 'switchyard doctor')]),
    )
    const settle = (judgements: readonly Judgement[]) => {
      cancel()
      resolve(judgements)
    }
    check.judge(machine).then(settle, (error: unknown) => settle([fail(firstLine(messageOf(error)))]))
  })
}

const firstLine = (text: string): string => text.split('\n')[0] ?? text

// ---- judgements ----------------------------------------------------------------------------------------------------

export const ok = (message: string): Judgement => ({ status: 'ok', message })

export const warn = (message: string, cure?: string, fix?: Fix): Judgement =>
  withCure('warn', message, cure, fix)

export const fail = (message: string, cure?: string, fix?: Fix): Judgement =>
  withCure('fail', message, cure, fix)

function withCure(status: FindingStatus, message: string, cure?: string, fix?: Fix): Judgement {
  return { status, message, ...(cure === undefined ? {} : { cure }), ...(fix === undefined ? {} : { fix }) }
}

/** Many messages of the service end with what helps; the separator stands between problem and cure. */
export function splitCure(text: string, separator = /; /): readonly [string, string?] {
  const found = separator.exec(text)
  if (found === null) return [text]
  return [text.slice(0, found.index), text.slice(found.index + found[0].length)]
}

// ---- fixes ---------------------------------------------------------------------------------------------------------

export interface AppliedFix {
  readonly id: string
  /** The sentence that is true now, or why the fix failed. */
  readonly message: string
}

/** Applies the fixes of findings: only changes that lose nothing and may be made twice. */
export async function applyFixes(findings: readonly FixableFinding[]): Promise<readonly AppliedFix[]> {
  const applied: AppliedFix[] = []
  for (const { id, fix } of findings) {
    if (fix === undefined) continue
    // The finding stays when its fix fails, and names the cure again.
    const message = await fix.apply().then(
      () => fix.result,
      (error: unknown) => `could not be mended: ${messageOf(error)}`,
    )
    applied.push({ id, message })
  }
  return applied
}
