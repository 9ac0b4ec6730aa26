/** All laws that observe a simulation while it runs. */

import { budgetLaws } from './budgets.ts'
import { daemonLaws } from './daemons.ts'
import { damageLaws } from './damage.ts'
import { followUpLaws } from './follow-ups.ts'
import { frameLaws } from './frames.ts'
import type { Law } from './law.ts'
import { leaseLaws } from './leases.ts'
import { oldPeerLaws } from './old-peers.ts'
import { ownerLaws } from './owners.ts'
import { publishingLaws } from './publishing.ts'
import { pullLaws } from './pulls.ts'
import { queueLaws } from './queue.ts'
import { retentionLaws } from './retention.ts'
import { sessionLaws } from './sessions.ts'
import { setbackLaws } from './setbacks.ts'
import { settingsLaws } from './settings.ts'
import { settlementLaws } from './settlements.ts'
import { workerLaws } from './workers.ts'

export const laws: readonly Law[] = [
  // First, because what such a host does breaks other laws too.
  ...ownerLaws,
  ...leaseLaws,
  ...queueLaws,
  ...setbackLaws,
  ...workerLaws,
  ...frameLaws,
  ...budgetLaws,
  ...daemonLaws,
  ...sessionLaws,
  ...followUpLaws,
  ...pullLaws,
  ...publishingLaws,
  ...retentionLaws,
  ...settlementLaws,
  ...settingsLaws,
  ...oldPeerLaws,
  ...damageLaws,
]
