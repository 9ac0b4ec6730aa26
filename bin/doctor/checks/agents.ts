/** Tells whether the agents that the configuration chooses are installed where runs are executed. */

import { agentName } from '../../../client/agent-names.ts'
import { AGENT_PROVIDERS, type AgentProvider } from '../../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { WorkerAgent, WorkerAgents } from '../../../protocol/worker.ts'
import type { ExaminedMachine } from '../examined-machine.ts'
import { type Check, fail, type Judgement, ok, splitCure, warn } from '../finding.ts'

export const agentsCheck: Check = {
  id: 'agents',
  places: ['host', 'worker'],
  async judge(machine) {
    if (machine.place === 'worker') return await judgeWorker(machine)
    const config = await machine.config()
    if (!config.ok) return []
    const places = await whereRunsAre(machine, config.value)
    return agentsInUse(config.value).map((provider) => judgeAgent(provider, places))
  },
}

/** The agents of the configuration that are started by their own names, not by a command of the person. */
export function agentsInUse({ agent, repos }: ServiceConfig): readonly AgentProvider[] {
  const chosen = new Set([agent.provider, ...Object.values(repos).flatMap((repo) => repo.agent ?? [])])
  return AGENT_PROVIDERS.filter((provider) => chosen.has(provider) && agent.commands[provider] === undefined)
}

interface RunPlace {
  readonly name: string
  readonly agents: WorkerAgents
}

/** The connected workers of a running host; without one this machine, whose worker would be the first. */
async function whereRunsAre(machine: ExaminedMachine, config: ServiceConfig): Promise<readonly RunPlace[]> {
  const host = await machine.host()
  const workers =
    host.is === 'running'
      ? host.workers.flatMap(({ name, connection, capabilities }) =>
          connection === 'online' && capabilities?.agents !== undefined
            ? [{ name, agents: capabilities.agents }]
            : [],
        )
      : []
  if (workers.length > 0) return workers
  return config.worker.local ? [{ name: 'this machine', agents: await machine.agents() }] : []
}

function judgeAgent(provider: AgentProvider, places: readonly RunPlace[]): Judgement {
  const name = agentName(provider)
  if (places.length === 0)
    return warn(`${name} was not looked for: no worker is online`, 'switchyard workers pair')
  const found = places.filter(({ agents }) => agents[provider]?.found === true)
  if (found.length > 0) return ok(`${describe(name, found[0]?.agents[provider])} on ${namesOf(found)}`)
  const [problem, cure] = describeMissing(places[0]?.agents[provider])
  const isMissing = problem.endsWith(NOT_INSTALLED)
  return fail(
    isMissing ? `${name}${NOT_INSTALLED} on ${namesOf(places)}` : `${name} on ${namesOf(places)}: ${problem}`,
    cure,
  )
}

const describe = (name: string, agent: WorkerAgent | undefined): string =>
  agent?.version === undefined ? name : `${name} ${agent.version}`

const namesOf = (places: readonly RunPlace[]): string => places.map(({ name }) => name).join(', ')

const NOT_INSTALLED = ' is not installed'

/** A worker's sentence ends with the command that installs the agent. */
const describeMissing = (agent: WorkerAgent | undefined): readonly [string, string?] =>
  splitCure(agent?.problem ?? NOT_INSTALLED, /; (?:install it with|use): /)

/** A worker serves any host, so one agent is enough. */
async function judgeWorker(machine: ExaminedMachine): Promise<readonly Judgement[]> {
  const agents = await machine.agents()
  const found = AGENT_PROVIDERS.filter((provider) => agents[provider]?.found === true)
  if (found.length > 0)
    return [ok(found.map((provider) => describe(agentName(provider), agents[provider])).join(', '))]
  return [fail('no agent is installed', describeMissing(agents[AGENT_PROVIDERS[0] ?? 'agentA'])[1])]
}
