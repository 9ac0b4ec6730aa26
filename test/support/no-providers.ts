/** Neighbours of a host that has none: nobody gives out credentials, no code host is connected, no bucket is there. */
import type { HostDependencies } from '../../actors/root/create-host.ts'
import { no } from '../../core/result.ts'

const refused = no('invalid', 'there is nobody to ask in this test')

export const noProviders: Pick<HostDependencies, 'accounts' | 'bucket' | 'pulls' | 'port'> = {
  accounts: {
    authorizeTracker: () => refused,
    exchangeTrackerCode: async () => refused,
    refreshTrackerToken: async () => refused,
    checkTracker: async () => refused,
    startDevice: async () => refused,
    pollDevice: async () => refused,
    checkCodehost: async () => refused,
    checkAgent: async () => refused,
    findAgentLogin: async () => refused,
  },
  bucket: {
    status: async () => ({ installed: false, loggedIn: false }),
    login: async () => refused,
    upload: async () => refused,
    stop: () => {},
  },
  pulls: () => no('invalid', 'the code host is not connected'),
  port: () => undefined,
}
