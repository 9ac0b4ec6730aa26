/**
 * Reads dotted keys, like `repos.api.setup`, from a command line, and tells which settings are secrets.
 *
 * The key of a repository may hold dots itself, so a part of a key is the longest one that the configuration has.
 */
import { agentName, providerNamed } from '../../../client/agent-names.ts'
import {
  CREDENTIALS_BY_FLOW,
  CREDENTIALS_BY_HAND,
  type CredentialRequestField,
  KEY_SETTINGS,
} from '../../../client/settings.ts'
import { AGENTS } from '../../../protocol/agents/registry.ts'
import { usageError } from '../../process/exit.ts'

/** Splits a key along the configuration as it is; parts that are not there end at the next dot. */
export function splitKey(config: unknown, key: string): string[] {
  const words = key.split('.')
  if (words.some((word) => word === ''))
    throw usageError(`${key} is no key of a setting`, 'switchyard config get')
  const parts: string[] = []
  let value = config
  for (let at = 0; at < words.length; ) {
    const [part, count] = longestPart(value, words.slice(at))
    parts.push(part)
    value = Reflect.get(Object(value), part)
    at += count
  }
  return parts.map((part, at) => (isAgentCommand(parts, at) ? (providerNamed(part) ?? part) : part))
}

/** `agent.commands.claude` is `agent.commands.agentA` in the configuration. */
const isAgentCommand = (parts: readonly string[], at: number): boolean =>
  at === 2 && parts[0] === 'agent' && parts[1] === 'commands'

function longestPart(value: unknown, words: readonly string[]): [part: string, count: number] {
  for (let count = words.length; count > 1; count -= 1) {
    const part = words.slice(0, count).join('.')
    if (Object.hasOwn(Object(value), part)) return [part, count]
  }
  return [words[0] ?? '', 1]
}

/** The host takes over the login of an agent on its machine. */
export function loginCure(provider: string): string {
  const agent = Object.values(AGENTS).find((each) => each.provider === provider)
  const connect = `switchyard connect ${agentName(provider)}`
  return agent === undefined ? connect : `${agent.loginCommand}, then ${connect}`
}

export type SettingKind =
  | { readonly is: 'plain' }
  | { readonly is: 'secret' }
  | { readonly is: 'credential'; readonly field: CredentialRequestField }

/** Throws for a secret that nobody sets by hand. */
export function kindOfSetting(key: string): SettingKind {
  const field = CREDENTIALS_BY_HAND[key]
  if (field !== undefined) return { is: 'credential', field }
  const provider = CREDENTIALS_BY_FLOW[key]
  if (provider !== undefined)
    throw usageError(
      `${key} is written by connecting an account`,
      KEY_SETTINGS[provider] === undefined
        ? loginCure(provider)
        : `switchyard connect ${agentName(provider)}`,
    )
  return { is: key === 'connect.trackerClientSecret' ? 'secret' : 'plain' }
}
