/** Tests of when the list of what needs a person is pushed to dashboards. */
import { expect, test } from '@jest/globals'
import { ATTENTION_PUSH_MS, AttentionBroadcast } from '../../../actors/attention/attention-broadcast.ts'
import { DashboardBroadcast } from '../../../actors/dashboard/dashboard-broadcast.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

/** A broadcast whose only item is a run that waits for a credential, or none. `begin` makes a commit, `finish` ends it. */
function watchAttention() {
  const clock = new ManualClock()
  const broadcast = new DashboardBroadcast(createRecordingLog(), clock)
  const received: string[][] = []
  broadcast.listen((push) => {
    if (push.type === 'attention') received.push(push.items.map(({ since }) => since))
  })
  let since: string[] = []
  let isDiskFull = false
  const attention = new AttentionBroadcast({
    clock,
    broadcast,
    requestCommit: () => {},
    facts: () => ({
      now: clock.now(),
      startedAt: 0,
      config: configDefaults,
      endedRuns: [],
      activeTickets: new Set(),
      closedTickets: new Set(),
      limits: new Map(),
      conflicts: new Map(),
      verdicts: new Map(),
      credentials: since.map((each) => ({ reason: 'missing-credential: github', since: each })),
      awayWorkers: [],
      fullWorkers: [],
      unmapped: [],
      damage: [],
      unreadable: [],
      unpublished: [],
      withKeys: [],
      ...(isDiskFull ? { disk: { reason: 'the disk is full', since: FIRST } } : {}),
      tracker: { state: 'connected' },
    }),
  })
  return {
    received,
    read: () => attention.read().items.map((item) => item.since),
    /** Changes the facts, as they are in memory. */
    change: (...next: string[]) => {
      since = next
      attention.onChange()
    },
    fillDisk: () => {
      isDiskFull = true
      attention.onChange()
      return clock.advance(ATTENTION_PUSH_MS)
    },
    async begin() {
      await clock.advance(ATTENTION_PUSH_MS)
      const commit = attention.contribute()
      return { finish: () => commit?.onCommitted() }
    },
  }
}

const FIRST = '2026-01-01T10:00:00.000Z'
const LATER = '2026-01-01T11:00:00.000Z'

test('a full disk is pushed although no commit ends', async () => {
  const { received, fillDisk } = watchAttention()
  await fillDisk()
  expect(received).toEqual([[FIRST]])
})

test('a list is pushed when its commit is on disk, and an equal one is not pushed again', async () => {
  const { received, change, begin } = watchAttention()
  change(FIRST)
  const commit = await begin()
  expect(received).toEqual([])
  commit.finish()
  expect(received).toEqual([[FIRST]])
  change(FIRST)
  ;(await begin()).finish()
  change()
  ;(await begin()).finish()
  expect(received).toEqual([[FIRST], []])
})

test('a dashboard that has read a newer list does not get the one whose commit was in flight', async () => {
  const { received, change, begin, read } = watchAttention()
  change(FIRST)
  const commit = await begin()
  change(LATER)
  expect(read()).toEqual([LATER])
  commit.finish()
  expect(received).toEqual([])
  ;(await begin()).finish()
  expect(received).toEqual([[LATER]])
})

test('a list that only a reader got is pushed, also when the earlier one is back', async () => {
  const { received, change, begin, read } = watchAttention()
  change(FIRST)
  ;(await begin()).finish()
  change(LATER)
  expect(read()).toEqual([LATER])
  change(FIRST)
  ;(await begin()).finish()
  expect(received).toEqual([[FIRST], [FIRST]])
})
