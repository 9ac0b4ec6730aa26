/** The settings whose change gives power over the machine, and what each of them decides. */

interface PowerfulKey {
  /** As people write it; `*` stands for the key of a repository. */
  readonly key: string
  /** The end of a sentence that begins with the key. */
  readonly decides: string
}

const DESCRIBED_KEYS_MAX = 5
const SCRIPTS = 'which commands run in its sandboxes'

export const POWERFUL_KEYS: readonly PowerfulKey[] = [
  { key: 'repos.*.cloneUrl', decides: 'where its code comes from and is pushed to' },
  { key: 'repos.*.setup', decides: SCRIPTS },
  { key: 'repos.*.hooks', decides: SCRIPTS },
  { key: 'repos.*.verify', decides: SCRIPTS },
  { key: 'repos.*.image', decides: 'which image its runs execute in' },
  { key: 'codehost.path', decides: 'in which folder of this machine repositories are read and written' },
  { key: 'tracker.path', decides: 'in which folder of this machine tickets are read and written' },
  { key: 'codehost.apiUrl', decides: 'which server is the code host' },
  { key: 'tracker.apiUrl', decides: 'which server is the tracker' },
  { key: 'connect.apiBase', decides: 'through which server accounts are connected' },
  { key: 'agent.commands', decides: 'which programs run as agents' },
  { key: 'agent.maxCostUsd', decides: 'how much a run may cost' },
  { key: 'agent.serverTools', decides: 'what a model’s vendor does and fetches for agents' },
  { key: 'agent.models', decides: 'which models agents may ask' },
  { key: 'agent.prices', decides: 'what the money that a run may spend is counted by' },
  { key: 'sandbox.exposeCodehostToken', decides: 'whether agents can read the token of the code host' },
  { key: 'sandbox.network', decides: 'what a sandbox can reach' },
  { key: 'sandbox.allowedHosts', decides: 'which hosts a sandbox can reach' },
  { key: 'server.allowedOrigins', decides: 'which web pages may call this service' },
  { key: 'notify', decides: 'which commands and addresses hear of events' },
]

/** A sentence without its full stop: `repos.web.setup decides which commands run in its sandboxes`. */
export function describePower(keys: readonly string[]): string {
  const named = keys.slice(0, DESCRIBED_KEYS_MAX).map((key) => `${key} decides ${decisionOf(key)}`)
  const others = keys.length - named.length
  return [...named, ...(others === 0 ? [] : [`${others} more keys decide the like`])].join(', and ')
}

/** Such as `which commands run in its sandboxes`, for a key with the name of its repository. */
export function decisionOf(key: string): string {
  const isSame = (pattern: string) => {
    const [start = '', end] = pattern.split('*')
    return end === undefined ? key === pattern : key.startsWith(start) && key.endsWith(end)
  }
  return POWERFUL_KEYS.find(({ key: pattern }) => isSame(pattern))?.decides ?? 'what this machine does'
}
