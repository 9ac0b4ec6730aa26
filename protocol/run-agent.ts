/**
 * The agent of a run: the one that worked on it, or that a new execution would start. The first load of the page has
 * this file, and not the filter of runs.
 */
import type { AgentProvider } from './agents/registry.ts'
import type { ServiceConfig } from './config.ts'
import type { Run } from './run.ts'

export type AgentSettings = Pick<ServiceConfig, 'agent' | 'repos'>

/** The agent that worked on the run last, or else will: a person's choice precedes that of the repository. */
export function agentOf({ costs, agent, ticket }: Run, settings: AgentSettings): string {
  return costs.at(-1)?.provider ?? agent?.provider ?? agentOfRepo(ticket.repo, settings)
}

/** The agent of a repository's runs for which nobody chose another. */
export function agentOfRepo(repo: string | undefined, { agent, repos }: AgentSettings): AgentProvider {
  return (repo === undefined ? undefined : repos[repo]?.agent) ?? agent.provider
}
