/** A run's numbered frames: rules 5 to 8 of the worker channel. */
import { expect, test } from '@jest/globals'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { back, busy, offered, ticket, Work, type Yarn, yarn } from './host-conversation.ts'

test('buffered frames are replayed after the next register, and those that landed before are not applied twice', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.running(), work.event('two'))
  await wire.drop()
  await y.pass(20)
  const again = await back(y, worker, work.at(6))
  await again.say(work.at(1).running(), work.event('two'), work.event('three'), work.event('four'))
  await again.beat(work)
  expectRecorded(y.said.slice(2))
  expect(await y.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'stdout two',
    'stdout three',
    'stdout four',
  ])
})

test('a frame out of order is not applied and gets no ack; the next lease-ack repeats the number, and the worker resends', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.event('one'), work.at(3).event('three'), work.event('four'))
  await wire.beat(work)
  await wire.say(work.at(2).event('two'), work.event('three'), work.event('four'))
  await wire.beat(work)
  expectRecorded(y.said)
  expect((await y.events(runId)).slice(2)).toEqual([
    'stdout one',
    'stdout two',
    'stdout three',
    'stdout four',
  ])
})

test('a thousand frames out of order are answered with nothing', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  const heard = wire.heard.length
  await wire.say(...Array.from({ length: 1000 }, () => work.at(7).event()))
  expect(wire.heard).toHaveLength(heard)
})

test('`lease-ack` is sent only for what is on disk', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.event('one'))
  y.fresh()
  y.fill()
  await wire.say(work.event('two'), work.event('three'))
  await wire.beat(work)
  await y.drain()
  await wire.beat(work)
  expectRecorded(y.said)
})

test('what was applied and not on disk when the host was killed is asked for again', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.event('one'))
  y.fill()
  await wire.say(work.event('two'))
  await y.crash()
  await y.drain()
  y.fresh()
  const again = await back(y, worker, work)
  expect(again.acknowledged(work)).toBe(1)
  await again.say(work.at(2).event('two'), work.complete())
  expect((await y.events(runId)).slice(2)).toEqual(['stdout one', 'stdout two', 'status completed'])
})

test('the acknowledged number never falls, also not across restarts', async () => {
  const y = await yarn()
  const { worker, wire, work } = await busy(y)
  await wire.say(work.event(), work.event(), work.event())
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(3)
  await y.crash()
  expect((await back(y, worker, work)).acknowledged(work)).toBe(3)
  await y.restart()
  expect((await back(y, worker, work)).acknowledged(work)).toBe(3)
})

test('a lease-ack goes out whenever 512 frames have been applied since the last one', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(...Array.from({ length: 511 }, () => work.event()))
  expect(wire.acknowledged(work)).toBe(0)
  await wire.say(work.event())
  expect(wire.acknowledged(work)).toBe(512)
  await wire.say(...Array.from({ length: 511 }, () => work.event()))
  expect(wire.acknowledged(work)).toBe(512)
  await wire.say(work.event())
  expect(wire.acknowledged(work)).toBe(1024)
  expect(wire.last('lease-ack')).not.toHaveProperty('echo')
})

test('a lease-ack goes out whenever 1 MiB has been applied since the last one', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  const text = 'x'.repeat(250 * 1024)
  await wire.say(work.event(text), work.event(text), work.event(text), work.event(text))
  expect(wire.acknowledged(work)).toBe(0)
  await wire.say(work.event(text))
  expect(wire.acknowledged(work)).toBe(5)
})

test('a heartbeat’s lease-ack begins the count of 512 anew', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(...Array.from({ length: 500 }, () => work.event()))
  await wire.beat(work)
  const acks = wire.count('lease-ack')
  await wire.say(...Array.from({ length: 500 }, () => work.event()))
  expect(wire.count('lease-ack')).toBe(acks)
})

test('frames that come while the disk is full are acknowledged when it has room again', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  y.fill()
  await wire.say(...Array.from({ length: 600 }, () => work.event()))
  expect(wire.acknowledged(work)).toBe(0)
  await y.drain()
  expect(wire.acknowledged(work)).toBe(600)
})

test('more than 8 MiB of one lease’s frames do not pile up before a full disk; the rest is asked for again', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  y.fill()
  const text = 'x'.repeat(250 * 1024)
  await wire.say(...Array.from({ length: 40 }, () => work.event(text)))
  await y.drain()
  await wire.beat(work)
  const acknowledged = wire.acknowledged(work) ?? 0
  expect(acknowledged).toBeGreaterThan(20)
  expect(acknowledged).toBeLessThan(40)
  await wire.say(work.at(acknowledged + 1).event('again'))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(acknowledged + 1)
})

test('`run-complete` is held unacknowledged until every earlier frame has landed', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.running(), work.at(4).complete())
  expect(y.run(runId).status).toBe('running')
  await wire.say(work.at(2).event('two'))
  await wire.say(work.at(4).complete())
  expect(y.run(runId).status).toBe('running')
  await wire.say(work.at(3).event('three'), work.complete())
  expectRecorded(y.said)
  expect((await y.events(runId)).slice(3)).toEqual(['stdout two', 'stdout three', 'status completed'])
})

test('`run-complete-ack` is sent only when the completion is on disk', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  y.fill()
  await wire.say(work.complete(), work.at(1).complete())
  await wire.beat(work)
  expect(wire.has('run-complete-ack')).toBe(false)
  expect(wire.has('lease-lost')).toBe(false)
  expect(y.run(runId).status).toBe('preparing')
  await y.drain()
  expect(wire.has('run-complete-ack')).toBe(true)
  expect(y.run(runId).status).toBe('completed')
})

test('a completion that was not on disk when the host was killed is replayed', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  y.fill()
  await wire.say(work.event('one'), work.complete())
  await y.crash()
  await y.drain()
  y.fresh()
  const again = await back(y, worker, work)
  expect(again.acknowledged(work)).toBe(0)
  await again.say(work.at(1).event('one'), work.complete())
  expect(again.count('run-complete-ack')).toBe(1)
  expect(y.run(runId).status).toBe('completed')
  expect((await y.events(runId)).slice(2)).toEqual(['stdout one', 'status completed'])
})

test('a run that finished while disconnected replays its completion on reconnect rather than being recorded as a failure', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.running())
  await wire.drop()
  await y.pass(120)
  const again = await back(y, worker, work.at(5))
  await again.say(
    work.at(2).event('two'),
    work.event('three'),
    work.complete({ result: { summary: 'done', artifacts: [] } }),
  )
  expectRecorded(y.said.slice(3))
  expect(y.run(runId)).toMatchObject({ status: 'completed', result: { summary: 'done' } })
})

test('a worker keeps its claim until `run-complete-ack` arrives: a claim of a completed lease is answered with it', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  await wire.say(work.complete())
  await wire.drop()
  y.fresh()
  await back(y, worker, work)
  expectRecorded(y.said)
  expect(y.run(runId).status).toBe('completed')
})

test('a late run-complete of a lease that completed is answered with `run-complete-ack` again, without effect', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete())
  const before = y.run(runId)
  await wire.say(work.at(1).complete({ status: 'failed', error: 'another story' }))
  await wire.say(work.at(1).complete())
  expect(wire.count('run-complete-ack')).toBe(3)
  expect(y.run(runId)).toEqual(before)
})

test('any other late frame of a lease that completed is answered with `lease-lost`, once', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.complete())
  y.fresh()
  await wire.say(work.event(), work.event(), work.running())
  expect(y.said.filter((line) => line.startsWith('host'))).toEqual([
    'host → worker  lease-lost ENG-1: this lease has ended: completed',
  ])
  expect(wire.closed).toBeUndefined()
  expect(y.run(runId).status).toBe('completed')
})

test('a late run-complete of a lease that ended otherwise is answered with `lease-lost`', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.beat()
  y.fresh()
  await wire.say(work.complete())
  expect(y.said).toContain('host → worker  lease-lost ENG-1: this lease has ended: lost')
  expect(wire.has('run-complete-ack')).toBe(false)
  expect(y.run(runId).status).toBe('queued')
})

test('a frame for an unknown lease: `lease-lost`, no close', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const unknown = { type: 'run-event', leaseId: 'ls-unknown', event: work.event().event }
  await wire.say({ ...unknown, seq: 1 }, { ...unknown, seq: 2 }, { ...unknown, seq: 3 })
  expect(y.said.filter((line) => line.startsWith('host'))).toEqual([
    'host → worker  lease-lost ls-unknown: this lease is not known here',
  ])
  expect(wire.closed).toBeUndefined()
  await wire.say(work.at(1).running())
  expect(y.run(runId).status).toBe('running')
})

test('on `lease-gap` the host skips the range and records the loss against the run', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.running(), work.gap(2, 40), work.event('forty-one'), work.complete())
  expectRecorded(y.said)
  expect((await y.events(runId)).slice(3)).toEqual(['gap 2–40', 'stdout forty-one', 'status completed'])
})

test('a gap that is not next is no reason to skip what is before it', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.gap(3, 5), work.event('six'))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(0)
  await wire.say(work.at(1).event('one'), work.event('two'), work.gap(3, 5), work.event('six'))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(6)
  expect((await y.events(runId)).slice(2)).toEqual(['stdout one', 'stdout two', 'gap 3–5', 'stdout six'])
})

test('a gap that is said again is recorded once', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(work.gap(1, 5), work.gap(1, 5), work.gap(3, 5), work.gap(4, 8))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(8)
  expect((await y.events(runId)).slice(2)).toEqual(['gap 1–5', 'gap 6–8'])
})

test('a gap is acknowledged only when it is on disk, and a frame it named that comes after all is not applied', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  y.fill()
  await wire.say(work.gap(1, 5))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(0)
  await y.drain()
  await wire.say(work.at(3).event('three'))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(5)
  expect((await y.events(runId)).slice(2)).toEqual(['gap 1–5'])
})

test('a gap whose end is before its beginning is malformed', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say({ type: 'lease-gap', leaseId: work.id, from: 5, to: 4 })
  expect(wire.last('rejected').code).toBe('malformed')
})

test('the frames of two runs of one worker are numbered apart', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  y.tracker.put(ticket('ENG-2'))
  await y.settle()
  const second = new Work(wire.last('dispatch'))
  await wire.say(second.accept(), work.event(), second.event(), work.event(), second.event(), second.event())
  await wire.beat(work, second)
  expect([wire.acknowledged(work), wire.acknowledged(second)]).toEqual([2, 3])
})

test('frames behind one that is being put into a file are applied in their order', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  await wire.say(
    work.event('before'),
    work.artifact('a.txt', 'some text'),
    work.event('after'),
    work.complete(),
  )
  expect(wire.has('run-complete-ack')).toBe(true)
  expect((await y.events(runId)).filter((line) => line !== 'artifact').slice(2)).toEqual([
    'stdout before',
    'stdout after',
    'status completed',
  ])
})

test('a number of zero is malformed', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  await wire.say(work.at(0).event())
  expect(wire.last('rejected').code).toBe('malformed')
})

test('reports on a lease that was offered to this worker and was withdrawn since do not bring it back', async () => {
  const y = await yarn()
  const { wire, work, runId } = await offered(y)
  await wire.say(work.reject('busy: no'))
  await wire.say(work.running(), work.complete())
  expect(y.run(runId).status).toBe('queued')
  expect(wire.count('lease-lost')).toBe(1)
})

/** Artifacts stay on their way into their files until the answer is called. */
function slowFiles(y: Yarn): () => Promise<void> {
  const { artifacts } = y.store
  const write = artifacts.write.bind(artifacts)
  const waiting: (() => void)[] = []
  artifacts.write = async (...given) => {
    await new Promise<void>((go) => waiting.push(go))
    return write(...given)
  }
  return async () => {
    while (waiting.length > 0) {
      for (const go of waiting.splice(0)) go()
      await y.settle()
    }
  }
}

test('frames that are replayed while the first of them is still being put into a file are applied once', async () => {
  const y = await yarn()
  const { worker, wire, work, runId } = await busy(y)
  const release = slowFiles(y)
  const frames = [work.artifact('a.txt', 'text'), work.event('after'), work.complete()]
  await wire.say(...frames)
  await wire.drop()
  const again = await back(y, worker, work)
  expect(again.acknowledged(work)).toBe(0)
  await again.say(...frames)
  await release()
  expect(again.has('run-complete-ack')).toBe(true)
  expect((await y.events(runId)).filter((line) => line !== 'artifact').slice(2)).toEqual([
    'stdout after',
    'status completed',
  ])
})

test('a lease that ended while a frame of it was put into a file stays ended', async () => {
  const y = await yarn()
  const { wire, work, runId } = await busy(y)
  const release = slowFiles(y)
  await wire.say(work.artifact('a.txt', 'text'), work.event('after'), work.complete())
  await y.done(y.desk.cancelRun(runId))
  await y.pass(15)
  await release()
  expect(wire.has('run-complete-ack')).toBe(false)
  expect(y.run(runId).status).toBe('cancelled')
  expect((await y.events(runId)).slice(2)).toEqual(['status cancelled'])
})

test('what piles up behind a slow file is bounded; what is over the bound is asked for again', async () => {
  const y = await yarn()
  const { wire, work } = await busy(y)
  const release = slowFiles(y)
  const text = 'x'.repeat(250 * 1024)
  await wire.say(work.artifact('a.txt', 'text'), ...Array.from({ length: 40 }, () => work.event(text)))
  await release()
  await wire.beat(work)
  const acknowledged = wire.acknowledged(work) ?? 0
  expect(acknowledged).toBeGreaterThan(20)
  expect(acknowledged).toBeLessThan(41)
  await wire.say(work.at(acknowledged + 1).event('again'))
  await wire.beat(work)
  expect(wire.acknowledged(work)).toBe(acknowledged + 1)
})
