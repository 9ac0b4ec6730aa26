/**
 * Many simulated workers in one process, none of which executes anything: the load of all benches of worker
 * connections.
 *
 * The process executes a command from each input line (`WorkerLoadCommand`) and prints a line of JSON for each. A
 * worker accepts every dispatch at once and then waits for a command, so that a host that is not measured holds its
 * runs and rests. A completed run frees its slot for the next one.
 */
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { requestRuns } from './run-producers.ts'
import { TicketRequests } from './ticket-requests.ts'
import { WebSocketClient } from './websocket-client.ts'
import { createWorkTimes } from './work-times.ts'
import {
  completeFrame,
  type DispatchWaits,
  type EnqueueTiming,
  type Enrollment,
  eventFrame,
  type LoadTiming,
  WINDOW_FRAMES,
  WORKER_PATH,
  type WorkerLoadCommand,
} from './worker-load-protocol.ts'

const HEARTBEAT_MS = 15_000
const RETRY_MS = 20
const WORK_TIMES_SEED = 1
const SOMETIME = '2036-01-31T12:00:00.000Z'

interface LoadLease {
  readonly id: string
  readonly runId: string
  readonly worker: LoadWorker
  sent: number
  acked: number
}

/** A simulated worker. */
class LoadWorker {
  readonly port: number
  readonly slots: number
  readonly leases = new Map<string, LoadLease>()
  socket: WebSocketClient | undefined
  enrollment: Enrollment | undefined
  onClosed = (): void => {}
  onRegistered = (_: Enrollment): void => {}

  constructor(port: number, slots: number) {
    this.port = port
    this.slots = slots
  }

  async connect(auth: object): Promise<Enrollment> {
    const joined = new Promise<Enrollment>((resolve) => {
      this.onRegistered = resolve
    })
    this.socket = await WebSocketClient.open({
      port: this.port,
      path: WORKER_PATH,
      onText: (bytes) => handleFrame(this, bytes),
      onDrain: () => sendFrames(this),
      onClose: () => this.onClosed(),
    })
    const capabilities = {
      os: 'linux',
      arch: 'x64',
      provider: 'bwrap',
      maxConcurrency: this.slots,
      version: '0.1.0',
    }
    this.send({
      type: 'register',
      protocolVersion: 1,
      auth,
      name: 'worker',
      capabilities,
      activeLeases: this.claimedLeases(),
    })
    return joined
  }

  send(frame: object): void {
    this.socket?.send(JSON.stringify(frame))
  }

  claimedLeases(): object[] {
    return [...this.leases.values()].map(({ id, runId, sent }) => ({
      id,
      runId,
      expiresAt: SOMETIME,
      lastSeq: sent,
    }))
  }

  sendHeartbeat(): void {
    this.send({
      type: 'heartbeat',
      leases: this.claimedLeases(),
      attachSessions: 0,
      sentAt: Math.round(performance.now()),
    })
  }
}

const workers: LoadWorker[] = []
let heartbeatTimer: NodeJS.Timeout | undefined

// ---- progress ------------------------------------------------------------------------------------------

/** Runs that may still be completed, and completions that are not acknowledged yet. */
let cycles = { toComplete: 0, toAck: 0, events: 0 }
/** How long a worker works on its next run; undefined completes at once. */
let workTimes: (() => number) | undefined
/** The number of frames that each lease should have sent. */
let framesUpTo = 0
let onDispatch = (_: LoadLease): void => {}
let onDone = (): void => {}

function untilDone(): Promise<void> {
  return new Promise((resolve) => {
    onDone = resolve
  })
}

const heldLeases = (): LoadLease[] => workers.flatMap(({ leases }) => [...leases.values()])

// ---- frames from the host -----------------------------------------------------------------------------------------------------

const TYPE_AT = '{"type":"'.length
const ID = /"id":"([^"]+)","runId":"([^"]+)"/

function handleFrame(worker: LoadWorker, bytes: Buffer): void {
  // Distinguishes frames by their first letters, because parsing all of them would cost more than the server's own
  // work.
  const type = bytes.toString('latin1', TYPE_AT, TYPE_AT + 12)
  if (type.startsWith('dispatch"')) acceptDispatch(worker, bytes)
  else if (type === 'run-complete') onCompletionAcked()
  else if (type.startsWith('lease-ack"')) applyAcks(worker, bytes)
  else if (type.startsWith('registered"')) {
    const { workerId, credential } = JSON.parse(bytes.toString()) as Enrollment
    worker.enrollment ??= { workerId, credential }
    worker.onRegistered(worker.enrollment)
  } else if (!type.startsWith('heartbeat-ac')) throw new Error(`unexpected frame: ${bytes}`)
}

function acceptDispatch(worker: LoadWorker, bytes: Buffer): void {
  const [, id = '', runId = ''] = ID.exec(bytes.toString('latin1', 0, 300)) ?? []
  const lease: LoadLease = { id, runId, worker, sent: 0, acked: 0 }
  worker.leases.set(id, lease)
  worker.socket?.send(`{"type":"dispatch-accepted","leaseId":"${id}"}`)
  if (cycles.toComplete > 0) workOnRun(lease)
  onDispatch(lease)
}

function workOnRun(lease: LoadLease): void {
  cycles.toComplete -= 1
  if (workTimes === undefined) completeRun(lease)
  else setTimeout(completeRun, workTimes(), lease)
}

function completeRun(lease: LoadLease): void {
  const { worker, id } = lease
  for (let event = 0; event < cycles.events; event++) worker.socket?.send(eventFrame(id, ++lease.sent))
  worker.socket?.send(completeFrame(id, ++lease.sent))
  worker.leases.delete(id)
}

function onCompletionAcked(): void {
  cycles.toAck -= 1
  if (cycles.toAck === 0) onDone()
}

function applyAcks(worker: LoadWorker, bytes: Buffer): void {
  const { leases } = JSON.parse(bytes.toString()) as { leases: { leaseId: string; seq: number }[] }
  for (const { leaseId, seq } of leases) {
    const lease = worker.leases.get(leaseId)
    if (lease !== undefined) lease.acked = seq
  }
  sendFrames(worker)
}

/**
 * Sends as many frames as the window and the socket allow, and requests the last acknowledgement with a heartbeat.
 */
function sendFrames(worker: LoadWorker): void {
  if (framesUpTo === 0 || worker.socket === undefined) return
  let open = 0
  for (const lease of worker.leases.values()) {
    while (lease.sent < framesUpTo && lease.sent - lease.acked < WINDOW_FRAMES && !worker.socket.isBacklogged)
      worker.socket.send(eventFrame(lease.id, ++lease.sent))
    if (lease.acked < framesUpTo) open += 1
    if (lease.sent === framesUpTo && lease.acked < framesUpTo) requestAck(worker)
  }
  if (open === 0 && heldLeases().every(({ acked }) => acked >= framesUpTo)) onDone()
}

const heartbeatsDue = new Set<LoadWorker>()

function requestAck(worker: LoadWorker): void {
  if (heartbeatsDue.has(worker)) return
  heartbeatsDue.add(worker)
  setTimeout(() => {
    heartbeatsDue.delete(worker)
    worker.sendHeartbeat()
  }, 1)
}

// ---- commands ------------------------------------------------------------------------------------------------------

async function timed(work: () => Promise<void>): Promise<LoadTiming> {
  const [from, cpu] = [performance.now(), process.cpuUsage()]
  await work()
  const { user, system } = process.cpuUsage(cpu)
  return { ms: performance.now() - from, cpuMs: (user + system) / 1000 }
}

function runCommand(command: WorkerLoadCommand): Promise<unknown> {
  switch (command.do) {
    case 'enroll':
      return enroll(command)
    case 'hold':
      return waitForLeases(command.leases)
    case 'cycles':
      return completeRuns(command.count, command.events)
    case 'enqueue':
      return enqueueRuns(command)
    case 'frames':
      return sendEvents(command.perLease)
    case 'replay':
      return replayFrames(command.frames)
    case 'dispatches':
      return measureDispatches(command)
    case 'beat':
      return startHeartbeats(command.everyMs)
  }
}

async function enroll({
  port,
  slots,
  tokens,
}: Extract<WorkerLoadCommand, { do: 'enroll' }>): Promise<Enrollment[]> {
  const connections = tokens.map(async (token) => {
    const worker = new LoadWorker(port, slots)
    workers.push(worker)
    return worker.connect({ kind: 'pairing', token })
  })
  const members = await Promise.all(connections)
  if (heartbeatTimer === undefined) await startHeartbeats(HEARTBEAT_MS)
  return members
}

/** Spreads the heartbeats evenly over the interval, as if the workers had connected at random times. */
async function startHeartbeats(everyMs: number): Promise<object> {
  clearInterval(heartbeatTimer)
  let next = 0
  const stepMs = Math.max(10, everyMs / Math.max(1, workers.length))
  const perStep = (stepMs * workers.length) / everyMs
  let owed = 0
  heartbeatTimer = setInterval(() => {
    for (owed += perStep; owed >= 1; owed--) workers[next++ % workers.length]?.sendHeartbeat()
  }, stepMs)
  return {}
}

async function waitForLeases(leases: number): Promise<object> {
  while (heldLeases().length < leases) await sleep(1)
  return {}
}

function completeRuns(count: number, events: number): Promise<LoadTiming> {
  return timed(async () => {
    cycles = { toComplete: count, toAck: count, events }
    const all = untilDone()
    for (const lease of heldLeases()) if (cycles.toComplete > 0) workOnRun(lease)
    await all
  })
}

async function enqueueRuns({
  count,
  events,
  ...order
}: Extract<WorkerLoadCommand, { do: 'enqueue' }>): Promise<EnqueueTiming> {
  const producers = { ...order, port: workers[0]?.port ?? 0, ended: () => count - cycles.toAck }
  let enqueuedMs = 0
  workTimes = createWorkTimes(WORK_TIMES_SEED)
  const timing = await timed(async () => {
    const from = performance.now()
    cycles = { toComplete: count, toAck: count, events }
    const all = untilDone()
    await requestRuns(producers, count)
    enqueuedMs = performance.now() - from
    await all
  })
  workTimes = undefined
  return { ...timing, enqueuedMs }
}

async function sendEvents(perLease: number): Promise<LoadTiming> {
  const timing = await timed(async () => {
    for (const lease of heldLeases()) framesUpTo = lease.sent + perLease
    const all = untilDone()
    for (const worker of workers) sendFrames(worker)
    await all
  })
  framesUpTo = 0
  return timing
}

async function replayFrames(frames: number): Promise<LoadTiming> {
  const [lease] = heldLeases()
  const worker = lease?.worker
  if (lease === undefined || worker?.enrollment === undefined) throw new Error('no lease to replay')
  const { workerId, credential } = worker.enrollment
  const closed = new Promise<void>((resolve) => {
    worker.onClosed = resolve
  })
  worker.socket?.destroy()
  await closed
  await sleep(50)
  lease.sent = frames
  return timed(async () => {
    await worker.connect({ kind: 'credential', workerId, secret: credential })
    cycles = { toComplete: 0, toAck: 1, events: 0 }
    const all = untilDone()
    for (let seq = 1; seq < frames; seq++) worker.socket?.send(eventFrame(lease.id, seq))
    worker.socket?.send(completeFrame(lease.id, frames))
    worker.leases.delete(lease.id)
    await all
  })
}

async function measureDispatches({
  token,
  count,
  tickets,
  restMs,
}: Extract<WorkerLoadCommand, { do: 'dispatches' }>): Promise<DispatchWaits> {
  const [worker] = workers
  if (worker === undefined) throw new Error('no worker is enrolled')
  const requests = new TicketRequests(worker.port, token)
  const waits: number[] = []
  for (let at = 0; waits.length < count; at++) {
    const arrived = new Promise<LoadLease>((resolve) => {
      onDispatch = resolve
    })
    const from = performance.now()
    const status = requests.requestRun(`/api/tickets/T-${at % tickets}/run`)
    const lease = await Promise.race([arrived, status.then((code) => (code === 404 ? undefined : arrived))])
    // The host has not polled the tracker yet.
    if (lease === undefined) await sleep(RETRY_MS)
    else {
      waits.push(performance.now() - from)
      await status
      cycles = { toComplete: 0, toAck: 1, events: 0 }
      const all = untilDone()
      completeRun(lease)
      await all
      await sleep(restMs)
    }
  }
  onDispatch = () => {}
  requests.close()
  return { waits }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await runCommand(JSON.parse(line) as WorkerLoadCommand)))
}
process.exit(0)
