/** Neighbours of a host that has none: nobody gives out credentials, no code host is connected, no bucket is there. */
import type { HostDependencies } from '../../actors/root/create-host.ts'
import { no } from '../../core/result.ts'

const nobody = no('invalid', 'there is nobody to ask in this test')

export const noNeighbours: Pick<HostDependencies, 'accounts' | 'bucket' | 'pulls' | 'port'> = {
  accounts: {
    authorizeTracker: () => nobody,
    exchangeTrackerCode: async () => nobody,
    refreshTrackerToken: async () => nobody,
    checkTracker: async () => nobody,
    startDevice: async () => nobody,
    pollDevice: async () => nobody,
    checkCodehost: async () => nobody,
    checkAgent: async () => nobody,
    findAgentLogin: async () => nobody,
  },
  bucket: {
    status: async () => ({ installed: false, loggedIn: false }),
    login: async () => nobody,
    upload: async () => nobody,
    stop: () => {},
  },
  pulls: () => no('invalid', 'the code host is not connected'),
  port: () => undefined,
}
