/** The places of the navigation, in their order, with their keys and counts. */
import type { IconName } from '../../elements/glyph.tsx'
import type { PlaceName } from '../pages.ts'
import { totals } from '../state/current-totals.ts'
import { arePullsRead, tracker } from '../state/records.ts'

export interface NavigationPlace {
  readonly name: PlaceName
  readonly title: string
  readonly to: string
  readonly icon: IconName
  readonly keys: string
  readonly count?: () => number
  /** Whether the count may still grow, because not everything is read. */
  readonly isPartial?: () => boolean
  /** The count says that a person is needed. */
  readonly isUrgent?: boolean
  /** Shown in the bar below on narrow screens. */
  readonly isInBar?: boolean
}

export const PLACES: readonly NavigationPlace[] = [
  {
    name: 'overview',
    title: 'Overview',
    to: '/',
    icon: 'overview',
    keys: 'g o',
    count: () => totals.value.needsYou,
    isUrgent: true,
    isInBar: true,
  },
  { name: 'runs', title: 'Runs', to: '/runs', icon: 'runs', keys: 'g r', isInBar: true },
  {
    name: 'pulls',
    title: 'Pull requests',
    to: '/pulls',
    icon: 'pulls',
    keys: 'g p',
    count: () => totals.value.openPulls,
    isPartial: () => !arePullsRead.value,
    isInBar: true,
  },
  {
    name: 'tickets',
    title: 'Tickets',
    to: '/tickets',
    icon: 'tickets',
    keys: 'g t',
    count: () => tracker.value.eligible ?? 0,
  },
  { name: 'fleet', title: 'Fleet', to: '/fleet', icon: 'fleet', keys: 'g f', isInBar: true },
  { name: 'costs', title: 'Costs', to: '/costs', icon: 'costs', keys: 'g c' },
  { name: 'memories', title: 'Memories', to: '/memories', icon: 'memories', keys: 'g m' },
  { name: 'settings', title: 'Settings', to: '/settings', icon: 'settings', keys: 'g s', isInBar: true },
  { name: 'connect', title: 'Connect', to: '/connect', icon: 'connect', keys: 'g n' },
]
