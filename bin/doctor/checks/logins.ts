/**
 * Tells whether the host has a credential for each agent in use, because runs use the host's and not the machine's login.
 *
 * A credential that a run found dead is known from what the host says needs a person.
 */

import { agentName } from '../../../client/agent-names.ts'
import { AGENTS, type AgentProvider } from '../../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { ExaminedMachine } from '../examined-machine.ts'
import { type Check, fail, type Judgement, ok } from '../finding.ts'
import { agentsInUse } from './agents.ts'

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
    return fail(`${name} is logged in on this machine, but the host has no credential`, giveToHost(provider))
  return fail(`${name} is not logged in`, `${AGENTS[provider].loginCommand}, then ${giveToHost(provider)}`)
}

/** The host takes over a whole login; what the other commands print is given by hand. */
function giveToHost(provider: AgentProvider): string {
  const { credentials } = AGENTS[provider]
  const byHand = credentials.find(({ isGivenByHand }) => isGivenByHand === true)
  const hasLogin = credentials.some(({ kind }) => kind === 'login')
  return hasLogin || byHand === undefined
    ? `switchyard connect ${provider}`
    : `switchyard config set agent.${byHand.field}`
}
