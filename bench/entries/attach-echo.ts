/**
 * Measures how long a person who types in a session waits for the key's echo: through the host, its worker and the
 * sandbox.
 *
 * The product is compared with the same program in a local terminal, with and without the same frames. The program
 * itself echoes, as agents do; nothing else is typed or printed.
 */
import { type Entry, measureInTurn } from '../entry.ts'
import { absoluteFigure, compareFigure, type Figure, withProcessorCosts } from '../figures.ts'
import { sumOfCpuMs } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import {
  type BenchTerminal,
  openBareTerminal,
  openFramedTerminal,
  openSessionTerminal,
  requestView,
} from '../terminal-pair.ts'

/** Keys in a round. */
const KEYS = { quick: 120, full: 300 }
const PAUSE_MS = 8

type TerminalKind = 'ours' | 'framed' | 'bare'

interface EchoCosts {
  readonly p50: number
  readonly p99: number
  /** Processor time between the program and the view for each key, in microseconds. */
  readonly cpuMicros: number
}

export const attachEcho: Entry = {
  name: 'attach-echo',
  about: 'ms from a key to its echo in a session’s terminal / in a local one',
  async measure(effort, resources) {
    await buildProduct(resources)
    const terminals: Readonly<Record<TerminalKind, BenchTerminal>> = {
      ours: await openSessionTerminal(resources),
      framed: await openFramedTerminal(resources),
      bare: await openBareTerminal(resources),
    }
    const keys = effort.quick ? KEYS.quick : KEYS.full
    const seen: Record<TerminalKind, EchoCosts[]> = { ours: [], framed: [], bare: [] }
    const measureOnce = (who: TerminalKind) => async () => {
      const { view, pids } = terminals[who]
      // Children do not count: they are the program, which both terminals run.
      const before = sumOfCpuMs(pids)
      const waits = await requestView<number[]>(view, { do: 'echo', keys, pauseMs: PAUSE_MS })
      const cpuMicros = ((sumOfCpuMs(pids) - before) * 1_000) / keys
      const costs = { ...percentilesOf(waits), cpuMicros }
      seen[who].push(costs)
      return costs.p50
    }
    await measureInTurn(effort.rounds, {
      ours: measureOnce('ours'),
      framed: measureOnce('framed'),
      bare: measureOnce('bare'),
    })
    for (const terminal of Object.values(terminals)) await terminal.close()
    return figuresOf(seen, keys)
  },
}

function figuresOf(seen: Readonly<Record<TerminalKind, readonly EchoCosts[]>>, keys: number): Figure[] {
  // `measureInTurn` discards the first round as a warm-up.
  const counted = (who: TerminalKind) => seen[who].slice(1)
  const beside = (who: 'framed' | 'bare', part: keyof EchoCosts) =>
    counted('ours').map((each, at) => ({ ours: each[part], raw: counted(who)[at]?.[part] ?? Number.NaN }))
  const parts = ['p50', 'p99'] as const
  const notes = {
    p50: [
      `${keys} keys a round`,
      'no processor time: program, terminal and measurement share the process of the local terminal',
    ],
    p99: [],
  }
  const inFrames = (part: (typeof parts)[number]) =>
    compareFigure({ name: `attach echo, ${part} / in the same frames`, unit: 'ms' }, beside('framed', part))
  return [
    ...parts.map((part) =>
      compareFigure(
        { name: `attach echo, ${part} / a local terminal`, unit: 'ms', notes: notes[part] },
        beside('bare', part),
      ),
    ),
    withProcessorCosts(inFrames('p50'), beside('framed', 'cpuMicros')),
    inFrames('p99'),
    ...parts.map((part) =>
      absoluteFigure(
        { name: `  more than in the same frames, ${part}`, unit: 'ms' },
        beside('framed', part).map(({ ours, raw }) => ours - raw),
      ),
    ),
  ]
}

function percentilesOf(waits: readonly number[]): Omit<EchoCosts, 'cpuMicros'> {
  const sorted = [...waits].sort((a, b) => a - b)
  const at = (part: number): number => sorted[Math.floor(sorted.length * part)] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99) }
}
