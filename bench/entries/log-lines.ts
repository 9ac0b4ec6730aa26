/**
 * An agent that prints fifty thousand lines at once: how long until all of them are on the host's disk and the run is
 * over, how long the agent is held up, and how large worker and host grow meanwhile.
 *
 * The floor is `cat` of the same lines through a pipe into a process that takes them apart and puts them on disk. Ours
 * includes the agent's own start and what comes after it: the work is collected, the run is completed.
 */

import { spawn } from 'node:child_process'
import { closeSync, fdatasyncSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { RunEvent } from '../../protocol/run.ts'
import { createLineReader } from '../../worker/agents/line-reader.ts'
import { atRest, peakMib, resetPeak } from '../bench-resources.ts'
import { type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, measured, spread } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { WorkingYard } from '../working-host.ts'

const LINES = 50_000
const SAYING = 'compiling module %g, and saying so in a line as long as most lines of a log are'
const PRINTING = `seq -f "${SAYING}" ${LINES}`
const STAMP = (name: string): string => `date +%s%N > /out/${name}`
const AGENT = `sh -c '${STAMP('began')}; ${PRINTING}; ${STAMP('said')}; exec scripted-agent "$@"' agent`

interface Spoken {
  readonly totalMs: number
  readonly heldMs: number
  readonly workerMib: number
  readonly hostMib: number
  readonly events: number
}

export const logLines: Entry = {
  name: 'log-lines',
  about: `ms until ${LINES} lines of an agent are on the host’s disk / cat, taken apart and put on disk`,
  async measure(effort, workshop) {
    await buildProduct(workshop)
    const yard = await WorkingYard.open(workshop, { agent: AGENT })
    const folder = workshop.folder('lines')
    const text = join(folder, 'lines')
    writeFileSync(text, textOf())
    const all: Spoken[] = []
    const ours = async () => {
      const spoken = await speak(yard)
      all.push(spoken)
      return spoken.totalMs
    }
    const pairs = await inTurn(effort.rounds, { ours, raw: () => cat(text, join(folder, 'journal')) })
    await yard.leave()
    workshop.removeFolder(folder)
    return figuresOf(pairs, all.slice(1))
  },
}

const textOf = (): string =>
  Array.from({ length: LINES }, (_, at) => `${SAYING.replace('%g', String(at + 1))}\n`).join('')

function figuresOf(
  pairs: readonly { readonly ours: number; readonly raw: number }[],
  all: readonly Spoken[],
): Figure[] {
  const rate = amount(spread(all.map(({ totalMs }) => LINES / (totalMs / 1000))).median)
  const events = amount(spread(all.map(({ events }) => events)).median)
  return [
    compared(
      {
        name: 'log lines, printed → run over',
        unit: 'ms',
        notes: [`${rate} lines a second, in ${events} events`],
      },
      pairs,
    ),
    measured(
      { name: '  the agent held up', unit: 'ms' },
      all.map(({ heldMs }) => heldMs),
    ),
    measured(
      { name: '  worker, at its largest', unit: 'MiB' },
      all.map(({ workerMib }) => workerMib),
    ),
    measured(
      { name: '  host, at its largest', unit: 'MiB' },
      all.map(({ hostMib }) => hostMib),
    ),
  ]
}

async function speak(yard: WorkingYard): Promise<Spoken> {
  const pids = [yard.worker.pid, yard.served.child.pid] as const
  for (const pid of pids) {
    await atRest(pid)
    resetPeak(pid)
  }
  const run = await yard.completed(yard.ticket(['say Nothing to do.']))
  const at = (name: string) => Number(readFileSync(join(yard.folderOf(run), 'out', name), 'utf8')) / 1e6
  const events = (await yard.events(run)).filter((event) => event.type === 'log' && event.stream === 'stdout')
  const lines = linesIn(events)
  if (lines !== LINES) throw new Error(`${lines} lines arrived`)
  return {
    totalMs: Date.parse(run.finishedAt ?? '') - at('began'),
    heldMs: at('said') - at('began'),
    workerMib: peakMib(pids[0]),
    hostMib: peakMib(pids[1]),
    events: events.length,
  }
}

function linesIn(events: readonly RunEvent[]): number {
  const texts = events.map((event) => (event.type === 'log' ? event.text : ''))
  return texts.reduce((sum, text) => sum + text.split('\n').filter((line) => line !== '').length, 0)
}

const written = (lines: readonly string[]): string =>
  lines.map((line) => `${JSON.stringify(line)}\n`).join('')

/** Into one file, what came together at once. */
async function cat(from: string, to: string): Promise<number> {
  const began = performance.now()
  const child = spawn('/usr/bin/cat', [from], { stdio: ['ignore', 'pipe', 'inherit'] })
  const journal = openSync(to, 'w')
  const lines = createLineReader()
  for await (const chunk of child.stdout) writeSync(journal, written(lines.push(chunk as Buffer)))
  fdatasyncSync(journal)
  closeSync(journal)
  return performance.now() - began
}
