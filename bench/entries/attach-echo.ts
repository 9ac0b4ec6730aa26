/**
 * How long somebody who types in a session waits until the key is on the screen: through the host, its worker and the
 * sandbox, beside the same program in a local terminal, in the same frames and without any.
 *
 * The program echoes by itself, as agents do. Nobody else types, and nothing else is printed.
 */

import { type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, measured } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { bareTerminal, framedTerminal, ourTerminal, type Terminal, told } from '../terminal-pair.ts'

/** In one turn. */
const KEYS = { quick: 120, full: 300 }
const PAUSE_MS = 8

type Who = 'ours' | 'framed' | 'bare'

interface Latency {
  readonly p50: number
  readonly p99: number
}

export const attachEcho: Entry = {
  name: 'attach-echo',
  about: 'ms from a key to its echo in a session’s terminal / in a local one',
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const terminals: Readonly<Record<Who, Terminal>> = {
      ours: await ourTerminal(workshop),
      framed: await framedTerminal(workshop),
      bare: await bareTerminal(workshop),
    }
    const keys = effort.quick ? KEYS.quick : KEYS.full
    const seen: Record<Who, Latency[]> = { ours: [], framed: [], bare: [] }
    const turn = (who: Who) => async () => {
      const latency = latencyOf(
        await told<number[]>(terminals[who].view, { do: 'echo', keys, pauseMs: PAUSE_MS }),
      )
      seen[who].push(latency)
      return latency.p50
    }
    await inTurn(effort.rounds, { ours: turn('ours'), framed: turn('framed'), bare: turn('bare') })
    for (const terminal of Object.values(terminals)) await terminal.leave()
    return figuresOf(seen, keys)
  },
}

function figuresOf(seen: Readonly<Record<Who, readonly Latency[]>>, keys: number): Figure[] {
  // The first turn is thrown away, as in all that is measured in turn.
  const counted = (who: Who) => seen[who].slice(1)
  const beside = (who: 'framed' | 'bare', part: keyof Latency) =>
    counted('ours').map((each, at) => ({ ours: each[part], raw: counted(who)[at]?.[part] ?? Number.NaN }))
  const parts = ['p50', 'p99'] as const
  const notes = [`${keys} keys a round`]
  return [
    ...parts.map((part) =>
      compared({ name: `attach echo, ${part} / a local terminal`, unit: 'ms', notes }, beside('bare', part)),
    ),
    ...parts.map((part) =>
      compared({ name: `attach echo, ${part} / in the same frames`, unit: 'ms' }, beside('framed', part)),
    ),
    ...parts.map((part) =>
      measured(
        { name: `  more than in the same frames, ${part}`, unit: 'ms' },
        beside('framed', part).map(({ ours, raw }) => ours - raw),
      ),
    ),
  ]
}

function latencyOf(waits: readonly number[]): Latency {
  const sorted = [...waits].sort((a, b) => a - b)
  const at = (part: number): number => sorted[Math.floor(sorted.length * part)] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99) }
}
