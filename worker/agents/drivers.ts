/** The agents that a worker can run, by the name that the configuration has for them. */
import type { PriceTable } from '../../core/run/price.ts'
import { PRICES } from '../../core/run/price-table.ts'
import type { AgentProvider } from '../../protocol/config.ts'
import type { AgentDriver } from './agent.ts'
import { agentA } from './agent-a.ts'
import { agentB } from './agent-b.ts'
import { agentC } from './agent-c.ts'
import type { Where } from './locate-agent.ts'

export interface DriverParts extends Where {
  /** The vendors' lists when it is absent. */
  readonly prices?: PriceTable
}

export function agentDrivers({
  prices = PRICES,
  ...where
}: DriverParts): Readonly<Record<AgentProvider, AgentDriver>> {
  return { agentA: agentA(where, prices), agentB: agentB(where, prices), agentC: agentC(where, prices) }
}
