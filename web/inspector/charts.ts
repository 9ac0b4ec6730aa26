/** The charts of all machines, which were drawn when the page was built. Loaded once, beside the actors. */
import { signal } from '@preact/signals'
import type { InspectionRecord } from '../../protocol/inspection.ts'
import { isTransition, type Surroundings } from './causes.ts'

export interface MachineChart {
  readonly svg: string
  readonly states: readonly { readonly path: string; readonly kind: string; readonly description?: string }[]
  readonly arrows: readonly {
    readonly from: string
    readonly to: string
    readonly event?: string
    readonly guard?: string
    readonly actions: readonly string[]
  }[]
}

export const charts = signal<Readonly<Record<string, MachineChart>> | undefined>(undefined)

let isLoading = false

/** A chart that is shown asks again when the first request has failed. */
export async function loadCharts(): Promise<void> {
  if (isLoading || charts.value !== undefined) return
  isLoading = true
  try {
    const response = await fetch('/charts.json')
    charts.value = (await response.json()) as Readonly<Record<string, MachineChart>>
  } finally {
    isLoading = false
  }
}

const pathsAround = (path: string): string[] => {
  const parts = path.split('.')
  return parts.map((_, index) => parts.slice(0, index + 1).join('.'))
}

/** The ids of the active state, of the states around it, and of the last arrow. */
export function marksOf(
  chart: MachineChart,
  state: string,
  last?: { readonly before?: string; readonly after?: string; readonly name: string },
) {
  const around = pathsAround(state)
  return {
    active: chart.states.some(({ path }) => path === state) ? `n:${state}` : undefined,
    around: around.slice(0, -1).map((path) => `n:${path}`),
    arrow: last === undefined ? undefined : arrowOf(chart, last),
  }
}

/** An arrow may begin at a state around the one that was left, and end at one around the one that was entered. */
function arrowOf(
  { arrows }: MachineChart,
  { before, after, name }: { readonly before?: string; readonly after?: string; readonly name: string },
): string | undefined {
  if (after === undefined) return undefined
  if (before === undefined) return `e:start>${pathsAround(after)[0]}`
  const [left, entered] = [new Set(['', ...pathsAround(before)]), new Set(pathsAround(after))]
  const fitting = arrows.filter(({ from, to }) => left.has(from) && entered.has(to) && from !== to)
  const found =
    fitting.find(({ event }) => event === name) ?? fitting.find(({ event }) => event === undefined)
  return found === undefined ? undefined : `e:${found.from}>${found.to}`
}

/** The arrows that an actor took in the chosen record, in its cause and in its effects. */
export function arrowsAround(
  chart: MachineChart,
  records: readonly InspectionRecord[],
  chosen: number | undefined,
  { cause, effects }: Surroundings,
): ReadonlySet<string> {
  const found = records.filter(
    (record) =>
      (record.n === chosen || record.n === cause || effects.has(record.n)) &&
      (record.is === 'created' || isTransition(record)),
  )
  return new Set(found.map((record) => arrowOf(chart, record)).filter((arrow) => arrow !== undefined))
}

/** The targets of arrows from a state, with their events; transitions of the states around it count too. */
export function exitsOf({ arrows }: MachineChart, state: string) {
  const around = new Set(['', ...pathsAround(state)])
  const byTarget = new Map<string, Set<string>>()
  for (const { from, to, event = 'at once' } of arrows) {
    if (!around.has(from) || from === to || around.has(to)) continue
    byTarget.set(to, (byTarget.get(to) ?? new Set()).add(event))
  }
  return [...byTarget].map(([to, events]) => ({ to, events: [...events] }))
}
