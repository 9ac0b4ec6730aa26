/**
 * Sends one lease's reports from a worker: written to disk, sent, kept until acknowledged. Arguments: a folder; a
 * port; `ours` or `bare`.
 *
 * `ours` is the daemon with its store and connection; its executor only reports events as fast as it may. `bare`
 * does the necessary work by hand: it puts the same texts into LMDB, sends them over the same kind of socket once
 * they are on disk, and removes them when they are acknowledged. For each number on its input it sends that many
 * frames, and prints the elapsed time after the last acknowledgement.
 */
import { createInterface } from 'node:readline'
import { WebSocket } from 'undici'
import { createDaemon } from '../../actors/daemon/create-daemon.ts'
import { HostClock } from '../../actors/daemon/host-clock.ts'
import { realClock, realRandom } from '../../bin/process/clock.ts'
import { provePeer } from '../../client/peer-owner.ts'
import type {
  Dialer,
  Execution,
  ExecutionReporter,
  Executor,
  WorkerIdentity,
} from '../../core/daemon/ports.ts'
import type { BootedSandbox } from '../../core/daemon/terminal.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { openWorkerStore } from '../../store/worker-store.ts'
import { createDialer } from '../../worker/dialer.ts'
import { makeScreen } from '../../worker/terminal/headless-screen.ts'
import { noMeters, silentLog } from '../silent-log.ts'
import { groupCommit } from './group-commit.ts'
import { eventFrame, type LoadTiming, WINDOW_FRAMES, WORKER_PATH } from './worker-load-protocol.ts'

interface ReportSender {
  /** Resolves when the lease is held, to the number of the last frame so far. */
  readonly held: Promise<number>
  /** Starts to send a frame. */
  report(seq: number): void
  waitForCapacity(): Promise<void>
}

/** Frames between two checks of the capacity. */
const BATCH_FRAMES = 64
/** Beyond its window a worker drops its oldest frames, which would spoil the comparison. */
const UNACKED_FRAMES_MAX = WINDOW_FRAMES / 2

const [folder = '', port = '', who] = process.argv.slice(2)
let ackedSeq = 0
let onAck = (): void => {}

async function serve(): Promise<void> {
  const contestant = who === 'ours' ? await startDaemonSender() : await startBareSender()
  let last = await contestant.held
  console.log('held')
  for await (const line of createInterface({ input: process.stdin })) {
    const [from, cpu] = [performance.now(), process.cpuUsage()]
    last = await sendFrames(contestant, last, Number(line))
    const { user, system } = process.cpuUsage(cpu)
    const timing: LoadTiming = { ms: performance.now() - from, cpuMs: (user + system) / 1000 }
    console.log(JSON.stringify(timing))
  }
}

/** The server counts only events, so its acknowledged number lags behind. Returns the last number. */
async function sendFrames(contestant: ReportSender, before: number, count: number): Promise<number> {
  const [goal, ackedBefore] = [before + count, ackedSeq]
  let last = before
  const isBehind = () => last - before - (ackedSeq - ackedBefore) > UNACKED_FRAMES_MAX
  while (last < goal) {
    for (let sent = 0; sent < BATCH_FRAMES && last < goal; sent++) contestant.report(++last)
    await contestant.waitForCapacity()
    while (isBehind()) await nextAck()
  }
  while (ackedSeq - ackedBefore < count) await nextAck()
  return last
}

function nextAck(): Promise<void> {
  return new Promise((resolve) => {
    onAck = resolve
  })
}

function noteAck(text: string): void {
  const seq = /^\{"type":"lease-ack".*"seq":(\d+)/.exec(text)?.[1]
  if (seq === undefined) return
  ackedSeq = Number(seq)
  onAck()
}

// ---- ours ------------------------------------------------------------------------------------------------------

async function startDaemonSender(): Promise<ReportSender> {
  const store = await openWorkerStore({
    dataDir: folder,
    clock: realClock,
    random: realRandom,
    log: silentLog,
    meters: noMeters,
  })
  const executor = new IdleExecutor()
  createDaemon({
    clock: realClock,
    random: realRandom,
    log: silentLog,
    meters: noMeters,
    database: store,
    dialer: observeAcks(
      createDialer({
        url: () => `ws://127.0.0.1:${port}${WORKER_PATH}`,
        clock: realClock,
        log: silentLog,
        provePeer,
      }),
    ),
    identity: newIdentity,
    executor,
    hostClock: new HostClock({ clock: realClock, log: silentLog }),
    makeScreen,
    capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap' },
    name: 'worker',
    concurrency: 1,
    version: '0.1.0',
    onEnd: ({ detail }) => {
      throw new Error(detail)
    },
  }).start()
  const { leaseId, reporter } = await executor.started
  const sized = eventsOfFixedSize(leaseId)
  return {
    held: executor.working,
    report: (seq) => reporter.report({ is: 'event', event: sized(seq) }),
    waitForCapacity: () => reporter.waitForCapacity(),
  }
}

/** An executor that accepts a job and does nothing with it. */
class IdleExecutor implements Executor {
  readonly started: Promise<{ readonly leaseId: string; readonly reporter: ExecutionReporter }>
  /** Resolves after the first report, which says that the run has started. */
  readonly working: Promise<number>
  #resolveStarted = (_: { readonly leaseId: string; readonly reporter: ExecutionReporter }): void => {}
  #resolveWorking = (_: number): void => {}

  constructor() {
    this.started = new Promise((resolve) => {
      this.#resolveStarted = resolve
    })
    this.working = new Promise((resolve) => {
      this.#resolveWorking = resolve
    })
  }

  async refusalOf(): Promise<undefined> {}
  async boot(): Promise<Result<BootedSandbox>> {
    return no('failed', 'this executor boots no sandboxes')
  }
  async discard(): Promise<void> {}
  async reclaim(): Promise<readonly []> {
    return []
  }
  async recover(): Promise<object> {
    return {}
  }

  start({ leaseId }: { readonly leaseId: string }, reporter: ExecutionReporter): Execution {
    this.#resolveStarted({ leaseId, reporter })
    return {
      prepare: async () => yes({}),
      runAgent: () => {
        this.#resolveWorking(1)
        return new Promise(() => {})
      },
      finish: async () => ({ status: 'completed', costs: [] }),
      stop: () => {},
      whenExited: async () => {},
    }
  }
}

const newIdentity: WorkerIdentity = {
  credential: () => undefined,
  pairingToken: () => `wp-${'A'.repeat(43)}`,
  saveCredential: async () => {},
  deletePairingToken: async () => {},
  deleteCredential: async () => {},
}

function observeAcks(dialer: Dialer): Dialer {
  return {
    dial: (listener, proof) =>
      dialer.dial(
        {
          onOpen: () => listener.onOpen(),
          onText: (text) => {
            listener.onText(text)
            noteAck(text)
          },
          onClose: (reason) => listener.onClose(reason),
        },
        proof,
      ),
  }
}

/** Events whose frames have the agreed length, whatever their number. */
function eventsOfFixedSize(leaseId: string) {
  type LogEvent = { type: 'log'; at: string; stream: 'stdout'; text: string }
  const byDigits = new Map<number, LogEvent>()
  return (seq: number): LogEvent => {
    const digits = String(seq).length
    const known = byDigits.get(digits)
    if (known !== undefined) return { ...known }
    const frame = JSON.parse(eventFrame(leaseId, seq)) as { event: LogEvent }
    byDigits.set(digits, frame.event)
    return { ...frame.event }
  }
}

// ---- bare ------------------------------------------------------------------------------------------------------

async function startBareSender(): Promise<ReportSender> {
  const table = groupCommit.ofBytes(folder)
  const socket = new WebSocket(`ws://127.0.0.1:${port}${WORKER_PATH}`)
  const keyOf = (seq: number) => `lease/${String(seq).padStart(10, '0')}`
  let leaseId = ''
  let removed = 0
  let unsaved = 0
  let lastPut: Promise<unknown> = Promise.resolve()
  const held = new Promise<number>((resolve) => {
    socket.addEventListener('open', () => socket.send(registerText()))
    socket.addEventListener('message', ({ data }) => {
      const text = String(data)
      noteAck(text)
      while (removed < ackedSeq) void table.remove(keyOf(++removed))
      const offered = /^\{"type":"dispatch".*?"id":"([^"]+)"/.exec(text)?.[1]
      if (offered === undefined) return
      leaseId = offered
      socket.send(`{"type":"dispatch-accepted","leaseId":"${leaseId}"}`)
      resolve(0)
    })
  })
  return {
    held,
    report(seq) {
      const text = eventFrame(leaseId, seq)
      unsaved += text.length
      lastPut = table.put(keyOf(seq), Buffer.from(text)).then(() => {
        unsaved -= text.length
        socket.send(text)
      })
    },
    async waitForCapacity() {
      if (unsaved > UNSAVED_BYTES_MAX) await lastPut
      else await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

const UNSAVED_BYTES_MAX = 2 * 1024 * 1024

function registerText(): string {
  const capabilities = { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 1, version: '0.1.0' }
  const auth = { kind: 'pairing', token: 'anybody' }
  return JSON.stringify({
    type: 'register',
    protocolVersion: 1,
    auth,
    name: 'worker',
    capabilities,
    activeLeases: [],
  })
}

await serve()
