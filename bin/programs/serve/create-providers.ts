/**
 * Creates the host's providers (tracker, code host, accounts, bucket) on one HTTP client.
 */
import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import type { ProvisioningDependencies } from '../../../actors/host-context.ts'
import type { HostDependencies } from '../../../actors/root/create-host.ts'
import { hostUserMark } from '../../../client/peer-owner.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import { AGENT_PROVIDERS, type AgentProvider } from '../../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { createAccounts } from '../../../providers/accounts/accounts.ts'
import { createPullHost, parsePullUrl } from '../../../providers/codehost/registry.ts'
import { HttpClientPool } from '../../../providers/http/client-pool.ts'
import { createHttp } from '../../../providers/http/http.ts'
import { createSsh } from '../../../providers/ssh.ts'
import { createWranglerBucket } from '../../../providers/storage.ts'
import { createTracker } from '../../../providers/tracker/registry.ts'
import { createWorkerFiles } from '../../../providers/worker-files.ts'
import { realRandom } from '../../process/clock.ts'
import { unwrapOrExit } from '../../process/exit.ts'
import { readNetwork } from '../../process/network.ts'
import { VERSION } from '../../process/this-program.ts'

export interface HostProviderOptions {
  readonly dataDir: string
  readonly clock: Clock
  readonly log: Log
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly inheritable: () => readonly number[]
  /** Whether this host still owns its data directory; providers get nothing from a host that does not. */
  readonly maySend: () => boolean
}

export type HostProviders = Pick<
  HostDependencies,
  'tracker' | 'accounts' | 'bucket' | 'pulls' | 'parsePullUrl'
> & {
  readonly provisioning: Omit<ProvisioningDependencies, 'fleetPort'>
  /** Aborts all requests and ends all child processes. */
  close(): Promise<void>
}

export function createHostProviders({
  dataDir,
  clock,
  log,
  environment,
  inheritable,
  maySend,
}: HostProviderOptions): HostProviders {
  const network = unwrapOrExit(readNetwork(environment))
  const random = realRandom
  const http = createHttp({ clock, random, maySend, ...network })
  const end = new AbortController()
  const clients = new HttpClientPool({ http, clock, random, log })
  const bucket = createWranglerBucket({
    environment,
    clock,
    log,
    tempFolder: join(dataDir, 'uploads'),
    inheritable,
  })
  return {
    tracker: (config: ServiceConfig) => createTracker(config, { clock, log, clients, maySend }),
    pulls: (config: ServiceConfig) => createPullHost(config, { clients, clock, log }),
    parsePullUrl,
    accounts: createAccounts({
      http,
      clients,
      clock,
      random,
      environment,
      inheritable,
      stopSignal: end.signal,
      uid: process.geteuid?.() ?? 0,
      baseUrls: readBaseUrls(environment),
    }),
    bucket,
    provisioning: {
      machines: createSsh({ clock, environment, home: homedir(), uid: process.geteuid?.() ?? 0 }),
      files: createWorkerFiles({ packageFolder: packageFolder(), version: VERSION }),
      ...hostUserMark(),
    },
    async close() {
      end.abort()
      bucket.stop()
      clients.close()
      await http.close()
    },
  }
}

/**
 * The addresses at which agents' keys are verified. The vendors' own environment variables are ignored: workers ignore
 * them too, and a pasted key must not be sent to a gateway.
 */
function readBaseUrls(
  environment: HostProviderOptions['environment'],
): Partial<Record<AgentProvider, string>> {
  const set = AGENT_PROVIDERS.flatMap((provider) => {
    const base = environment[`SWITCHYARD_AGENT_${provider.slice(-1)}_URL`] ?? ''
    return base === '' ? [] : [[provider, base.replace(/\/+$/, '')] as const]
  })
  return Object.fromEntries(set)
}

/** Beside the folder of this program: `dist/worker-package/` of a checkout and of the installed package. */
const packageFolder = (): string =>
  join(dirname(dirname(realpathSync(process.argv[1] ?? ''))), 'worker-package')
