/** Provider ports of a host without providers: no credentials, no code host, no bucket. */
import type { HostDependencies } from '../../actors/root/create-host.ts'
import { no } from '../../core/result.ts'

const refused = no('invalid', 'this test has no providers')

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
