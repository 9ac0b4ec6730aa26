/** Slots: a few steps at once, the others in their order. */
import { expect, test } from '@jest/globals'
import { Slots } from '../../core/slots.ts'

test('few steps run at the same time, and the others in their order', async () => {
  const slots = new Slots(2)
  const began: number[] = []
  const ends: (() => void)[] = []
  const steps = [0, 1, 2, 3].map((step) =>
    slots.run(async () => {
      began.push(step)
      await new Promise<void>((resolve) => ends.push(resolve))
      if (step === 0) throw new Error('a step that fails leaves its place, too')
    }),
  )
  await Promise.resolve()
  expect(began).toEqual([0, 1])
  ends[0]?.()
  await expect(steps[0]).rejects.toThrow('leaves its place')
  expect(began).toEqual([0, 1, 2])
  ends[1]?.()
  await steps[1]
  expect(began).toEqual([0, 1, 2, 3])
  for (const end of ends) end()
  await Promise.all(steps.slice(1))
})

test('a step whose time is over does not wait for its turn', async () => {
  const slots = new Slots(1)
  let end = () => {}
  const first = slots.run(() => new Promise<void>((resolve) => (end = resolve)))
  const abort = new AbortController()
  const second = slots.run(async () => 'stopped', abort.signal)
  const third = slots.run(async () => 'third')
  abort.abort()
  expect(await second).toBe('stopped')
  end()
  await first
  expect(await third).toBe('third')
  expect(await slots.run(async () => 'last')).toBe('last')
})
