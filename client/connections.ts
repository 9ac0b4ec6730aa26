/** The accounts that a host has connected, read from its masked configuration, its tracker and its storage. */
import { AGENTS } from '../protocol/agents/registry.ts'
import type { ServiceConfig } from '../protocol/config.ts'
import type { ConnectProvider, StorageStatus } from '../protocol/connect.ts'
import type { TrackerStatus } from '../protocol/tracker.ts'

export interface Connection {
  readonly provider: ConnectProvider | 'storage'
  /** `connected`, `not connected`, `local`, or a state of the tracker. */
  readonly state: string
  readonly account: string
}

export interface ConnectionSource {
  readonly config: Pick<ServiceConfig, 'tracker' | 'codehost' | 'agent'>
  readonly tracker: Pick<TrackerStatus, 'state'>
  readonly storage: Pick<StorageStatus, 'ready' | 'account'>
}

export function connectionsOf({ config, tracker, storage }: ConnectionSource): Connection[] {
  const { codehost, agent } = config
  return [
    { provider: 'tracker', state: tracker.state, account: config.tracker.driver },
    {
      provider: 'codehost',
      state: codehost.driver === 'local' ? 'local' : stateOf((codehost.token ?? '') !== ''),
      account: codehost.driver,
    },
    { provider: 'storage', state: stateOf(storage.ready), account: storage.account ?? '-' },
    ...Object.values(AGENTS).map(({ provider, productName, credentials }) => ({
      provider,
      state: stateOf(credentials.some(({ field }) => (agent[field] ?? '') !== '')),
      account: productName,
    })),
  ]
}

const stateOf = (isConnected: boolean) => (isConnected ? 'connected' : 'not connected')
