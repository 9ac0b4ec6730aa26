/**
 * Producers and workers of a peer in one process: the same load as that of a host, with jobs of the same size.
 *
 * A job has as many bytes as a dispatch frame, and a worker works on it for as long as a simulated worker of a host.
 * Argument: `QueueLoadOptions` as JSON. The process prints a line when it is connected, executes a command from each
 * input line (`QueueLoadCommand`), and prints a line of JSON for each.
 */
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectAmqp } from './amqp-client.ts'
import { connectBeanstalk } from './beanstalk-client.ts'
import { dispatchFrame, leaseIdOf } from './dispatch-frame.ts'
import type { QueueLoadCommand, QueueLoadOptions } from './queue-load-protocol.ts'
import { waitingRun } from './stored-runs.ts'
import { createWorkTimes } from './work-times.ts'
import type { DispatchWaits, EnqueueTiming } from './worker-load-protocol.ts'

const WORK_TIMES_SEED = 1

const options = JSON.parse(process.argv[2] ?? '{}') as QueueLoadOptions
const job = Buffer.from(dispatchFrame(leaseIdOf(1), waitingRun(1).id))

let workTime = createWorkTimes(WORK_TIMES_SEED)
let toAck = 0
let onReceived = (): void => {}
let onDone = (): void => {}

const connect = options.protocol === 'amqp' ? connectAmqp : connectBeanstalk
const client = await connect(options, {
  onJob: () => {
    onReceived()
    return sleep(workTime())
  },
  onAcked: () => {
    toAck -= 1
    if (toAck === 0) onDone()
  },
})
console.log(job.length)
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await runCommand(JSON.parse(line) as QueueLoadCommand)))
}
await client.close()
process.exit(0)

function runCommand(command: QueueLoadCommand): Promise<EnqueueTiming | DispatchWaits> {
  return command.do === 'jobs' ? runJobs(command.count) : measureDispatches(command.count, command.restMs)
}

async function runJobs(count: number): Promise<EnqueueTiming> {
  workTime = createWorkTimes(WORK_TIMES_SEED)
  const [from, cpu] = [performance.now(), process.cpuUsage()]
  const done = untilAcked(count)
  let next = 0
  await Promise.all(
    Array.from({ length: options.producers }, async (_, producer) => {
      while (next++ < count) await client.enqueue(producer, job)
    }),
  )
  const enqueuedMs = performance.now() - from
  await done
  const { user, system } = process.cpuUsage(cpu)
  return { ms: performance.now() - from, cpuMs: (user + system) / 1000, enqueuedMs }
}

async function measureDispatches(count: number, restMs: number): Promise<DispatchWaits> {
  const waits: number[] = []
  while (waits.length < count) {
    const received = new Promise<void>((resolve) => {
      onReceived = resolve
    })
    const done = untilAcked(1)
    const from = performance.now()
    const confirmed = client.enqueue(0, job)
    await received
    waits.push(performance.now() - from)
    await Promise.all([confirmed, done])
    await sleep(restMs)
  }
  onReceived = () => {}
  return { waits }
}

function untilAcked(count: number): Promise<void> {
  toAck = count
  return new Promise((resolve) => {
    onDone = resolve
  })
}
