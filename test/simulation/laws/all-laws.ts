/** Every law that is watched while something happens. */
import { daemonLaws } from './daemons.ts'
import { workerLaws } from './fleet.ts'
import { followUpLaws } from './follow-ups.ts'
import { frameLaws } from './frames.ts'
import type { Law } from './law.ts'
import { leaseLaws } from './leases.ts'
import { sessionLaws } from './sessions.ts'

export const laws: readonly Law[] = [
  ...leaseLaws,
  ...workerLaws,
  ...frameLaws,
  ...daemonLaws,
  ...sessionLaws,
  ...followUpLaws,
]
