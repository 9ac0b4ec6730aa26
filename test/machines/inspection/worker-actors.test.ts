/** The actors that a worker shares, from the worker's actor system to a viewer of the host. */
import { expect, test } from '@jest/globals'
import { SharedActors } from '../../../actors/daemon/shared-actors.ts'
import type { HostChange } from '../../../actors/host-context.ts'
import { Inspection } from '../../../actors/inspection/inspection.ts'
import { ActorSystem } from '../../../actors/runtime/actor-system.ts'
import { checkWorkerFrame } from '../../../protocol/frames.ts'
import type { InspectFrame } from '../../../protocol/inspection.ts'
import { INSPECT_COLLECT_MS } from '../../../protocol/limits.ts'
import { TALLY, tallyKind } from '../../support/counter-actor.ts'
import { CrashDatabase } from '../../support/crash-database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

const createSystem = (clock: ManualClock) =>
  new ActorSystem({
    clock,
    database: new CrashDatabase(),
    log: createRecordingLog(),
    meters: noMeters,
    kinds: [tallyKind()],
    modules: () => ({ runEffect: () => {} }),
    onFatal: () => {},
  })

function open(isAllowed = true) {
  const clock = new ManualClock()
  const worker = createSystem(clock)
  const sent: string[] = []
  const asked: HostChange[] = []
  const publish = (change: HostChange) => {
    asked.push(change)
    if (change.view === 'worker watched') shared.onWatch(change.on)
  }
  const inspection = new Inspection({ clock, system: createSystem(clock), version: '1', publish })
  const shared = new SharedActors({
    clock,
    system: worker,
    isAllowed,
    send(frame) {
      expect(checkWorkerFrame(frame)).toMatchObject({ ok: true })
      sent.push(JSON.stringify(frame))
      inspection.workerActors.onStates('w-1', frame)
    },
  })
  const frames: InspectFrame[] = []
  const watch = () => {
    const opened = inspection.open({ send: (frame) => void frames.push(frame), backlog: () => 0 })
    if (!opened.ok) throw new Error(opened.refusal.message)
    return opened.value
  }
  const pass = () => clock.advance(2 * INSPECT_COLLECT_MS)
  const news = () => frames.splice(0).flatMap((frame) => (frame.type === 'inspect-actors' ? [frame] : []))
  return { worker, shared, inspection, sent, asked, watch, pass, news, clock }
}

test('a viewer sees the actors of a worker that shares them, as they come, change and go', async () => {
  const { worker, inspection, sent, asked, watch, pass, news, clock } = open()
  worker.spawn(TALLY, 'secret-free', { name: 'planted-secret' })
  const viewer = watch()
  inspection.workerActors.onFrameReceived('w-1')
  inspection.workerActors.onFrameReceived('w-1')
  await pass()
  expect(news().at(-1)).toMatchObject({
    changed: [{ id: 'w-1/tally/secret-free', state: 'awake', worker: 'w-1', process: 'w-1' }],
  })
  worker.send(TALLY, 'secret-free', { type: 'rest' })
  await pass()
  expect(news()).toMatchObject([{ changed: [{ state: 'resting.lightly' }], gone: [] }])
  const second = watch()
  expect(news()[0]?.changed).toMatchObject([{ id: 'w-1/tally/secret-free', state: 'resting.lightly' }])
  worker.send(TALLY, 'secret-free', { type: 'add' })
  worker.send(TALLY, 'secret-free', { type: 'add' })
  worker.send(TALLY, 'secret-free', { type: 'end' })
  await pass()
  expect(news().at(-1)).toMatchObject({ changed: [], gone: ['w-1/tally/secret-free'] })
  expect(sent.join('')).not.toContain('planted-secret')

  second.close()
  viewer.close()
  expect(asked).toEqual([
    { view: 'worker watched', key: 'w-1', on: true },
    { view: 'worker watched', key: 'w-1', on: false },
  ])
  worker.spawn(TALLY, 'later', { name: 'later' })
  await pass()
  expect(sent.at(-1)).not.toContain('later')
  expect(clock.timers).toBe(0)
})

test('they are gone with the connection of the worker', async () => {
  const { worker, shared, inspection, watch, pass, news } = open()
  worker.spawn(TALLY, 'a', { name: 'a' })
  watch()
  inspection.workerActors.onFrameReceived('w-1')
  await pass()
  news()
  shared.stop()
  inspection.workerActors.onLost('w-1')
  await pass()
  expect(news()).toMatchObject([{ changed: [], gone: ['w-1/tally/a'] }])
  inspection.workerActors.onFrameReceived('w-1')
  await pass()
  expect(news()).toMatchObject([{ changed: [{ id: 'w-1/tally/a' }] }])
})

test('a worker whose owner has not allowed it shares nothing, and nobody is asked while nobody watches', async () => {
  const { worker, inspection, sent, asked, watch, pass } = open(false)
  inspection.workerActors.onFrameReceived('w-1')
  expect(asked).toEqual([])
  worker.spawn(TALLY, 'a', { name: 'a' })
  watch()
  inspection.workerActors.onFrameReceived('w-1')
  await pass()
  expect([asked.length, sent]).toEqual([1, []])
})
