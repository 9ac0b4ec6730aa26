/** Tests that frames which are damaged in a worker's database are named to the host, and that no number is used twice. */
import { expect, test } from '@jest/globals'
import { FrameOutbox } from '../../../actors/daemon/frame-outbox.ts'
import { HostSender, type HostSession } from '../../../actors/daemon/host-sender.ts'
import { SleepAwareTimers } from '../../../actors/daemon/sleep-aware-timers.ts'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { readWorkerFrame } from '../../../protocol/frames.ts'
import { type OpenWorkerStore, openWorkerStore } from '../../../store/worker-store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { changeRow, flipBit } from './damage.ts'

const LEASE = 'ls-1'
const REMOTE = 'https://code.example/acme/web'
const FRAMES = 5

const open = (dataDir: string) =>
  openWorkerStore({
    dataDir,
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
  })

/** An outbox over a worker's database, and the frames that a host of this form gets from it. */
function createOutbox(store: OpenWorkerStore, isFirstForm = false) {
  const texts: string[] = []
  const timers = new SleepAwareTimers(realClock, () => {})
  const hostSender = new HostSender({
    timers,
    identity: { credential: () => undefined },
    maySend: () => true,
  })
  const session: HostSession = {
    transport: { send: (text) => void texts.push(text), backlogBytes: () => 0, close: () => {} },
    auth: { kind: 'pairing', token: 'p' },
    isFirstForm,
    isRegistered: true,
    dialledAt: 0,
    registerSentAt: 0,
    receivedAt: 0,
    heartbeatMs: 1_000,
  }
  hostSender.openSession(session)
  const outbox = new FrameOutbox({
    keyValues: store.keyValues,
    storeState: () => store.state(),
    log: createRecordingLog(),
    timers,
    hostSender,
    requestCommit: () => {},
  })
  const commit = async () => {
    const { writes = [], onCommitted } = outbox.contribute() ?? {}
    await store.commit(writes)
    onCommitted?.()
  }
  const addFacts = (fact: string) => outbox.addReport(LEASE, { is: 'memories', facts: [fact] }, REMOTE)
  return { outbox, commit, addFacts, sent: () => texts.splice(0).map((text) => JSON.parse(text)) }
}

const frameRow = (seq: number): string => `f${LEASE}/${String(seq).padStart(10, '0')}`

async function withDamage(...seqs: readonly number[]): Promise<string> {
  const dataDir = diskFolder()
  const store = await open(dataDir)
  const { outbox, commit, addFacts } = createOutbox(store)
  outbox.openLease(LEASE, false)
  for (let n = 1; n <= FRAMES; n++) addFacts(`fact ${n}`)
  await commit()
  await store.close()
  for (const seq of seqs) await changeRow(dataDir, 'facts', frameRow(seq), flipBit)
  return dataDir
}

/** The host has acknowledged frames up to this one, and the record of that is damaged too. */
async function withUnknownAcknowledgement(acked: number, ...seqs: readonly number[]): Promise<string> {
  const dataDir = await withDamage()
  const store = await open(dataDir)
  const { outbox, commit } = createOutbox(store)
  outbox.openLease(LEASE, true)
  outbox.applyAcknowledgement(LEASE, acked)
  await commit()
  await store.close()
  await changeRow(dataDir, 'facts', `o${LEASE}`, flipBit)
  for (const seq of seqs) await changeRow(dataDir, 'facts', frameRow(seq), flipBit)
  return dataDir
}

const gap = (from: number, to: number) => ({ type: 'lease-gap', leaseId: LEASE, from, to })

test('damaged frames are gaps that say so, also the last ones, whose numbers are not used again', async () => {
  const store = await open(await withDamage(2, 5))
  const { outbox, commit, addFacts, sent } = createOutbox(store)
  outbox.openLease(LEASE, true)
  addFacts('after the damage')
  await commit()
  outbox.applyAcknowledgement(LEASE, 0)
  const frames = sent()
  expect(frames).toMatchObject([
    { seq: 1 },
    { ...gap(2, 2), damaged: true },
    { seq: 3 },
    { seq: 4 },
    { ...gap(5, 5), damaged: true },
    { seq: 6, facts: ['after the damage'] },
  ])
  for (const frame of frames) expect(readWorkerFrame(JSON.stringify(frame), true).ok).toBe(true)
  // Once the host has them only the newest is left, for its number.
  outbox.applyAcknowledgement(LEASE, 6)
  await commit()
  expect([...store.keyValues.keys('frame')]).toEqual([`${LEASE}/0000000006`])
  expect(() => store.keyValues.get('frame', `${LEASE}/0000000002`)).not.toThrow()
  await store.close()
})

test('the damage is still named after another start, and an earlier host gets no key that it lacks', async () => {
  const dataDir = await withDamage(3)
  const first = await open(dataDir)
  const before = createOutbox(first)
  before.outbox.openLease(LEASE, true)
  await before.commit()
  await first.close()
  const store = await open(dataDir)
  for (const isFirstForm of [false, true]) {
    const { outbox, commit, sent } = createOutbox(store, isFirstForm)
    outbox.openLease(LEASE, true)
    await commit()
    outbox.applyAcknowledgement(LEASE, 0)
    expect(sent()[2]).toEqual(isFirstForm ? gap(3, 3) : { ...gap(3, 3), damaged: true })
  }
  await store.close()
})

test('the frames that are left say how far the host had acknowledged when the record of that is damaged', async () => {
  const store = await open(await withUnknownAcknowledgement(3))
  const { outbox, commit, sent } = createOutbox(store)
  outbox.openLease(LEASE, true)
  await commit()
  expect([...store.keyValues.all('frame')]).toMatchObject([
    [`${LEASE}/0000000004`, { as: 'must' }],
    [`${LEASE}/0000000005`, { as: 'must' }],
  ])
  outbox.applyAcknowledgement(LEASE, 3)
  expect(sent()).toMatchObject([{ seq: 4 }, { seq: 5 }])
  await store.close()
})

test('no number is used again when the record of acknowledgements and all frames are damaged', async () => {
  const store = await open(await withUnknownAcknowledgement(3, 4, 5))
  const { outbox, commit, addFacts, sent } = createOutbox(store)
  outbox.openLease(LEASE, true)
  addFacts('after the damage')
  await commit()
  outbox.applyAcknowledgement(LEASE, 3)
  expect(sent()).toMatchObject([
    { ...gap(4, 4), damaged: true },
    { ...gap(5, 5), damaged: true },
    { seq: 6, facts: ['after the damage'] },
  ])
  await store.close()
})

test('no number is used again when the host has all frames and the record of that is damaged', async () => {
  const store = await open(await withUnknownAcknowledgement(FRAMES))
  const { outbox, commit, addFacts, sent } = createOutbox(store)
  outbox.openLease(LEASE, true)
  addFacts('after the damage')
  await commit()
  outbox.applyAcknowledgement(LEASE, FRAMES)
  expect(sent()).toMatchObject([{ seq: FRAMES + 1, facts: ['after the damage'] }])
  await store.close()
})

test('damaged frames of a lease that is over are deleted', async () => {
  const store = await open(await withDamage(2))
  const { outbox, commit } = createOutbox(store)
  outbox.eraseUnownedFrames([])
  await commit()
  expect([...store.keyValues.keys('frame')]).toEqual([])
  expect(store.damage.all()).toEqual([])
  await store.close()
})
