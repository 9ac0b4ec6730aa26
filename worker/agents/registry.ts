/** The agent registry lists the driver of every agent that a worker can run, by its name in the configuration. */
import type { PriceTable } from '../../core/run/price.ts'
import { PRICES } from '../../core/run/price-table.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { AgentDriver } from './agent.ts'
import { createAgentA } from './agent-a/agent-a.ts'
import { createAgentB } from './agent-b/agent-b.ts'
import { createAgentC } from './agent-c/agent-c.ts'
import type { SearchPlace } from './locate-agent.ts'

const AGENT_DRIVERS: Readonly<Record<AgentProvider, AgentDriverFactory>> = {
  agentA: createAgentA,
  agentB: createAgentB,
  agentC: createAgentC,
}

type AgentDriverFactory = (where: SearchPlace, prices: PriceTable) => AgentDriver

export interface DriverOptions extends SearchPlace {
  /** Defaults to the vendors' price lists. */
  readonly prices?: PriceTable
}

export function createAgentDrivers({
  prices = PRICES,
  ...where
}: DriverOptions): Readonly<Record<AgentProvider, AgentDriver>> {
  const drivers = Object.entries(AGENT_DRIVERS).map(([name, create]) => [name, create(where, prices)])
  return Object.fromEntries(drivers)
}
