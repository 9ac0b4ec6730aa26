/** Creates the drivers of all agents that a worker can run, keyed by their name in the configuration. */
import type { PriceTable } from '../../core/run/price.ts'
import { PRICES } from '../../core/run/price-table.ts'
import type { AgentProvider } from '../../protocol/config.ts'
import type { AgentDriver } from './agent.ts'
import { createAgentA } from './agent-a/agent-a.ts'
import { createAgentB } from './agent-b/agent-b.ts'
import { createAgentC } from './agent-c/agent-c.ts'
import type { SearchPlace } from './locate-agent.ts'

export interface DriverOptions extends SearchPlace {
  /** Defaults to the vendors' price lists. */
  readonly prices?: PriceTable
}

export function createAgentDrivers({
  prices = PRICES,
  ...where
}: DriverOptions): Readonly<Record<AgentProvider, AgentDriver>> {
  return {
    agentA: createAgentA(where, prices),
    agentB: createAgentB(where, prices),
    agentC: createAgentC(where, prices),
  }
}
