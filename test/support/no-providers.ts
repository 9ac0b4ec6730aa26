/** Provider ports of a host without providers: no credentials, no code host, no bucket. */
import type { HostDependencies } from '../../actors/root/create-host.ts'
import { no } from '../../core/result.ts'

const refused = no('invalid', 'this test has no providers')

export const noProviders: Pick<HostDependencies, 'accounts' | 'bucket' | 'pulls' | 'parsePullUrl' | 'port'> =
  {
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
      check: async () => refused,
      login: async () => refused,
      upload: async () => refused,
      stop: () => {},
    },
    pulls: () => no('invalid', 'the code host is not connected'),
    parsePullUrl(_, url) {
      const found = /^https:\/\/[\w.-]+\/([^/]+\/[^/]+)\/pull\/(\d{1,9})$/.exec(url)
      return found?.[1] === undefined ? undefined : { remote: found[1], number: Number(found[2]) }
    },
    port: () => undefined,
  }
