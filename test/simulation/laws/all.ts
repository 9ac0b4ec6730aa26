/** Every law that is watched while something happens. */
import { daemonLaws } from './daemons.ts'
import { fleetLaws } from './fleet.ts'
import { frameLaws } from './frames.ts'
import type { Law } from './law.ts'
import { leaseLaws } from './leases.ts'

export const laws: readonly Law[] = [...leaseLaws, ...fleetLaws, ...frameLaws, ...daemonLaws]
