/** The registry lists every check in the order in which the findings are printed. */
import { agentsCheck } from './checks/agents.ts'
import { clockCheck } from './checks/clock.ts'
import { codehostCheck } from './checks/codehost.ts'
import { configCheck } from './checks/config.ts'
import { dataCheck } from './checks/data.ts'
import { diskCheck } from './checks/disk.ts'
import { gitCheck } from './checks/git.ts'
import { hostCheck } from './checks/host.ts'
import { leftoversCheck } from './checks/leftovers.ts'
import { loginsCheck } from './checks/logins.ts'
import { nodeCheck } from './checks/node.ts'
import { portCheck } from './checks/port.ts'
import { sandboxCheck, userNamespacesCheck } from './checks/sandbox.ts'
import { skewCheck } from './checks/skew.ts'
import { trackerCheck } from './checks/tracker.ts'
import { workersCheck } from './checks/workers.ts'
import type { Check } from './finding.ts'

export const CHECKS: readonly Check[] = [
  sandboxCheck,
  userNamespacesCheck,
  nodeCheck,
  gitCheck,
  agentsCheck,
  loginsCheck,
  configCheck,
  hostCheck,
  portCheck,
  trackerCheck,
  codehostCheck,
  dataCheck,
  diskCheck,
  leftoversCheck,
  clockCheck,
  workersCheck,
  skewCheck,
]
