import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../core/refusal.ts'
import { DRAIN_MS_MAX } from '../../../protocol/limits.ts'
import { hostInMemory } from '../../support/host.ts'

describe('the root', () => {
  test('boots, opens the doors, serves, and ends with 0 when asked to', async () => {
    const steps: string[] = []
    const { host, clock, ended } = hostInMemory(undefined, {
      openDoors: async (desk) => {
        steps.push(`doors opened, ${desk.open() ? 'open' : 'not open'} for work`)
        return yes({ close: async () => void steps.push('doors closed') })
      },
    })
    host.start()
    await clock.turn()
    expect(host.desk.open()).toBe(true)
    host.stop('enough')
    expect(host.desk.open()).toBe(false)
    await clock.turn()
    expect(steps).toEqual(['doors opened, not open for work', 'doors closed'])
    expect(ended).toEqual([{ exitCode: 0, reason: 'enough' }])
  })

  test('a port that is taken ends it with 69 and the sentence that names it', async () => {
    const { host, clock, ended } = hostInMemory(undefined, { openDoors: async () => no('conflict', 'port 4400 is taken') })
    host.start()
    await clock.turn()
    expect(ended).toEqual([{ exitCode: 69, reason: 'port 4400 is taken' }])
  })

  test('doors that do not close are not waited for beyond their time', async () => {
    const { host, clock, ended } = hostInMemory(undefined, {
      openDoors: async () => yes({ close: () => new Promise<void>(() => {}) }),
    })
    host.start()
    await clock.turn()
    host.stop('enough')
    await clock.advance(DRAIN_MS_MAX - 1)
    expect(ended).toEqual([])
    await clock.advance(1)
    expect(ended).toHaveLength(1)
  })

  test('stopping twice is stopping once', async () => {
    const { host, clock, ended } = hostInMemory()
    host.start()
    await clock.turn()
    host.stop('one')
    host.stop('two')
    await clock.turn()
    expect(ended).toEqual([{ exitCode: 0, reason: 'one' }])
  })

  test('no timer outlives it', async () => {
    const { host, clock } = hostInMemory()
    host.start()
    await clock.turn()
    host.stop('enough')
    await clock.turn()
    expect(clock.timers).toBe(0)
  })
})
