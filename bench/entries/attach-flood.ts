/**
 * Very much output at a terminal that two people look at, one of whom does not read: how fast the other one gets it,
 * what the host and the worker hold meanwhile, and what becomes of the slow one.
 *
 * Beside it the same program prints the same file in a local pseudo-terminal, whose output goes in the same frames over
 * one socket to one view. Both views parse what they get; nothing may be missing at the end.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { atRest, cpuMs, peakMib, resetPeak, resident } from '../bench-resources.ts'
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, measured, spread, type Target } from '../figures.ts'
import { fullScreen, logLines } from '../raw/terminal-output.ts'
import { type Seen, SIZE } from '../raw/terminal-protocol.ts'
import { Wire } from '../raw/websocket-client.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { framedTerminal, type OurTerminal, ourTerminal, type Terminal, told } from '../terminal-pair.ts'

const MB = 1_000_000
const BYTES = 50 * MB
const FAST_ENOUGH: Target = { of: 'ratio', is: 'at least', bound: 0.8 }
const GROWN: Target = { of: 'ours', is: 'at most', bound: 128 }
/** Longer than the host lets a view that does not read be. */
const CUT_MS_MAX = 10_000
const END = '= this is the end of it ='
/** The session's own terminal: what it runs has none. */
const PRINTED = (file: string): string => `run cat ${file} > /proc/$PPID/fd/1\r`

const KINDS = ['log lines', 'full screen'] as const
type Kind = (typeof KINDS)[number]
const TEXTS: Readonly<Record<Kind, (bytes: number) => string>> = {
  'log lines': logLines,
  'full screen': fullScreen,
}

/** In the order of a terminal's processes. */
const PARTS = ['host', 'worker', 'terminal inside'] as const

interface Slow {
  readonly code: number | undefined
  readonly mb: number
}

interface Flood {
  readonly mbPerSecond: number
  /** Processor time of each who passes it on. */
  readonly cpuMs: readonly number[]
}

interface Flooded extends Flood {
  readonly hostMib: number
  readonly workerMib: number
  readonly slow: Slow
}

export const attachFlood: Entry = {
  name: 'attach-flood',
  about: `MB/s of ${BYTES / MB} MB printed in a session, seen by one of two views / a local terminal in the same frames`,
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const ours = await ourTerminal(workshop)
    const raw = await framedTerminal(workshop)
    await atRest(ours.yard.worker.pid)
    const idle = sizes(ours)
    const figures: Figure[] = []
    for (const kind of KINDS) figures.push(...(await race(kind, { ours, raw }, idle, effort)))
    await Promise.all([ours.leave(), raw.leave()])
    return figures
  },
}

async function race(
  kind: Kind,
  { ours, raw }: { readonly ours: OurTerminal; readonly raw: Terminal },
  idle: Sizes,
  { rounds }: Effort,
): Promise<Figure[]> {
  const text = TEXTS[kind](BYTES)
  const file = kind.replace(' ', '-')
  for (const { folder } of [ours, raw]) writeFileSync(join(folder, file), `${text}${END}\n`)
  const chars = text.length + text.split('\n').length - 1
  const seen = { ours: [] as Flooded[], raw: [] as Flood[] }
  const turns = {
    ours: async () => {
      seen.ours.push(await floodedBeside(ours, file, chars))
      return 0
    },
    raw: async () => {
      seen.raw.push(await flood(raw, file, chars))
      return 0
    },
  }
  await inTurn(rounds, turns)
  // The turns that inTurn throws away.
  return figuresOf(kind, seen.ours.slice(1), seen.raw.slice(1), idle)
}

function figuresOf(kind: Kind, all: readonly Flooded[], raw: readonly Flood[], idle: Sizes): Figure[] {
  const pairs = (of: (flood: Flood) => number) =>
    all.map((ours, at) => ({ ours: of(ours), raw: of(raw[at] ?? ours) }))
  const ends = [...new Set(all.map(({ slow: { code } }) => code ?? 'no word'))].join(', ')
  const read = amount(spread(all.map(({ slow: { mb } }) => mb)).median)
  const grown = (who: keyof Sizes): Figure =>
    measured(
      {
        name: `  ${who}, at its largest, over its rest`,
        unit: 'MiB',
        target: GROWN,
        notes: [`at rest ${amount(idle[who])} MiB`],
      },
      all.map((flooded) => flooded[`${who}Mib`] - idle[who]),
    )
  return [
    compared(
      {
        name: `attach flood, ${kind}`,
        unit: 'MB/s',
        target: FAST_ENOUGH,
        notes: [
          `${BYTES / MB} MB at ${SIZE.cols} × ${SIZE.rows}; the view that does not read is closed with ${ends} after ${read} MB`,
        ],
      },
      pairs(({ mbPerSecond }) => mbPerSecond),
    ),
    compared(
      { name: '  processor time of all between program and view / of the terminal’s server', unit: 'ms' },
      pairs(({ cpuMs }) => sum(cpuMs)),
    ),
    ...PARTS.map((part, at) =>
      measured(
        { name: `    of it the ${part}`, unit: 'ms' },
        all.map(({ cpuMs }) => cpuMs[at] ?? Number.NaN),
      ),
    ),
    grown('host'),
    grown('worker'),
  ]
}

// ---- ours ------------------------------------------------------------------------------------------------------------

interface Sizes {
  readonly host: number
  readonly worker: number
}

const sizes = ({ yard }: OurTerminal): Sizes => ({
  host: resident(yard.served.child.pid).mib,
  worker: resident(yard.worker.pid).mib,
})

async function floodedBeside(ours: OurTerminal, file: string, chars: number): Promise<Flooded> {
  const { yard, path } = ours
  const [host, worker] = [yard.served.child.pid, yard.worker.pid]
  const slow = await slowView(yard.served.port, path)
  for (const pid of [host, worker]) {
    await atRest(pid)
    resetPeak(pid)
  }
  const flooded = await flood(ours, file, chars)
  const [hostMib, workerMib] = [peakMib(host), peakMib(worker)]
  return { ...flooded, hostMib, workerMib, slow: await slow.end() }
}

/** Reads nothing before it is asked how it ended. */
async function slowView(port: number, path: string): Promise<{ end(): Promise<Slow> }> {
  let bytes = 0
  let closed: (code: number | undefined) => void = () => {}
  const gone = new Promise<number | undefined>((resolve) => {
    closed = resolve
  })
  const wire = await Wire.open({
    port,
    path,
    heard: (frame) => {
      bytes += frame.length
    },
    closed: (code) => closed(code),
  })
  wire.send(JSON.stringify({ type: 'resize', ...SIZE }))
  wire.pause()
  const end = async (): Promise<Slow> => {
    const hurry = setTimeout(() => wire.cut(), CUT_MS_MAX)
    wire.resume()
    const code = await gone
    clearTimeout(hurry)
    return { code, mb: bytes / MB }
  }
  return { end }
}

async function flood({ view, pids }: Terminal, file: string, chars: number): Promise<Flood> {
  const before = spent(pids)
  const seen = await told<Seen>(view, { do: 'see', typed: PRINTED(file), until: END })
  // It comes with what was typed, and the session's answer may be there already.
  if (seen.chars < chars || seen.chars > chars + 1_000)
    throw new Error(`${seen.chars} characters came of ${chars}`)
  const spentMs = spent(pids).map((ms, at) => ms - (before[at] ?? 0))
  return { mbPerSecond: seen.chars / MB / (seen.ms / 1_000), cpuMs: spentMs }
}

const spent = (pids: readonly number[]): number[] => pids.map((pid) => cpuMs(pid) ?? Number.NaN)
const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
