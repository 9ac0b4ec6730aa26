/** Every setting, and whether its change gives power over the machine, over money or over whose words are obeyed. */

interface PowerfulKey {
  /** As people write it; `*` stands for the key of a repository. */
  readonly key: string
  /** The end of a sentence that begins with the key. */
  readonly decides: string
  /** The changes that give power; absent: all of them. */
  readonly only?: string
}

const DESCRIBED_KEYS_MAX = 5
const WIDER = 'a wider value'

export const POWERFUL_KEYS: readonly PowerfulKey[] = [
  {
    key: 'repos.*.remote',
    decides: 'to which repository its work is pushed',
    only: 'while the repository has unfinished runs or open pull requests of ours',
  },
  { key: 'repos.*.cloneUrl', decides: 'where its code comes from and is pushed to' },
  { key: 'repos.*.setup', decides: 'which commands run in its sandboxes' },
  { key: 'repos.*.instructions', decides: 'what its agents are told as the operator’s word' },
  { key: 'repos.*.allowWorkflows', decides: 'whether changed CI definitions are pushed', only: WIDER },
  { key: 'repos.*.orders', decides: 'whose comments a follow-up obeys', only: 'anything but fewer logins' },
  { key: 'codehost.driver', decides: 'which kind of code host is used' },
  { key: 'codehost.path', decides: 'in which folder of this machine repositories are read and written' },
  { key: 'codehost.apiUrl', decides: 'which server is the code host' },
  { key: 'tracker.driver', decides: 'which kind of tracker is used' },
  { key: 'tracker.path', decides: 'in which folder of this machine tickets are read and written' },
  { key: 'tracker.apiUrl', decides: 'which server is the tracker' },
  { key: 'connect.apiBase', decides: 'through which server accounts are connected' },
  { key: 'agent.commands', decides: 'which programs run as agents' },
  { key: 'agent.keyInSandbox', decides: 'whether agents hold the account’s key', only: WIDER },
  { key: 'agent.maxCostUsd', decides: 'how much a run may cost', only: 'a higher limit, or none' },
  { key: 'agent.serverTools', decides: 'what a model’s vendor does and fetches for agents', only: WIDER },
  { key: 'agent.models', decides: 'which models agents may ask', only: WIDER },
  { key: 'agent.prices', decides: 'what the money that a run may spend is counted by' },
  { key: 'sandbox.exposeCodehostToken', decides: 'whether agents can read the token of the code host' },
  { key: 'sandbox.network', decides: 'what a sandbox can reach', only: WIDER },
  { key: 'sandbox.allowedHosts', decides: 'which hosts a sandbox can reach', only: WIDER },
  { key: 'server.allowedOrigins', decides: 'which web pages may call this service' },
  { key: 'fleet.publicUrl', decides: 'at which address other machines find this host' },
  { key: 'fleet.insecure', decides: 'whether other machines may connect without encryption' },
]

/** Settings whose change gives no such power. A test fails for a setting that is in neither list. */
export const OTHER_KEYS: readonly string[] = [
  'server.host',
  'server.port',
  'fleet.host',
  'fleet.port',
  'fleet.tls',
  'fleet.heartbeatTimeoutSeconds',
  'fleet.reconnectGraceSeconds',
  'fleet.ephemeralSeconds',
  'sandbox.provider',
  'sandbox.concurrency',
  'sandbox.retentionHours',
  'sandbox.memoryMib',
  'sandbox.maxProcesses',
  'sandbox.maxRunMinutes',
  'sandbox.maxLogMib',
  'sandbox.maxArtifactsMib',
  'sandbox.diskQuotaGib',
  'agent.provider',
  'agent.orchestratorModel',
  'agent.orchestratorEffort',
  'agent.maxTurns',
  'agent.agentAApiKey',
  'agent.agentAOauthToken',
  'agent.agentBApiKey',
  'agent.agentBLogin',
  'agent.agentCApiKey',
  'agent.agentCLogin',
  'tracker.apiKey',
  'tracker.refreshToken',
  'tracker.tokenExpiresAt',
  'tracker.pollSeconds',
  'tracker.eligible.states',
  'tracker.eligible.labels',
  'tracker.eligible.projects',
  'tracker.eligible.assignees',
  'tracker.startedState',
  'tracker.reviewState',
  'tracker.doneState',
  'tracker.releasedState',
  'tracker.whenTicketLeaves',
  'codehost.token',
  'storage.bucket',
  'storage.publicBaseUrl',
  'storage.token',
  'repos.*.defaultBranch',
  'repos.*.trackerProject',
  'repos.*.label',
  'repos.*.agent',
  'repos.*.draftPulls',
  'connect.codehostClientId',
  'connect.trackerClientId',
  'connect.trackerClientSecret',
  'worker.local',
  'policy.paused',
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
