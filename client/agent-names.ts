/** The names of agents for people, `claude`, `codex` and `gemini`; the wire has neutral words. */
import { AGENTS, type AgentProvider } from '../protocol/agents/registry.ts'

/** `claude`; a provider that is not known stays as it is. */
export const agentName = (provider: string): string => find(provider)?.displayName ?? provider

/** `Claude Code`; a provider that is not known stays as it is. */
export const productName = (provider: string): string => find(provider)?.productName ?? provider

/** The provider that a person names: by the name for people, or by the word of the wire. */
export const providerNamed = (word: string): AgentProvider | undefined =>
  Object.values(AGENTS).find(({ provider, displayName }) => provider === word || displayName === word)
    ?.provider

/** A sentence of the host with the names for people. Keys of settings, like `agent.commands.agentA`, stay. */
export const withAgentNames = (text: string, nameOf = agentName): string =>
  text.replace(/(?<![\w.])agent[A-Z]\b(?![.\w])/g, (word) => nameOf(word))

const find = (provider: string) => Object.values(AGENTS).find((each) => each.provider === provider)

// ---- settings ------------------------------------------------------------------------------------------------------

/** A value that a person gave for a setting, with the words of the wire where the setting names agents. */
export const agentsForWire = (parts: readonly string[], value: unknown): unknown =>
  mapAgents(parts, value, (name) => providerNamed(name) ?? name)

/** A value of a setting with the names for people. */
export const agentsForPeople = (parts: readonly string[], value: unknown): unknown =>
  mapAgents(parts, value, agentName)

function mapAgents(parts: readonly string[], value: unknown, rename: (name: string) => string): unknown {
  if (typeof value === 'string') return namesAgent(parts) ? rename(value) : value
  if (Array.isArray(value)) return value.map((each) => mapAgents(parts, each, rename))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, mapAgents([...parts, key], inner, rename)]),
  )
}

/** `agent.provider`, `agent.fallback`, and the `agent` of a repository, of its reviewer or of a schedule. */
function namesAgent(parts: readonly string[]): boolean {
  const [section = '', ...rest] = parts
  if (section === 'agent') return ['provider', 'fallback'].includes(rest.join('.'))
  return ['repos', 'schedules'].includes(section) && rest.at(-1) === 'agent'
}
