/** The time of all steps that follow the agent, without those that contact the code host. */
import { expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import { FinalizingTime } from '../../../worker/run/execution/work-plan.ts'

function clockAt() {
  let now = 0
  let due: { at: number; run: () => void } | undefined
  const pass = (minutes: number): void => {
    now += minutes * 60_000
    if (due !== undefined && due.at <= now) due.run()
  }
  const taking = (minutes: number) => async () => {
    pass(minutes)
    return yes('collected')
  }
  return {
    monotonic: () => now,
    after: (ms: number, run: () => void) => {
      due = { at: now + ms, run }
      return () => {
        due = undefined
      }
    },
    pass,
    taking,
  }
}

test('steps share 60 minutes, and what is between them does not count', async () => {
  const clock = clockAt()
  const { taking } = clock
  const time = new FinalizingTime(clock)
  expect(await time.within(taking(40))).toEqual(yes('collected'))
  clock.pass(300)
  expect(time.isOver).toBe(false)
  expect(await time.within(async () => no('conflict', 'refused'))).toEqual(no('conflict', 'refused'))
  const last = await time.within(async (signal) => {
    clock.pass(19)
    expect(signal.aborted).toBe(false)
    clock.pass(1)
    return signal.aborted ? no('failed', 'it was stopped') : yes('searched')
  })
  const message =
    'what follows the agent did not end within 60 minutes, so nothing was published; its work stays in its sandbox'
  expect(last).toEqual({ ok: false, refusal: { kind: 'failed', message, failure: 'publish' } })
  expect(time.isOver).toBe(true)
  expect(await time.measure(async ({ aborted }) => aborted)).toBe(true)
})

test('a step that came to its end with the time counts', async () => {
  const clock = clockAt()
  const { taking } = clock
  const time = new FinalizingTime(clock)
  expect(await time.within(taking(60))).toEqual(yes('collected'))
  expect(time.isOver).toBe(true)
})
