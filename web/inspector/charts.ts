/** The charts of all machines, which were drawn when the page was built. Loaded once, when the first one is shown. */
import { signal } from '@preact/signals'

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

export async function loadCharts(): Promise<void> {
  if (isLoading) return
  isLoading = true
  try {
    const response = await fetch('/charts.json')
    charts.value = (await response.json()) as Readonly<Record<string, MachineChart>>
  } finally {
    isLoading = false
  }
}
