/** Tests of FollowUpReader: how many reads run at once, what stays in memory, and that nothing leaks. */
import { expect, test } from '@jest/globals'
import {
  FOLLOW_UP_FRESH_MS,
  FOLLOW_UP_READS_AT_ONCE,
  FOLLOW_UP_READS_KEPT,
  FOLLOW_UP_WAIT_REASONS,
  FollowUpReader,
} from '../../../actors/runs/follow-up-reader.ts'
import type { PullReference } from '../../../core/ports/code-host.ts'
import { SERVICE_FAILED, yes } from '../../../core/result.ts'
import type { Run } from '../../../protocol/run.ts'
import { aRun } from '../../rules/run/runs.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { ManualPullRequests, manualPullUrl } from '../../support/manual-code-host.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

function createReader() {
  const [clock, log, pulls] = [new ManualClock(), createRecordingLog(), new ManualPullRequests()]
  const calls: string[] = []
  let release = () => {}
  const gate = { opens: Promise.resolve() as Promise<void> }
  const detail = pulls.detail.bind(pulls)
  pulls.detail = async (place: PullReference) => {
    await gate.opens
    return detail(place)
  }
  const reader = new FollowUpReader({
    trustedClock: clock,
    clock,
    log,
    random: { bytes: (count) => new Uint8Array(count), fraction: () => 0.5 },
    pullRequestApi: () => yes(pulls),
    placeOf: ({ prUrl = '' }) => yes(pulls.parseUrl(prUrl) ?? { remote: 'nobody/nothing', number: 1 }),
    rulesFor: () => ({ answered: undefined, orders: undefined }),
    onWaitReasonChanged: (id) => void calls.push(`changed ${id}`),
    requestScheduling: () => void calls.push('schedule'),
    onPullState: () => {},
    onAsked: () => {},
    onPullGone: (id, reason) => void calls.push(`gone ${id}: ${reason}`),
  })
  const runOf = (n: number): Run => {
    const prUrl = manualPullUrl('owner/name', n)
    pulls.pulls.set(prUrl, 'open')
    return aRun({ id: `run-${n}`, prUrl })
  }
  const shut = () => {
    gate.opens = new Promise((resolve) => {
      release = resolve
    })
  }
  const open = async () => {
    release()
    await clock.settle()
  }
  return { followUps: reader, clock, log, pulls, calls, runOf, shut, open }
}

const many = (count: number) => Array.from({ length: count }, (_, n) => n + 1)

test('a limited number of reads run at once; other follow-ups are scheduled again after each', async () => {
  const { followUps, calls, runOf, shut, open } = createReader()
  shut()
  const runs = many(FOLLOW_UP_READS_AT_ONCE + 2).map(runOf)
  expect(runs.map((run) => followUps.readiness(run))).toEqual([
    ...many(FOLLOW_UP_READS_AT_ONCE).map(() => 'held'),
    'later',
    'later',
  ])
  expect(followUps.waitingFor('run-1')).toBe(FOLLOW_UP_WAIT_REASONS.reading)
  expect(followUps.waitingFor(`run-${FOLLOW_UP_READS_AT_ONCE + 1}`)).toBeUndefined()
  await open()
  expect(calls.filter((line) => line === 'schedule')).toHaveLength(FOLLOW_UP_READS_AT_ONCE)
  expect(runs.map((run) => followUps.readiness(run)).slice(0, FOLLOW_UP_READS_AT_ONCE)).toEqual(
    many(FOLLOW_UP_READS_AT_ONCE).map(() => 'ready'),
  )
})

test('a read stays valid for a while, and only the newest stay in memory', async () => {
  const { followUps, clock, runOf } = createReader()
  const runs = many(FOLLOW_UP_READS_KEPT + 1).map(runOf)
  for (const run of runs) {
    followUps.readiness(run)
    await clock.settle()
  }
  expect(followUps.size).toBe(FOLLOW_UP_READS_KEPT)
  expect(followUps.talk('run-1')).toMatchObject({ refusal: { kind: 'unavailable' } })
  expect(followUps.talk('run-2')).toMatchObject({ value: { pull: { number: 2 } } })
  await clock.advance(FOLLOW_UP_FRESH_MS - 1)
  expect(followUps.readiness(runOf(2))).toBe('ready')
  await clock.advance(1)
  expect(followUps.readiness(runOf(2))).toBe('held')
})

test('a read of another code host is discarded', async () => {
  const { followUps, calls, runOf, shut, open } = createReader()
  shut()
  followUps.readiness(runOf(1))
  followUps.onCodeHostChanged()
  await open()
  expect(followUps.talk('run-1')).toMatchObject({ ok: false })
  expect(calls).toEqual(['changed run-1', 'schedule'])
})

test('a code host that throws counts as a failed read', async () => {
  const { followUps, clock, log, pulls, runOf } = createReader()
  pulls.branches = () => {
    throw new Error('a bug')
  }
  followUps.readiness(runOf(1))
  await clock.settle()
  expect(followUps.waitingFor('run-1')).toBe(FOLLOW_UP_WAIT_REASONS.unreadable(SERVICE_FAILED))
  expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1)
})

test('after `forget` or `stop` nothing continues', async () => {
  const { followUps, clock, calls, pulls, runOf, shut, open } = createReader()
  const retained = (id: string) => ({
    id,
    sandbox: { retainedUntil: new Date(clock.now() + 1_000).toISOString() },
  })
  followUps.startWaiting(retained('run-1'))
  followUps.forget('run-1')
  pulls.pulls.clear()
  followUps.startWaiting(retained('run-2'))
  shut()
  followUps.readiness(runOf(2))
  followUps.stop()
  await open()
  await clock.advance(3_600_000)
  expect(calls).toEqual([])
})

test('the end of a sandbox’s retention is noticed, however far away it is', async () => {
  const { followUps, clock, calls } = createReader()
  const days = 40
  const retainedUntil = new Date(clock.now() + days * 24 * 3_600_000).toISOString()
  followUps.startWaiting({ id: 'run-1', sandbox: { retainedUntil } })
  await clock.advance(days * 24 * 3_600_000 - 1)
  const before = calls.length
  await clock.advance(1)
  expect(calls.length).toBe(before + 1)
  expect(followUps.size).toBe(0)
})
