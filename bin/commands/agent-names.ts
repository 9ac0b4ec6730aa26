/** The names of agents for people; the wire has neutral words. */
import { AGENTS } from '../../protocol/agents/registry.ts'

/** `agentA (Claude Code)`; a provider that is not known stays as it is. */
export function agentName(provider: string): string {
  const agent = Object.values(AGENTS).find((each) => each.provider === provider)
  return agent === undefined ? provider : `${provider} (${agent.productName})`
}
