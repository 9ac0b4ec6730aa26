/** A run's numbered frames: rules 5 to 8 of the worker channel. */
import { expect, test } from '@jest/globals'
import { LOG_TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { expectRecorded } from '../support/recorded-expectations.ts'
import {
  acceptRun,
  type HostConversation,
  inMemoryOnly,
  offerRun,
  reconnect,
  startHost,
  ticket,
  Work,
} from './host-conversation.ts'

test('buffered frames are replayed after the next register, and frames committed before are not applied twice', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.running(), work.event('two'))
  await connection.drop()
  await host.advance(20)
  const again = await reconnect(host, worker, work.at(6))
  await again.send(work.at(1).running(), work.event('two'), work.event('three'), work.event('four'))
  await again.sendHeartbeat(work)
  expectRecorded(host.transcript.slice(2))
  expect(await host.events(runId)).toEqual([
    'status queued',
    'status preparing',
    'status running',
    'stdout two',
    'stdout three',
    'stdout four',
  ])
})

test('a frame out of order is not applied and gets no ack; the next lease-ack repeats the number, and the worker resends', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.event('one'), work.at(3).event('three'), work.event('four'))
  await connection.sendHeartbeat(work)
  await connection.send(work.at(2).event('two'), work.event('three'), work.event('four'))
  await connection.sendHeartbeat(work)
  expectRecorded(host.transcript)
  expect((await host.events(runId)).slice(2)).toEqual([
    'stdout one',
    'stdout two',
    'stdout three',
    'stdout four',
  ])
})

test('a thousand frames out of order get no answer', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const receivedCount = connection.received.length
  await connection.send(...Array.from({ length: 1000 }, () => work.at(7).event()))
  expect(connection.received).toHaveLength(receivedCount)
})

inMemoryOnly('the time of a turn is set by hand')(
  'frames beyond the time of a turn are handled in the next, and the commit of the others waits for them',
  async () => {
    const host = await startHost()
    const { connection, work, runId } = await acceptRun(host)
    await connection.send(work.event('one'))
    const reported = async () => (await host.events(runId)).filter((text) => text.startsWith('stdout'))
    // A frame out of order takes time and asks for no commit.
    connection.sendWithinTurn(10, work.at(9).event('early'))
    connection.sendWithinTurn(6, work.at(2).event('two'), work.event('three'))
    await host.settle()
    expect(await reported()).toEqual(['stdout one'])
    await host.clock.advance(0)
    expect(await reported()).toEqual(['stdout one', 'stdout two', 'stdout three'])
  },
)

test('`lease-ack` is sent only for what is on disk', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.event('one'))
  host.clearTranscript()
  host.fillDisk()
  await connection.send(work.event('two'), work.event('three'))
  await connection.sendHeartbeat(work)
  await host.freeDisk()
  await connection.sendHeartbeat(work)
  expectRecorded(host.transcript)
})

test('frames that were applied but not on disk when the host was killed are requested again', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.event('one'))
  host.fillDisk()
  await connection.send(work.event('two'))
  await host.crash()
  await host.freeDisk()
  host.clearTranscript()
  const again = await reconnect(host, worker, work)
  expect(again.acknowledged(work)).toBe(1)
  await again.send(work.at(2).event('two'), work.complete())
  expect((await host.events(runId)).slice(2)).toEqual(['stdout one', 'stdout two', 'status completed'])
})

test('the acknowledged number never falls, also not across restarts', async () => {
  const host = await startHost()
  const { worker, connection, work } = await acceptRun(host)
  await connection.send(work.event(), work.event(), work.event())
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(3)
  await host.crash()
  expect((await reconnect(host, worker, work)).acknowledged(work)).toBe(3)
  await host.restart()
  expect((await reconnect(host, worker, work)).acknowledged(work)).toBe(3)
})

test('a lease-ack goes out whenever 512 frames have been applied since the last one', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(...Array.from({ length: 511 }, () => work.event()))
  expect(connection.acknowledged(work)).toBe(0)
  await connection.send(work.event())
  expect(connection.acknowledged(work)).toBe(512)
  await connection.send(...Array.from({ length: 511 }, () => work.event()))
  expect(connection.acknowledged(work)).toBe(512)
  await connection.send(work.event())
  expect(connection.acknowledged(work)).toBe(1024)
  expect(connection.lastReceived('lease-ack')).not.toHaveProperty('echo')
})

test('a lease-ack goes out whenever 1 MiB has been applied since the last one', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const text = 'x'.repeat(250 * 1024)
  await connection.send(work.event(text), work.event(text), work.event(text), work.event(text))
  expect(connection.acknowledged(work)).toBe(0)
  await connection.send(work.event(text))
  expect(connection.acknowledged(work)).toBe(5)
})

test('a heartbeat’s lease-ack restarts the count of 512', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(...Array.from({ length: 500 }, () => work.event()))
  await connection.sendHeartbeat(work)
  const acks = connection.countReceived('lease-ack')
  await connection.send(...Array.from({ length: 500 }, () => work.event()))
  expect(connection.countReceived('lease-ack')).toBe(acks)
})

test('frames that come while the disk is full are acknowledged when it has space again', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  host.fillDisk()
  await connection.send(...Array.from({ length: 600 }, () => work.event()))
  expect(connection.acknowledged(work)).toBe(0)
  await host.freeDisk()
  expect(connection.acknowledged(work)).toBe(600)
})

test('at most 8 MiB of one lease’s frames wait for a full disk; the rest is requested again', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  host.fillDisk()
  const text = 'x'.repeat(250 * 1024)
  await connection.send(...Array.from({ length: 40 }, () => work.event(text)))
  await host.freeDisk()
  await connection.sendHeartbeat(work)
  const acknowledged = connection.acknowledged(work) ?? 0
  expect(acknowledged).toBeGreaterThan(20)
  expect(acknowledged).toBeLessThan(40)
  await connection.send(work.at(acknowledged + 1).event('again'))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(acknowledged + 1)
})

test('`run-complete` stays unacknowledged until every earlier frame is committed', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.running(), work.at(4).complete())
  expect(host.run(runId).status).toBe('running')
  await connection.send(work.at(2).event('two'))
  await connection.send(work.at(4).complete())
  expect(host.run(runId).status).toBe('running')
  await connection.send(work.at(3).event('three'), work.complete())
  expectRecorded(host.transcript)
  expect((await host.events(runId)).slice(3)).toEqual(['stdout two', 'stdout three', 'status completed'])
})

test('`run-complete-ack` is sent only when the completion is on disk', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  host.fillDisk()
  await connection.send(work.complete(), work.at(1).complete())
  await connection.sendHeartbeat(work)
  expect(connection.hasReceived('run-complete-ack')).toBe(false)
  expect(connection.hasReceived('lease-lost')).toBe(false)
  expect(host.run(runId).status).toBe('preparing')
  await host.freeDisk()
  expect(connection.hasReceived('run-complete-ack')).toBe(true)
  expect(host.run(runId).status).toBe('completed')
})

test('a completion that was not on disk when the host was killed is replayed', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  host.fillDisk()
  await connection.send(work.event('one'), work.complete())
  await host.crash()
  await host.freeDisk()
  host.clearTranscript()
  const again = await reconnect(host, worker, work)
  expect(again.acknowledged(work)).toBe(0)
  await again.send(work.at(1).event('one'), work.complete())
  expect(again.countReceived('run-complete-ack')).toBe(1)
  expect(host.run(runId).status).toBe('completed')
  expect((await host.events(runId)).slice(2)).toEqual(['stdout one', 'status completed'])
})

test('a run that finished while disconnected replays its completion on reconnect rather than being recorded as a failure', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.running())
  await connection.drop()
  await host.advance(120)
  const again = await reconnect(host, worker, work.at(5))
  await again.send(
    work.at(2).event('two'),
    work.event('three'),
    work.complete({ result: { summary: 'done', artifacts: [] } }),
  )
  expectRecorded(host.transcript.slice(3))
  expect(host.run(runId)).toMatchObject({ status: 'completed', result: { summary: 'done' } })
})

test('a worker keeps its claim until `run-complete-ack` arrives: a claim of a completed lease is answered with it', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete())
  await connection.drop()
  host.clearTranscript()
  await reconnect(host, worker, work)
  expectRecorded(host.transcript)
  expect(host.run(runId).status).toBe('completed')
})

test('a late run-complete of a lease that completed is answered with `run-complete-ack` again, without effect', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.complete())
  const before = host.run(runId)
  await connection.send(work.at(1).complete({ status: 'failed', error: 'another story' }))
  await connection.send(work.at(1).complete())
  expect(connection.countReceived('run-complete-ack')).toBe(3)
  expect(host.run(runId)).toEqual(before)
})

test('any late frame of a lease that completed is answered with `run-complete-ack`, without effect', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.event(), work.complete())
  const before = [host.run(runId), await host.events(runId)]
  const late = [
    work.at(1).event('repeated'),
    work.at(3).event('after the end'),
    work.running(),
    work.memories('owner/name', 'late'),
    work.artifact('late.txt', 'late'),
    work.gap(5, 9),
    work.accept(),
    work.reject('busy: late'),
  ]
  for (const [index, frame] of late.entries()) {
    await connection.send(frame)
    expect(connection.countReceived('run-complete-ack')).toBe(2 + index)
  }
  expect(connection.hasReceived('lease-lost')).toBe(false)
  expect(connection.closed).toBeUndefined()
  expect([host.run(runId), await host.events(runId)]).toEqual(before)
})

test('a late run-complete of a lease that ended otherwise is answered with `lease-lost`', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.sendHeartbeat()
  host.clearTranscript()
  await connection.send(work.complete())
  expect(host.transcript).toContain('host → worker  lease-lost ENG-1: this lease has ended: lost')
  expect(connection.hasReceived('run-complete-ack')).toBe(false)
  expect(host.run(runId).status).toBe('queued')
})

test('a frame for an unknown lease: `lease-lost`, no close', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const unknown = { type: 'run-event', leaseId: 'ls-unknown', event: work.event().event }
  await connection.send({ ...unknown, seq: 1 }, { ...unknown, seq: 2 }, { ...unknown, seq: 3 })
  expect(host.transcript.filter((line) => line.startsWith('host'))).toEqual([
    expect.stringMatching(/^host → worker {2}lease-lost ls-unknown: /),
  ])
  expect(connection.closed).toBeUndefined()
  await connection.send(work.at(1).running())
  expect(host.run(runId).status).toBe('running')
})

test('on `lease-gap` the host skips the range and records the loss against the run', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.running(), work.gap(2, 40), work.event('forty-one'), work.complete())
  expectRecorded(host.transcript)
  expect((await host.events(runId)).slice(3)).toEqual(['gap 2–40', 'stdout forty-one', 'status completed'])
})

test('the log of a run says that frames were damaged at its worker', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send({ ...work.gap(1, 2), damaged: true }, work.event('three'))
  expect((await host.events(runId)).slice(2)).toEqual([
    'gap 1–2',
    expect.stringMatching(/^system reports 1 to 2 .*damaged/),
    'stdout three',
  ])
})

test('a gap that is not next does not skip the frames before it', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.gap(3, 5), work.event('six'))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(0)
  await connection.send(work.at(1).event('one'), work.event('two'), work.gap(3, 5), work.event('six'))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(6)
  expect((await host.events(runId)).slice(2)).toEqual(['stdout one', 'stdout two', 'gap 3–5', 'stdout six'])
})

test('a repeated gap is recorded once', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(work.gap(1, 5), work.gap(1, 5), work.gap(3, 5), work.gap(4, 8))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(8)
  expect((await host.events(runId)).slice(2)).toEqual(['gap 1–5', 'gap 6–8'])
})

test('a gap is acknowledged only when it is on disk, and a frame it named that comes after all is not applied', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  host.fillDisk()
  await connection.send(work.gap(1, 5))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(0)
  await host.freeDisk()
  await connection.send(work.at(3).event('three'))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(5)
  expect((await host.events(runId)).slice(2)).toEqual(['gap 1–5'])
})

test('a gap whose end is before its beginning is malformed', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send({ type: 'lease-gap', leaseId: work.id, from: 5, to: 4 })
  expect(connection.lastReceived('rejected').code).toBe('malformed')
})

test('the frames of two runs of one worker are numbered apart', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  host.tracker.put(ticket('ENG-2'))
  await host.settle()
  const second = new Work(connection.lastReceived('dispatch'))
  await connection.send(
    second.accept(),
    work.event(),
    second.event(),
    work.event(),
    second.event(),
    second.event(),
  )
  await connection.sendHeartbeat(work, second)
  expect([connection.acknowledged(work), connection.acknowledged(second)]).toEqual([2, 3])
})

test('frames behind one that is being written to a file are applied in order', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  await connection.send(
    work.event('before'),
    work.artifact('a.txt', 'some text'),
    work.event('after'),
    work.complete(),
  )
  expect(connection.hasReceived('run-complete-ack')).toBe(true)
  expect((await host.events(runId)).filter((line) => line !== 'artifact').slice(2)).toEqual([
    'stdout before',
    'stdout after',
    'status completed',
  ])
})

test('a log text that its worker did not split is split by the host: nothing is lost, and nothing requested again', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  const text = `${'ä😀'.repeat(LOG_TEXT_CHARS_MAX / 2)}end`
  await connection.send(work.event(text), work.event('after'))
  expect(connection.closed).toBeUndefined()
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(2)
  await connection.drop()
  const again = await reconnect(host, worker, work)
  await again.send(work.at(3).complete())
  const events = await host.readEvents(runId)
  const texts = events.flatMap((event) => (event.type === 'log' ? [event.text] : []))
  expect(Math.max(...texts.map(({ length }) => length))).toBeLessThanOrEqual(LOG_TEXT_CHARS_MAX)
  expect(texts.join('') === `${text}after`).toBe(true)
  expect(events.map(({ index }) => index)).toEqual(events.map((_, index) => index))
  expect(host.run(runId).status).toBe('completed')
})

test('a number of zero is malformed', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  await connection.send(work.at(0).event())
  expect(connection.lastReceived('rejected').code).toBe('malformed')
})

test('reports on a lease that was withdrawn from this worker do not restore it', async () => {
  const host = await startHost()
  const { connection, work, runId } = await offerRun(host)
  await connection.send(work.reject('busy: no'))
  await connection.send(work.running(), work.complete())
  expect(host.run(runId).status).toBe('queued')
  expect(connection.countReceived('lease-lost')).toBe(1)
})

/** Delays writing artifacts until the returned function is called. */
function slowFiles(host: HostConversation): () => Promise<void> {
  const { artifacts } = host.store
  const write = artifacts.write.bind(artifacts)
  const waiting: (() => void)[] = []
  artifacts.write = async (...given) => {
    await new Promise<void>((go) => waiting.push(go))
    return write(...given)
  }
  return async () => {
    while (waiting.length > 0) {
      for (const go of waiting.splice(0)) go()
      await host.settle()
    }
  }
}

test('frames that are replayed while the first of them is still being written to a file are applied once', async () => {
  const host = await startHost()
  const { worker, connection, work, runId } = await acceptRun(host)
  const release = slowFiles(host)
  const frames = [work.artifact('a.txt', 'text'), work.event('after'), work.complete()]
  await connection.send(...frames)
  await connection.drop()
  const again = await reconnect(host, worker, work)
  expect(again.acknowledged(work)).toBe(0)
  await again.send(...frames)
  await release()
  expect(again.hasReceived('run-complete-ack')).toBe(true)
  expect((await host.events(runId)).filter((line) => line !== 'artifact').slice(2)).toEqual([
    'stdout after',
    'status completed',
  ])
})

test('a lease that ended while a frame of it was written to a file stays ended', async () => {
  const host = await startHost()
  const { connection, work, runId } = await acceptRun(host)
  const release = slowFiles(host)
  await connection.send(work.artifact('a.txt', 'text'), work.event('after'), work.complete())
  await host.succeeded(host.hostApi.cancelRun(runId))
  await host.advance(15)
  await release()
  expect(connection.hasReceived('run-complete-ack')).toBe(false)
  expect(host.run(runId).status).toBe('cancelled')
  expect((await host.events(runId)).slice(2)).toEqual(['status cancelled'])
})

test('frames that wait for a slow file are limited; those over the limit are requested again', async () => {
  const host = await startHost()
  const { connection, work } = await acceptRun(host)
  const release = slowFiles(host)
  const text = 'x'.repeat(250 * 1024)
  await connection.send(work.artifact('a.txt', 'text'), ...Array.from({ length: 40 }, () => work.event(text)))
  await release()
  await connection.sendHeartbeat(work)
  const acknowledged = connection.acknowledged(work) ?? 0
  expect(acknowledged).toBeGreaterThan(20)
  expect(acknowledged).toBeLessThan(41)
  await connection.send(work.at(acknowledged + 1).event('again'))
  await connection.sendHeartbeat(work)
  expect(connection.acknowledged(work)).toBe(acknowledged + 1)
})
