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
import { createLineReader } from '../../core/line-reader.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { absoluteFigure, compareMeasurements, type Figure, type Measurement, spread } from '../figures.ts'
import { measureOwnWork } from '../own-work.ts'
import { cpuMsOfTrees, peakMib, resetPeak, waitForRest, waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { WorkingSystem } from '../working-system.ts'

const LINES = 50_000
/** Seldom, because the host's processor time counts. */
const POLL_EVERY_MS = 250
const LINE_FORMAT = 'compiling module %g, and saying so in a line as long as most lines of a log are'
const PRINT_COMMAND = `seq -f "${LINE_FORMAT}" ${LINES}`
const stampCommand = (name: string): string => `date +%s%N > /out/${name}`
const AGENT = `sh -c '${stampCommand('began')}; ${PRINT_COMMAND}; ${stampCommand('said')}; exec scripted-agent "$@"' agent`

interface LogRun {
  readonly totalMs: number
  /** Of host, worker and their children, from the ticket until both rest. */
  readonly cpuMs: number
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
      return measurementOf(logRun.totalMs, logRun.cpuMs)
    }
    const rounds = await measureInTurn(effort.rounds, {
      ours,
      raw: () => measureCat(text, join(folder, 'journal')),
    })
    await system.stop()
    resources.removeFolder(folder)
    return figuresOf(rounds, all.slice(1))
  },
}

const allLines = (): string =>
  Array.from({ length: LINES }, (_, at) => `${LINE_FORMAT.replace('%g', String(at + 1))}\n`).join('')

/** A line is the unit of the processor time. */
const measurementOf = (ms: number, cpuMs: number): Measurement => ({
  value: ms,
  cpuMicros: (cpuMs * 1_000) / LINES,
})

function figuresOf(
  rounds: readonly { readonly ours: Measurement; readonly raw: Measurement }[],
  all: readonly LogRun[],
): Figure[] {
  const rate = amount(spread(all.map(({ totalMs }) => LINES / (totalMs / 1000))).median)
  const events = amount(spread(all.map(({ events }) => events)).median)
  return [
    compareMeasurements(
      {
        name: 'log lines, printed → run over',
        unit: 'ms',
        notes: [
          `${rate} lines a second, in ${events} events`,
          'processor time for each line, with the agent and everything after it',
        ],
      },
      rounds,
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
  const before = cpuMsOfTrees(pids)
  const run = await system.waitForCompletion(system.addTicket(['say Nothing to do.']), POLL_EVERY_MS)
  const rests = await Promise.all(pids.map((pid) => waitForRest(pid)))
  const at = (name: string) => Number(readFileSync(join(system.runFolder(run), 'out', name), 'utf8')) / 1e6
  const events = (await system.events(run)).filter(
    (event) => event.type === 'log' && event.stream === 'stdout',
  )
  const lines = countLines(events)
  if (lines !== LINES) throw new Error(`${lines} lines arrived`)
  return {
    totalMs: Date.parse(run.finishedAt ?? '') - at('began'),
    cpuMs: rests.reduce((sum, { cpu }) => sum + cpu, -before),
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
async function measureCat(from: string, to: string): Promise<Measurement> {
  const { value, cpuMicros } = await measureOwnWork(() => copyLines(from, to))
  return measurementOf(value, cpuMicros / 1_000)
}

async function copyLines(from: string, to: string): Promise<void> {
  const child = spawn('/usr/bin/cat', [from], { stdio: ['ignore', 'pipe', 'inherit'] })
  const journal = openSync(to, 'w')
  const lines = createLineReader()
  for await (const chunk of child.stdout) writeSync(journal, toJsonLines(lines.push(chunk as Buffer)))
  fdatasyncSync(journal)
  closeSync(journal)
}
