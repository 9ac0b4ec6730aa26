/**
 * Writes what is drawn from the machines: the charts of docs/machines, and the parts of machines.md between markers.
 *
 * The prose of machines.md stands outside of the markers and is written by hand: why the machine exists, what of it is
 * on disk, and what a crash means for those who rely on it.
 */
import { join } from 'node:path'
import { daemonKinds } from '../actors/daemon/modules.ts'
import { hostKinds } from '../actors/root/modules.ts'
import type { ActorKind } from '../actors/runtime/actor-kind.ts'
import { workerSupervisorKind } from '../actors/worker-supervisor/create-worker-supervisor.ts'
import { chartImage, drawCharts } from './draw-charts.ts'
import {
  type MachineTable,
  type MachineTableState,
  type MachineTableTransition,
  readMachineTable,
} from './machine-table.ts'

export const MACHINES = 'machines.md'
export const CHARTS = join('docs', 'machines')
/** Every kind of actor of the host, of a worker, and of the program that supervises one. */
export const machineKinds: readonly ActorKind[] = [...hostKinds, ...daemonKinds, workerSupervisorKind]

const begin = (name: string): string => `<!-- drawn from the code: ${name} -->`
const END = '<!-- end of what is drawn -->'

/** The text of each file by its path. @param current machines.md as it is, for its prose */
export async function drawMachineFiles(current: string): Promise<ReadonlyMap<string, string>> {
  const tables = machineKinds.map(({ logic }) => readMachineTable(logic))
  const charts = await drawCharts(tables)
  const files = new Map<string, string>()
  let text = current
  for (const [index, kind] of machineKinds.entries()) {
    const [table, chart] = [tables[index], charts[index]]
    if (table === undefined || chart === undefined) continue
    files.set(join(CHARTS, `${kind.name}.svg`), chartImage(kind.name, chart))
    text = replaceDrawn(text, kind.name, drawnPart(kind, table))
  }
  const byKind = Object.fromEntries(machineKinds.map(({ name }, index) => [name, charts[index]]))
  files.set(join(CHARTS, 'charts.json'), `${JSON.stringify(byKind)}\n`)
  return files.set(MACHINES, text)
}

/** A machine without a section gets one at the end; its prose is missing, which a test says. */
function replaceDrawn(text: string, name: string, drawn: string): string {
  const from = text.indexOf(begin(name))
  const to = text.indexOf(END, from)
  if (from < 0 || to < 0) return `${text.trimEnd()}\n\n## ${name}\n\n${begin(name)}\n${drawn}\n${END}\n`
  return `${text.slice(0, from)}${begin(name)}\n${drawn}\n${text.slice(to)}`
}

function drawnPart(kind: ActorKind, machine: MachineTable): string {
  const stored = kind.codec === undefined ? 'Not stored.' : `Stored in format ${kind.codec.version}.`
  const implied =
    kind.impliedOutputs === undefined ? '' : ' A restored actor does again what its state waits for.'
  return [
    '',
    `![The states of ${kind.name}](${CHARTS}/${kind.name}.svg)`,
    '',
    ...table(machine),
    '',
    `${stored}${implied} ${crashSentence(kind)}`,
    '',
  ].join('\n')
}

const ENDS = {
  closed: 'it is closed, and those who wait for it hear so',
  kept: 'its record stays on disk for the next start',
  fatal: 'the process stops',
}

function crashSentence({ supervision }: ActorKind): string {
  const { restartAfterMs, crashesMax, withinMs } = supervision
  const end = ENDS[supervision.finally]
  if (restartAfterMs.length === 0) return `When it throws, ${end}.`
  const pauses = restartAfterMs.map((ms) => ms / 1_000).join(', ')
  const repeated = supervision.onRepeatedCrash === undefined ? 'is skipped' : 'ends it'
  return `When it throws, it goes on from its last good state after ${pauses} s; an event that it throws on twice ${repeated}. After ${crashesMax} crashes within ${withinMs / 1_000} s ${end}.`
}

// ---- the table -------------------------------------------------------------------------------------------------

function table({ states, transitions: arrows }: MachineTable): string[] {
  return [
    '| in | on | when | goes to | actions |',
    '| --- | --- | --- | --- | --- |',
    ...states.flatMap((state) =>
      rowsOf(
        state,
        arrows.filter((arrow) => arrow.from === state.path),
      ),
    ),
  ]
}

function rowsOf(state: MachineTableState, arrows: readonly MachineTableTransition[]): string[] {
  const name = state.path === '' ? '*(any)*' : `**${state.path}**`
  const about = state.description === undefined ? name : `${name}: ${state.description}`
  const rows: (readonly string[])[] = []
  if (state.entry.length > 0) rows.push(['*entering*', '', '', state.entry.join(', ')])
  for (const arrow of arrows) {
    const to = arrow.to === arrow.from ? '' : arrow.to
    rows.push([arrow.event ?? '*at once*', arrow.guard ?? '', to, arrow.actions.join(', ')])
  }
  if (state.exit.length > 0) rows.push(['*leaving*', '', '', state.exit.join(', ')])
  if (rows.length === 0) return state.path === '' ? [] : [`| ${about} | | | | |`]
  return rows.map((row, at) => `| ${[at === 0 ? about : '', ...row].join(' | ')} |`)
}
