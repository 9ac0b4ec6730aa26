/**
 * Tells whether the agents that the configuration chooses are installed where runs are executed, and whether the host
 * has their credentials.
 */
import { agentName } from '../../../client/agent-names.ts'
import { AGENT_PROVIDERS, AGENTS, type AgentProvider } from '../../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { WorkerAgent, WorkerAgents } from '../../../protocol/worker.ts'
import { loginCure } from '../settings/setting-keys.ts'
import { type Check, fail, type Judgement, ok, splitCure, warn } from './examine.ts'
import type { ExaminedMachine } from './examined-machine.ts'

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

// ---- logins --------------------------------------------------------------------------------------------------------

/**
 * Tells whether the host has a credential for each agent in use, because runs use the host's and not the machine's
 * login.
 *
 * A credential that a run found dead is known from what the host says needs a person.
 */
export const loginsCheck: Check = {
  id: 'logins',
  places: ['host'],
  async judge(machine) {
    const config = await machine.config()
    if (!config.ok) return []
    const refused = await refusedLogins(machine)
    if (refused.length > 0) return refused
    return await Promise.all(
      agentsInUse(config.value).map((provider) => judge(machine, config.value, provider)),
    )
  },
}

async function refusedLogins(machine: ExaminedMachine): Promise<readonly Judgement[]> {
  const host = await machine.host()
  if (host.is !== 'running') return []
  const items = host.attention.filter(({ kind }) => kind === 'login')
  return items.map(({ message, cure }) => fail(message, cure))
}

async function judge(
  machine: ExaminedMachine,
  { agent }: ServiceConfig,
  provider: AgentProvider,
): Promise<Judgement> {
  const name = agentName(provider)
  if (AGENTS[provider].credentials.some(({ field }) => (agent[field] ?? '') !== ''))
    return ok(`the host has a credential for ${name}`)
  const found = (await machine.agents())[provider]
  if (found?.loggedIn === true)
    return fail(
      `${name} is logged in on this machine, but the host has no credential`,
      `switchyard connect ${name}`,
    )
  return fail(`${name} is not logged in`, loginCure(provider))
}
