/**
 * `RemotePolicy` decides which addresses git may contact outside the sandbox. The policy is the worker's own and comes
 * from its start: a job names addresses, and its author may be able to read less than the worker's user.
 *
 * Folders must lie below an allowed folder. A host must be at a public address and at a usual port, unless it was named
 * at the start. Git then connects to the addresses that were checked, because a second lookup could return others.
 */
import { isIP, isIPv4 } from 'node:net'
import { no, type Result, yes } from '../../core/result.ts'
import {
  type NetworkGitAddress,
  originOf,
  originsOfHostEntry,
  parseGitAddress,
  USUAL_PORTS,
} from '../../protocol/git-address.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { ProxySettings } from '../../providers/http/http-types.ts'
import { selectProxy } from '../../providers/http/proxy-selection.ts'
import {
  isRemotePublicAddress,
  type MayReachAddress,
  makeResolver,
  type ResolveHost,
} from '../sandbox/egress/connect.ts'
import { withoutUser } from './address.ts'
import {
  LocalRepositories,
  type LocalRepositoryOptions,
  NO_LOCAL_REPOSITORIES,
} from './local-repositories.ts'

/** How git reaches an address that the policy allows. */
export type RemoteAccess =
  | { readonly protocol: 'file'; readonly gitDir: string }
  | (NetworkGitAddress & {
      /** Git connects to these addresses only. Absent: git resolves the name itself. */
      readonly addresses?: readonly string[]
    })

export interface RemotePolicyOptions {
  readonly localRepositories?: LocalRepositoryOptions
  /** Code hosts that may be at a private address or an unusual port: `host` or `host:port`. */
  readonly privateHosts?: readonly string[]
  readonly proxies?: ProxySettings
  readonly resolve?: ResolveHost
  readonly mayReach?: MayReachAddress
}

const PRIVATE_HOST_OPTION = '--private-code-host'

export class RemotePolicy {
  readonly localRepositories: LocalRepositories
  readonly #privateHosts: ReadonlySet<string>
  readonly #proxies: ProxySettings | undefined
  readonly #resolve: ResolveHost
  readonly #mayReach: MayReachAddress

  constructor(options: RemotePolicyOptions = {}) {
    this.localRepositories = new LocalRepositories(options.localRepositories ?? NO_LOCAL_REPOSITORIES)
    this.#privateHosts = new Set(options.privateHosts?.flatMap(originsOfHostEntry))
    this.#proxies = options.proxies
    this.#resolve = options.resolve ?? makeResolver()
    this.#mayReach = options.mayReach ?? isRemotePublicAddress
  }

  /** Refuses with `unavailable` when the name could not be resolved, and with another kind for good. */
  async check(address: string): Promise<Result<RemoteAccess>> {
    const parsed = parseGitAddress(address)
    if (!parsed.ok) return no('invalid', `${quote(address)} ${parsed.error} (repos.*.cloneUrl)`)
    if (parsed.value.protocol !== 'file') return this.#checkNetwork(parsed.value)
    const gitDir = await this.localRepositories.findGitDir(parsed.value.path)
    return gitDir.ok ? yes({ protocol: 'file', gitDir: gitDir.value }) : gitDir
  }

  /** Whether the operator named the host and port of the URL. */
  isPrivateHost(url: URL): boolean {
    const parsed = parseGitAddress(`${url.origin}/`)
    if (!parsed.ok || parsed.value.protocol === 'file') return false
    return this.#privateHosts.has(originOf(parsed.value.host, parsed.value.port))
  }

  async #checkNetwork(target: NetworkGitAddress): Promise<Result<RemoteAccess>> {
    const { host, port } = target
    if (this.#privateHosts.has(originOf(host, port))) return yes(target)
    if (!USUAL_PORTS.includes(port))
      return refuse(target, `git contacts only ports ${USUAL_PORTS.join(', ')}`)
    if (isIP(host) !== 0) return this.#mayReach(host, port) ? yes(target) : refuse(target, NOT_PUBLIC)
    // A word without a dot is a host of the local network.
    if (!host.includes('.') || host.endsWith('.localhost')) return refuse(target, NOT_PUBLIC)
    return this.#checkResolved(target)
  }

  async #checkResolved(target: NetworkGitAddress): Promise<Result<RemoteAccess>> {
    const { host, port } = target
    const addresses = await this.#resolve(host).catch(() => [])
    if (addresses.length > 0) {
      const isAllowed = addresses.every((address) => this.#mayReach(address, port))
      return isAllowed ? yes({ ...target, addresses: sortIpv4First(addresses) }) : refuse(target, NOT_PUBLIC)
    }
    // Behind a proxy, names may resolve only there; the proxy then decides what it connects to.
    return this.#hasProxy(target) ? yes(target) : refuseUnresolved(target)
  }

  #hasProxy({ protocol, host, port }: NetworkGitAddress): boolean {
    if (protocol === 'ssh') return false
    const proxy = selectProxy(new URL(`${protocol}://${host}:${port}/`), this.#proxies)
    return proxy.ok && proxy.value !== undefined
  }
}

const NOT_PUBLIC = 'it is not at a public address'

function refuse({ host, port }: NetworkGitAddress, reason: string): Result<never> {
  const origin = originOf(host, port)
  return no(
    'forbidden',
    `this worker does not let git contact ${origin}: ${reason}; if this is your code host, ${cureFor(origin)}`,
  )
}

/** Only the name servers are asked, so an alias of ssh or a name in /etc/hosts is not found. */
function refuseUnresolved({ host, port }: NetworkGitAddress): Result<never> {
  const cure = cureFor(originOf(host, port))
  return no('unavailable', `Could not resolve host: ${host}; if only this machine knows the name, ${cure}`)
}

function cureFor(origin: string): string {
  return `start the worker, or the host for its own worker, with ${PRIVATE_HOST_OPTION} ${origin}`
}

/** A missing protocol fails at once, but a broken one, usually IPv6, would cost a timeout. */
function sortIpv4First(addresses: readonly string[]): string[] {
  return [...addresses].sort((a, b) => Number(isIPv4(b)) - Number(isIPv4(a)))
}

function quote(address: string): string {
  return printable(withoutUser(address)).slice(0, 200)
}
