/** The pages of the dashboard: the pattern of each address, and the part of the program that draws it. */
import type { ComponentType } from 'preact'
import { matchPath } from '../match-path.ts'
import { Overview } from './overview/overview-page.tsx'

/** The values of the `:name` parts of the address. */
export type PageProps = { readonly params: Readonly<Record<string, string>> }
type Page = ComponentType<PageProps>

export interface PageRoute {
  readonly pattern: string
  /** The place of the navigation that the page belongs to. */
  readonly place: PlaceName
  readonly load: () => Promise<Page>
  /** Its code and its styles are there from the beginning. */
  readonly isInFirstLoad?: true
}

export type PlaceName =
  | 'overview'
  | 'runs'
  | 'pulls'
  | 'tickets'
  | 'fleet'
  | 'costs'
  | 'memories'
  | 'settings'
  | 'connect'

/** The overview is part of the first load; all others are loaded when they are asked for. */
export const PAGES: readonly PageRoute[] = [
  { pattern: '/', place: 'overview', load: async () => Overview, isInFirstLoad: true },
  { pattern: '/runs', place: 'runs', load: async () => (await import('./runs/runs-page.tsx')).RunsPage },
  { pattern: '/runs/:id', place: 'runs', load: async () => (await import('./run/run-page.tsx')).RunPage },
  {
    pattern: '/runs/:id/attempts',
    place: 'runs',
    load: async () => (await import('./attempts/attempts-page.tsx')).AttemptsPage,
  },
  { pattern: '/pulls', place: 'pulls', load: async () => (await import('./pulls/pulls-page.tsx')).PullsPage },
  {
    pattern: '/pulls/:repo/:number',
    place: 'pulls',
    load: async () => (await import('./pulls/pull-page.tsx')).PullPage,
  },
  {
    pattern: '/tickets',
    place: 'tickets',
    load: async () => (await import('./tickets/tickets-page.tsx')).TicketsPage,
  },
  {
    pattern: '/tickets/:id',
    place: 'tickets',
    load: async () => (await import('./tickets/ticket-page.tsx')).TicketPage,
  },
  { pattern: '/fleet', place: 'fleet', load: async () => (await import('./fleet/fleet-page.tsx')).FleetPage },
  { pattern: '/costs', place: 'costs', load: async () => (await import('./costs/costs-page.tsx')).CostsPage },
  {
    pattern: '/memories',
    place: 'memories',
    load: async () => (await import('./memories/memories-page.tsx')).MemoriesPage,
  },
  {
    pattern: '/settings',
    place: 'settings',
    load: async () => (await import('./settings/settings-page.tsx')).SettingsPage,
  },
  {
    pattern: '/connect',
    place: 'connect',
    load: async () => (await import('./connect/connect-page.tsx')).ConnectPage,
  },
]

export function findPage(path: string) {
  for (const route of PAGES) {
    const params = matchPath(route.pattern, path)
    if (params !== undefined) return { route, params }
  }
  return undefined
}
