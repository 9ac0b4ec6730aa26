/**
 * Draws the state chart of each machine as SVG, with Graphviz compiled to WebAssembly.
 *
 * Arrows between the same two states are one arrow with their number; transitions that stay in their state, and those
 * from any state that lead nowhere, stand in the tables. Every state has the id `n:<path>` and every arrow
 * `e:<from>><to>`, so that the inspector can mark them. Shapes have classes and no colours: `state`, `final`, `nested`,
 * `any` (transitions from any state), `start`, `arrow`; the first arrow is `e:start><state>`, one from any state `e:><to>`.
 */
import { instance } from '@viz-js/viz'
import type { MachineTable, MachineTableState } from './machine-table.ts'

export interface Chart {
  /** Without a style of its own. */
  readonly svg: string
  readonly states: readonly { readonly path: string; readonly kind: string; readonly description?: string }[]
  readonly arrows: readonly ChartArrow[]
}

interface ChartArrow {
  readonly from: string
  readonly to: string
  /** Absent: at once. */
  readonly event?: string
  readonly guard?: string
  readonly actions: readonly string[]
}

/** Colours of the charts as images: of the page on which they stand, light or dark. */
const STYLE = `<style>
.state>path,.state>polygon{fill:#fff;stroke:#8a867b;stroke-width:1.5}
.nested>path,.nested>polygon{fill:none;stroke:#bdb8ab;stroke-width:1.5}
.any>path{fill:none;stroke:#8a867b;stroke-dasharray:4 3}
.start>ellipse{fill:#4c4f54}
.arrow>path{fill:none;stroke:#8a867b;stroke-width:1.5}
.arrow>polygon{fill:#8a867b}
text{fill:#191b1e;font:13px system-ui,-apple-system,"Segoe UI",Roboto,Inter,"Noto Sans",sans-serif}
.arrow>text,.any>text{fill:#4c4f54;font-size:12px}
@media (prefers-color-scheme:dark){
.state>path,.state>polygon{fill:#191a1d;stroke:#70747d}
.nested>path,.nested>polygon{stroke:#474a52}
.any>path{stroke:#70747d}
.start>ellipse{fill:#b3b5b9}
.arrow>path{stroke:#70747d}
.arrow>polygon{fill:#70747d}
text{fill:#e9e8e4}
.arrow>text,.any>text{fill:#b3b5b9}
}
</style>`

/** The SVG as a file of its own. */
export const chartImage = (name: string, { svg }: Chart): string =>
  `${svg.replace(/^<svg[^>]*>/, (head) => `${head}\n<title>The states of ${name}</title>\n${STYLE}`)}\n`

/** The charts of the tables, in their order. */
export async function drawCharts(tables: readonly MachineTable[]): Promise<Chart[]> {
  const graphviz = await instance()
  const draw = (table: MachineTable, direction: Direction): string =>
    cleanSvg(graphviz.renderString(graphOf(table, direction), { format: 'svg', engine: 'dot' }))
  return tables.map((table) => ({
    svg: larger(draw(table, 'TB'), draw(table, 'LR')),
    states: table.states
      .filter(({ path }) => path !== '')
      .map(({ path, kind, description }) => ({
        path,
        kind,
        ...(description === undefined ? {} : { description }),
      })),
    arrows: table.transitions.map(({ from, to, event, guard, actions }) => ({
      from,
      to,
      ...(event === undefined ? {} : { event }),
      ...(guard === undefined ? {} : { guard }),
      actions,
    })),
  }))
}

type Direction = 'TB' | 'LR'

/** Twice as wide as high, like the inspector's place for a chart on a wide screen. */
const PLACE = { width: 720, height: 360 }

/** The drawing whose text is larger when it fills the place. */
function larger(first: string, second: string): string {
  return scaleOf(second) > scaleOf(first) ? second : first
}

function scaleOf(svg: string): number {
  const [width = 1, height = 1] = (/viewBox="[\d.]+ [\d.]+ ([\d.]+) ([\d.]+)"/.exec(svg) ?? [])
    .slice(1)
    .map(Number)
  return Math.min(PLACE.width / width, PLACE.height / height)
}

// ---- the graph ---------------------------------------------------------------------------------------------------

const ANY = 'any state'
const BADGE_EVENTS_MAX = 4

function graphOf(table: MachineTable, direction: Direction): string {
  const top = table.states.filter(({ path }) => path !== '' && !path.includes('.'))
  const lines = [
    'digraph {',
    `rankdir=${direction} compound=true nodesep=0.25 ranksep=0.3 pad=0.1 fontname=Arial`,
    'node [shape=box style=rounded class=state fontname=Arial fontsize=13 height=0.4 margin="0.16,0.05"]',
    'edge [class=arrow fontname=Arial fontsize=14 arrowsize=0.7]',
    ...top.flatMap((state) => stateLines(table, state)),
    ...table.states.flatMap((state) => startLines(table, state)),
    ...mergedArrows(table).map(([from, to, events]) => arrowLine(table, from, to, events)),
    ...badgeLines(table),
    '}',
  ]
  return lines.join('\n')
}

function stateLines(table: MachineTable, { path, kind }: MachineTableState): string[] {
  const name = path.split('.').at(-1) ?? path
  const id = quote(`n:${path}`)
  if (kind !== 'nested')
    return [
      `${quote(path)} [label=${quote(name)} id=${id}${kind === 'final' ? ' peripheries=2 class="state final"' : ''}]`,
    ]
  const inner = table.states.filter((state) => parentOf(state.path) === path)
  return [
    `subgraph ${quote(`cluster_${path}`)} { label=${quote(name)} id=${id} class=nested style=rounded fontsize=13 labeljust=l`,
    ...inner.flatMap((state) => stateLines(table, state)),
    '}',
  ]
}

function startLines(table: MachineTable, { path, initial }: MachineTableState): string[] {
  // Only the beginning of the whole machine is marked; an arrow to a nested state leads to where that begins.
  if (initial === undefined || path !== '') return []
  return [
    `start [shape=circle style="" label="" width=0.12 height=0.12 fixedsize=true class=start]`,
    `start -> ${quote(innermost(table, initial))} [id="e:start>${initial}"${headOf(table, initial)}]`,
  ]
}

function arrowLine(table: MachineTable, from: string, to: string, events: readonly string[]): string {
  const [only = ''] = events
  const label = events.length === 1 ? only : String(events.length)
  const tail = isNested(table, from) ? ` ltail=${quote(`cluster_${from}`)}` : ''
  return `${quote(innermost(table, from))} -> ${quote(innermost(table, to))} [id=${quote(`e:${from}>${to}`)} label=${quote(` ${label} `)}${tail}${headOf(table, to)}]`
}

/** Transitions from any state: a badge with their events, and arrows where they lead somewhere. */
function badgeLines(table: MachineTable): string[] {
  const fromAny = table.transitions.filter(({ from }) => from === '')
  if (fromAny.length === 0) return []
  const events = [...new Set(fromAny.map(({ event }) => event ?? 'at once'))]
  const more = events.length > BADGE_EVENTS_MAX ? `\\nand ${events.length - BADGE_EVENTS_MAX + 1} more` : ''
  const shown = events.slice(0, more === '' ? BADGE_EVENTS_MAX : BADGE_EVENTS_MAX - 1)
  const targets = [...new Set(fromAny.map(({ to }) => to))].filter((to) => to !== '')
  return [
    `${quote(ANY)} [label="${ANY}:\\n${shown.map(escapeText).join('\\n')}${more}" id="n:" class=any fontsize=13]`,
    ...targets.map(
      (to) => `${quote(ANY)} -> ${quote(innermost(table, to))} [id=${quote(`e:>${to}`)}${headOf(table, to)}]`,
    ),
  ]
}

function mergedArrows(table: MachineTable): [from: string, to: string, events: string[]][] {
  const merged = new Map<string, [string, string, string[]]>()
  for (const { from, to, event = 'at once' } of table.transitions) {
    if (from === '' || from === to) continue
    const arrow = merged.get(`${from}>${to}`) ?? [from, to, []]
    if (!arrow[2].includes(event)) arrow[2].push(event)
    merged.set(`${from}>${to}`, arrow)
  }
  return [...merged.values()]
}

const parentOf = (path: string): string => path.split('.').slice(0, -1).join('.')
const stateAt = (table: MachineTable, path: string) => table.states.find((state) => state.path === path)
const isNested = (table: MachineTable, path: string): boolean => stateAt(table, path)?.kind === 'nested'

/** Graphviz draws arrows between states without states of their own; they are cut off at the border of the nested one. */
function innermost(table: MachineTable, path: string): string {
  const state = stateAt(table, path)
  return state?.kind === 'nested' && state.initial !== undefined ? innermost(table, state.initial) : path
}

const headOf = (table: MachineTable, path: string): string =>
  isNested(table, path) ? ` lhead=${quote(`cluster_${path}`)}` : ''

const escapeText = (text: string): string => text.replace(/[\\"]/g, '\\$&')
const quote = (text: string): string => `"${escapeText(text)}"`

// ---- the drawing -------------------------------------------------------------------------------------------------

/** Takes out everything that classes say, and what no reader of the drawing needs. */
function cleanSvg(svg: string): string {
  return svg
    .slice(svg.indexOf('<svg'))
    .replace(/<!--[\s\S]*?-->/g, '')
    .replaceAll('&#45;', '-')
    .replace(/<title>[\s\S]*?<\/title>/g, '')
    .replace(/<polygon fill="(white|none)" stroke="none"[^>]*\/>/g, '')
    .replace(
      / (fill|stroke|stroke-dasharray|font-family|font-size|text-anchor|xmlns:xlink|xml:space|stroke-width)="[^"]*"/g,
      '',
    )
    .replace(/ width="[\d.]+pt" height="[\d.]+pt"/, '')
    .replace(/class="(?:node|edge|cluster) (\w[\w ]*)"/g, 'class="$1"')
    .replace(/<g id="graph0" class="graph"/, '<g')
    .replace(/<text /g, '<text text-anchor="middle" ')
    .replace(/-?\d+\.\d+/g, (number) => String(Math.round(Number(number) * 10) / 10))
    .replace(/\n+/g, '\n')
    .trim()
}
