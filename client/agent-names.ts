/** The names of agents for people; the wire has neutral words. */
import { AGENTS } from '../protocol/agents/registry.ts'

/** `agentA (Claude Code)`; a provider that is not known stays as it is. */
export function agentName(provider: string): string {
  const product = productName(provider)
  return product === provider ? provider : `${provider} (${product})`
}

/** `Claude Code`; a provider that is not known stays as it is. */
export const productName = (provider: string): string =>
  Object.values(AGENTS).find((each) => each.provider === provider)?.productName ?? provider
