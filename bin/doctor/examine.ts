/**
 * Runs all checks at once, each within its time limit, and returns the findings in the order of the registry.
 *
 * A check that takes too long or throws has a finding of its own, so that one broken thing never hides the others.
 */
import type { Clock } from '../../core/ports.ts'
import { DOCTOR_CHECK_MS_MAX } from '../../protocol/limits.ts'
import { messageOf } from '../../store/errors.ts'
import type { ExaminedMachine } from './examined-machine.ts'
import { type Check, type Finding, type Fix, fail, type Judgement, warn } from './finding.ts'

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
