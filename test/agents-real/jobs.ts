/** Jobs like those of a host, for a repository of the local code host. */
import type { AgentJob } from '../../protocol/frames.ts'

export const REMOTE = 'acme/greeter'

export interface JobOrder {
  readonly agent: AgentJob['agent']
  readonly credential: NonNullable<AgentJob['credentials']['agent']>
  readonly description: string
}

let tickets = 0
export function jobFor(code: string, { agent, credential, description }: JobOrder): AgentJob {
  tickets += 1
  const at = new Date().toISOString()
  const identifier = `GREET-${tickets}`
  const ticket = {
    id: `ticket-${tickets}`,
    identifier,
    title: 'Greet',
    description,
    url: '',
    state: 'todo',
    priority: 0 as const,
    labels: [],
    blockedBy: [],
    createdAt: at,
    updatedAt: at,
  }
  return {
    kind: 'run',
    run: { id: `run-${tickets}`, ticket, status: 'preparing', sandbox: {}, createdAt: at, costs: [] },
    repo: { key: 'greeter', remote: REMOTE, defaultBranch: 'main' },
    branch: `switchyard/${identifier.toLowerCase()}`,
    base: 'main',
    agent,
    credentials: { agent: credential },
    codehost: { driver: 'local', path: code },
    sandbox: {
      network: 'allowlist',
      allowedHosts: [],
      maxProcesses: 512,
      exposeCodehostToken: false,
    },
    limits: {},
    retentionHours: 1,
  }
}
