/**
 * Measures an agent that prints fifty thousand lines at once: the time until all are on the host's disk and the run
 * has ended, the time that the agent is blocked, and the memory of worker and host.
 *
 * The floor is `cat` of the same lines through a pipe into a process that splits them and writes them to disk. The
 * product's time includes the agent's start, collecting the work and completing the run.
 */
import { spawn } from 'node:child_process'
import { closeSync, fdatasyncSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { RunEvent } from '../../protocol/run.ts'
import { createLineReader } from '../../worker/agents/line-reader.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { absoluteFigure, compareFigure, type Figure, spread } from '../figures.ts'
import { peakMib, resetPeak, waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { WorkingSystem } from '../working-system.ts'

const LINES = 50_000
const LINE_FORMAT = 'compiling module %g, and saying so in a line as long as most lines of a log are'
const PRINT_COMMAND = `seq -f "${LINE_FORMAT}" ${LINES}`
const stampCommand = (name: string): string => `date +%s%N > /out/${name}`
const AGENT = `sh -c '${stampCommand('began')}; ${PRINT_COMMAND}; ${stampCommand('said')}; exec scripted-agent "$@"' agent`

interface LogRun {
  readonly totalMs: number
  readonly heldMs: number
  readonly workerMib: number
  readonly hostMib: number
  readonly events: number
}

export const logLines: Entry = {
  name: 'log-lines',
  about: `ms until ${LINES} lines of an agent are on the host’s disk / cat, split and written to disk`,
  async measure(effort, resources) {
    await buildProduct(resources)
    const system = await WorkingSystem.start(resources, { agent: AGENT })
    const folder = resources.createFolder('lines')
    const text = join(folder, 'lines')
    writeFileSync(text, allLines())
    const all: LogRun[] = []
    const ours = async () => {
      const logRun = await measureLogRun(system)
      all.push(logRun)
      return logRun.totalMs
    }
    const pairs = await measureInTurn(effort.rounds, {
      ours,
      raw: () => measureCat(text, join(folder, 'journal')),
    })
    await system.stop()
    resources.removeFolder(folder)
    return figuresOf(pairs, all.slice(1))
  },
}

const allLines = (): string =>
  Array.from({ length: LINES }, (_, at) => `${LINE_FORMAT.replace('%g', String(at + 1))}\n`).join('')

function figuresOf(
  pairs: readonly { readonly ours: number; readonly raw: number }[],
  all: readonly LogRun[],
): Figure[] {
  const rate = amount(spread(all.map(({ totalMs }) => LINES / (totalMs / 1000))).median)
  const events = amount(spread(all.map(({ events }) => events)).median)
  return [
    compareFigure(
      {
        name: 'log lines, printed → run over',
        unit: 'ms',
        notes: [`${rate} lines a second, in ${events} events`],
      },
      pairs,
    ),
    absoluteFigure(
      { name: '  agent blocked', unit: 'ms' },
      all.map(({ heldMs }) => heldMs),
    ),
    absoluteFigure(
      { name: '  worker, peak memory', unit: 'MiB' },
      all.map(({ workerMib }) => workerMib),
    ),
    absoluteFigure(
      { name: '  host, peak memory', unit: 'MiB' },
      all.map(({ hostMib }) => hostMib),
    ),
  ]
}

async function measureLogRun(system: WorkingSystem): Promise<LogRun> {
  const pids = [system.worker.pid, system.served.child.pid] as const
  for (const pid of pids) {
    await waitUntilIdle(pid)
    resetPeak(pid)
  }
  const run = await system.waitForCompletion(system.addTicket(['say Nothing to do.']))
  const at = (name: string) => Number(readFileSync(join(system.runFolder(run), 'out', name), 'utf8')) / 1e6
  const events = (await system.events(run)).filter(
    (event) => event.type === 'log' && event.stream === 'stdout',
  )
  const lines = countLines(events)
  if (lines !== LINES) throw new Error(`${lines} lines arrived`)
  return {
    totalMs: Date.parse(run.finishedAt ?? '') - at('began'),
    heldMs: at('said') - at('began'),
    workerMib: peakMib(pids[0]),
    hostMib: peakMib(pids[1]),
    events: events.length,
  }
}

function countLines(events: readonly RunEvent[]): number {
  const texts = events.map((event) => (event.type === 'log' ? event.text : ''))
  return texts.reduce((sum, text) => sum + text.split('\n').filter((line) => line !== '').length, 0)
}

const toJsonLines = (lines: readonly string[]): string =>
  lines.map((line) => `${JSON.stringify(line)}\n`).join('')

/** Writes the lines of each chunk to one file with one write. */
async function measureCat(from: string, to: string): Promise<number> {
  const began = performance.now()
  const child = spawn('/usr/bin/cat', [from], { stdio: ['ignore', 'pipe', 'inherit'] })
  const journal = openSync(to, 'w')
  const lines = createLineReader()
  for await (const chunk of child.stdout) writeSync(journal, toJsonLines(lines.push(chunk as Buffer)))
  fdatasyncSync(journal)
  closeSync(journal)
  return performance.now() - began
}
