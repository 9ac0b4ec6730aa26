/**
 * Formats machines.md: a Mermaid drawing and a table for each machine.
 */
import type { AnyStateMachine } from 'xstate'
import {
  type MachineTable,
  type MachineTableState,
  type MachineTableTransition,
  readMachineTable,
} from '../actors/runtime/machine-table.ts'

const HEAD = `# The machines

Drawn from the code by \`npm run machines\`; a test fails when this file is out of date. Every actor of the service runs
one of these machines. An arrow reads: *event* [guard] / actions. Actions only record effects; the effects run once the
new state is on disk.
`

export function drawMachines(machines: readonly AnyStateMachine[]): string {
  return `${[HEAD, ...machines.map((machine) => section(readMachineTable(machine)))].join('\n')}`
}

function section(chart: MachineTable): string {
  return [`## ${chart.id}`, '', '```mermaid', ...drawing(chart), '```', '', ...table(chart), ''].join('\n')
}

// ---- the drawing -----------------------------------------------------------------------------------------------

function drawing({ states, transitions: arrows }: MachineTable): string[] {
  const lines = ['stateDiagram-v2']
  for (const state of states) {
    if (state.path !== '') lines.push(`  state "${state.path.split('.').at(-1)}" as ${idOf(state.path)}`)
    if (state.initial !== undefined) lines.push(`  [*] --> ${idOf(state.initial)}`)
    if (state.kind === 'final') lines.push(`  ${idOf(state.path)} --> [*]`)
  }
  // Events of the root are handled in every state: they appear in the table, not as an arrow from every state.
  for (const arrow of arrows) {
    if (arrow.from !== '') lines.push(`  ${idOf(arrow.from)} --> ${idOf(arrow.to)} : ${label(arrow)}`)
  }
  return lines
}

/** Mermaid allows no dots or spaces in ids and no colons in labels. */
const idOf = (path: string): string => path.replace(/[^a-zA-Z0-9]/g, '_')

function label({ event, guard }: MachineTableTransition): string {
  return [event ?? 'at once', ...(guard === undefined ? [] : [`[${guard}]`])].join(' ').replaceAll(':', '')
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
