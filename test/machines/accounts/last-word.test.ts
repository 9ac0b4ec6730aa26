/** Law: in every order of starts, callbacks, replies and removals, an earlier attempt is never saved after a later one. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { no, yes } from '../../../core/result.ts'
import { drawSeed } from '../../support/random.ts'
import { createAccountsBench } from './accounts-fixture.ts'

type Step = {
  readonly do: 'depart' | 'return' | 'give' | 'leave' | 'answer' | 'refuse'
  readonly which: number
}

const anyStep: fc.Arbitrary<Step> = fc.record({
  // Replies are more frequent than requests, so that all flows end.
  do: fc.constantFrom('depart', 'return', 'give', 'leave', 'answer', 'answer', 'answer', 'refuse'),
  which: fc.nat(20),
})

/** Plays the steps. Returns the start numbers of the saved attempts, in the order of saving. */
async function play(steps: readonly Step[]) {
  const b = createAccountsBench()
  let now = 0
  const away: { readonly begun: number; readonly state: string }[] = []
  const left: number[] = []
  const waiting: Promise<unknown>[] = []
  const answerOne = async (which: number, refuse: boolean) => {
    const question = b.providers.open[which % Math.max(1, b.providers.open.length)]
    if (question === undefined) return
    b.providers.open.splice(b.providers.open.indexOf(question), 1)
    const { code } = Object(question.order) as { code?: string }
    if (refuse) question.answer(no('failed', 'not now'))
    else question.answer(code === undefined ? yes('Ada') : yes({ accessToken: `begun-${code}` }))
    await b.clock.settle()
  }
  for (const step of steps) {
    now += 1
    if (step.do === 'depart') {
      await b.manager.connect('tracker')
      away.push({ begun: now, state: b.providers.states.at(-1) ?? '' })
    } else if (step.do === 'return') {
      const traveller = away[step.which % Math.max(1, away.length)]
      if (traveller !== undefined)
        waiting.push(
          b.manager.handleTrackerCallback({ code: String(traveller.begun), state: traveller.state }),
        )
    } else if (step.do === 'give') {
      waiting.push(b.manager.changeCredentials({ trackerApiKey: `begun-${now}` }))
    } else if (step.do === 'leave') {
      left.push(now)
      waiting.push(b.manager.changeCredentials({ trackerApiKey: '' }))
    } else await answerOne(step.which, step.do === 'refuse')
    await b.clock.settle()
  }
  while (b.providers.open.length > 0) await answerOne(0, false)
  // No request is left pending.
  await Promise.all(waiting)
  return b.saves.map(({ tracker }) =>
    tracker?.apiKey == null ? (left.shift() ?? 0) : Number(tracker.apiKey.slice('begun-'.length)),
  )
}

test('the attempt that began last counts', async () => {
  const seed = drawSeed()
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 40 }), async (steps) => {
      const saved = await play(steps)
      expect(saved).toEqual([...saved].sort((a, b) => a - b))
    }),
    { seed, numRuns: 200 },
  )
})
