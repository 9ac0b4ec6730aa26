/** Words about a worker for commands and pages: its situation, slots, platform, version, agents, who drains it. */
import type { DrainHolder, WorkerView } from '../protocol/worker.ts'

/** The word for a worker's situation: an absent worker is offline, draining or not. */
export const stateOf = ({ connection, state }: WorkerView): string => {
  if (connection === 'offline') return 'offline'
  return state === 'draining' ? 'draining' : 'online'
}

export const slotsOf = ({ connection, activeRuns, capabilities }: WorkerView): string =>
  connection === 'offline' || capabilities === undefined
    ? '-'
    : `${activeRuns}/${capabilities.maxConcurrency}`

export const platformOf = ({ capabilities }: WorkerView): string =>
  capabilities === undefined ? '-' : `${capabilities.os} ${capabilities.arch}`

/** `0.1.9 (older)`: the words compare the worker with its host. */
export function describeVersion({ capabilities }: WorkerView, hostVersion: string): string {
  if (capabilities === undefined) return '-'
  const { version } = capabilities
  const difference = version.localeCompare(hostVersion, 'en', { numeric: true })
  if (difference === 0) return version
  return `${version} (${difference < 0 ? 'older' : 'newer'})`
}

/** The wire's names of the agents that a worker can run. */
export function foundAgents({ capabilities }: WorkerView): string[] {
  const agents = Object.entries(capabilities?.agents ?? {})
  return agents.filter(([, agent]) => agent.found).map(([provider]) => provider)
}

const HOLDERS: Readonly<Record<DrainHolder, string>> = {
  operator: 'an operator',
  worker: 'worker drain on its machine',
  supervisor: 'its supervisor',
  provision: 'an upgrade by workers provision',
}
/** A host of a newer version may name another one. */
export const holderName = (holder: DrainHolder): string => HOLDERS[holder] ?? holder
