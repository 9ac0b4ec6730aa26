/**
 * Measures very much output in a terminal with two views, one of which does not read: speed of the reading view,
 * memory of host and worker, and the end of the slow view.
 *
 * For comparison the same program prints the same file in a local pseudo-terminal, in the same frames, over one
 * socket to one view. Both views parse the output and check that nothing is missing.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Effort, type Entry, measureInTurn } from '../entry.ts'
import {
  absoluteFigure,
  compareMeasurements,
  type Figure,
  type Measurement,
  spread,
  type Target,
} from '../figures.ts'
import { cpuMs, peakMib, resetPeak, residentMemory, waitUntilIdle } from '../process-usage.ts'
import { fullScreen, logLines } from '../raw/terminal-output.ts'
import { SIZE, type TextFound } from '../raw/terminal-protocol.ts'
import { WebSocketClient } from '../raw/websocket-client.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import {
  type BenchTerminal,
  openFramedTerminal,
  openSessionTerminal,
  requestView,
  type SessionTerminal,
} from '../terminal-pair.ts'

const MB = 1_000_000
const BYTES = 50 * MB
const SPEED_TARGET: Target = { of: 'ratio', is: 'at least', bound: 0.8 }
const GROWTH_TARGET: Target = { of: 'ours', is: 'at most', bound: 128 }
/** Longer than the host tolerates a view that does not read. */
const CLOSE_WAIT_MS_MAX = 10_000
const END = '= this is the end of it ='
/** Writes to the session's own terminal, because the command itself has none. */
const printCommand = (file: string): string => `run cat ${file} > /proc/$PPID/fd/1\r`

const OUTPUT_KINDS = ['log lines', 'full screen'] as const
type OutputKind = (typeof OUTPUT_KINDS)[number]
const TEXTS: Readonly<Record<OutputKind, (bytes: number) => string>> = {
  'log lines': logLines,
  'full screen': fullScreen,
}

/** In the order in which the output passes the processes. */
const PARTS = ['host', 'worker', 'terminal inside'] as const

interface SlowView {
  readonly code: number | undefined
  readonly mb: number
}

interface FloodResult {
  readonly mbPerSecond: number
  /** Processor time of each process that passes the output on. */
  readonly cpuMs: readonly number[]
}

interface SlowFloodResult extends FloodResult {
  readonly hostMib: number
  readonly workerMib: number
  readonly slow: SlowView
}

export const attachFlood: Entry = {
  name: 'attach-flood',
  about: `MB/s of ${BYTES / MB} MB printed in a session, seen by one of two views / a local terminal in the same frames`,
  async measure(effort, resources) {
    await buildProduct(resources)
    const ours = await openSessionTerminal(resources)
    const raw = await openFramedTerminal(resources)
    await waitUntilIdle(ours.system.worker.pid)
    const idle = memoryOf(ours)
    const figures: Figure[] = []
    for (const kind of OUTPUT_KINDS) figures.push(...(await compareFlood(kind, { ours, raw }, idle, effort)))
    await Promise.all([ours.close(), raw.close()])
    return figures
  },
}

async function compareFlood(
  kind: OutputKind,
  { ours, raw }: { readonly ours: SessionTerminal; readonly raw: BenchTerminal },
  idle: HostAndWorkerMemory,
  { rounds }: Effort,
): Promise<Figure[]> {
  const text = TEXTS[kind](BYTES)
  const file = kind.replace(' ', '-')
  for (const { folder } of [ours, raw]) writeFileSync(join(folder, file), `${text}${END}\n`)
  const chars = text.length + text.split('\n').length - 1
  const seen = { ours: [] as SlowFloodResult[], raw: [] as FloodResult[] }
  const contestants = {
    ours: async () => {
      seen.ours.push(await floodWithSlowView(ours, file, chars))
      return 0
    },
    raw: async () => {
      seen.raw.push(await measureFlood(raw, file, chars))
      return 0
    },
  }
  await measureInTurn(rounds, contestants)
  // `measureInTurn` discards the first round as a warm-up.
  return figuresOf(kind, seen.ours.slice(1), seen.raw.slice(1), idle)
}

function figuresOf(
  kind: OutputKind,
  all: readonly SlowFloodResult[],
  raw: readonly FloodResult[],
  idle: HostAndWorkerMemory,
): Figure[] {
  const rounds = all.map((ours, at) => ({ ours: measurementOf(ours), raw: measurementOf(raw[at] ?? ours) }))
  const ends = [...new Set(all.map(({ slow: { code } }) => code ?? 'no word'))].join(', ')
  const read = amount(spread(all.map(({ slow: { mb } }) => mb)).median)
  const grown = (who: keyof HostAndWorkerMemory): Figure =>
    absoluteFigure(
      {
        name: `  ${who}, peak memory above idle`,
        unit: 'MiB',
        target: GROWTH_TARGET,
        notes: [`idle ${amount(idle[who])} MiB`],
      },
      all.map((flooded) => flooded[`${who}Mib`] - idle[who]),
    )
  return [
    compareMeasurements(
      {
        name: `attach flood, ${kind}`,
        unit: 'MB/s',
        target: SPEED_TARGET,
        notes: [
          `${BYTES / MB} MB at ${SIZE.cols} × ${SIZE.rows}; the view that does not read is closed with ${ends} after ${read} MB`,
          'processor time for each MB: between program and view / of the terminal’s server',
        ],
      },
      rounds,
    ),
    ...PARTS.map((part, at) =>
      absoluteFigure(
        { name: `  processor time of the ${part}`, unit: 'ms' },
        all.map(({ cpuMs }) => cpuMs[at] ?? Number.NaN),
      ),
    ),
    grown('host'),
    grown('worker'),
  ]
}

function measurementOf({ mbPerSecond, cpuMs }: FloodResult): Measurement {
  const spentMs = cpuMs.reduce((sum, each) => sum + each, 0)
  return { value: mbPerSecond, cpuMicros: (spentMs * 1_000) / (BYTES / MB) }
}

// ---- ours ------------------------------------------------------------------------------------------------------------

interface HostAndWorkerMemory {
  readonly host: number
  readonly worker: number
}

const memoryOf = ({ system }: SessionTerminal): HostAndWorkerMemory => ({
  host: residentMemory(system.served.child.pid).mib,
  worker: residentMemory(system.worker.pid).mib,
})

async function floodWithSlowView(
  ours: SessionTerminal,
  file: string,
  chars: number,
): Promise<SlowFloodResult> {
  const { system, path } = ours
  const [host, worker] = [system.served.child.pid, system.worker.pid]
  const slow = await openSlowView(system.served.port, path)
  for (const pid of [host, worker]) {
    await waitUntilIdle(pid)
    resetPeak(pid)
  }
  const flooded = await measureFlood(ours, file, chars)
  const [hostMib, workerMib] = [peakMib(host), peakMib(worker)]
  return { ...flooded, hostMib, workerMib, slow: await slow.end() }
}

/** Opens a view that reads nothing until `end()` asks how it was closed. */
async function openSlowView(port: number, path: string): Promise<{ end(): Promise<SlowView> }> {
  let bytes = 0
  let closed: (code: number | undefined) => void = () => {}
  const gone = new Promise<number | undefined>((resolve) => {
    closed = resolve
  })
  const socket = await WebSocketClient.open({
    port,
    path,
    onText: (frame) => {
      bytes += frame.length
    },
    onClose: (code) => closed(code),
  })
  socket.send(JSON.stringify({ type: 'resize', ...SIZE }))
  socket.pause()
  const end = async (): Promise<SlowView> => {
    const closeTimer = setTimeout(() => socket.destroy(), CLOSE_WAIT_MS_MAX)
    socket.resume()
    const code = await gone
    clearTimeout(closeTimer)
    return { code, mb: bytes / MB }
  }
  return { end }
}

async function measureFlood(
  { view, pids }: BenchTerminal,
  file: string,
  chars: number,
): Promise<FloodResult> {
  const before = cpuTimesOf(pids)
  const seen = await requestView<TextFound>(view, { do: 'see', typed: printCommand(file), until: END })
  // The output includes the typed command, and the session's prompt may follow.
  if (seen.chars < chars || seen.chars > chars + 1_000)
    throw new Error(`${seen.chars} of ${chars} characters arrived`)
  const spentMs = cpuTimesOf(pids).map((ms, at) => ms - (before[at] ?? 0))
  return { mbPerSecond: seen.chars / MB / (seen.ms / 1_000), cpuMs: spentMs }
}

const cpuTimesOf = (pids: readonly number[]): number[] => pids.map((pid) => cpuMs(pid) ?? Number.NaN)
