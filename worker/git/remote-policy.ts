/**
 * `RemotePolicy` decides which addresses git may contact outside the sandbox. The policy is the worker's own and comes
 * from its start: a job names addresses, and its author may be able to read less than the worker's user.
 *
 * Folders must lie below an allowed folder. A host must be at a public address and at a usual port, unless it was named
 * at the start. Git then connects to the addresses that were checked, because a second lookup could return others.
 */
import type { Stats } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { isIP, isIPv4 } from 'node:net'
import { isAbsolute, join, relative } from 'node:path'
import type { CodeHost } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { JobCodehost } from '../../protocol/frames.ts'
import {
  type NetworkGitAddress,
  originOf,
  originsOfHostEntry,
  parseGitAddress,
  USUAL_PORTS,
} from '../../protocol/git-address.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { Http, ProxySettings } from '../../providers/http/http-types.ts'
import { selectProxy } from '../../providers/http/proxy-selection.ts'
import {
  isRemotePublicAddress,
  type MayReachAddress,
  makeResolver,
  type ResolveHost,
} from '../sandbox/egress/connect.ts'
import { withoutUser } from './resolve-remote.ts'

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

// ---- the code host of a job ----------------------------------------------------------------------------------------

/** Lets a job's code host act only while the worker's policy allows its folder or its API address. */
export function guardCodeHost(
  codehost: CodeHost,
  { path, apiUrl }: Pick<JobCodehost, 'path' | 'apiUrl'>,
  policy: RemotePolicy,
): CodeHost {
  const check = async (): Promise<Result<unknown>> => {
    if (path !== undefined) return policy.localRepositories.findFolder(path)
    return apiUrl === undefined ? yes(undefined) : policy.check(`${new URL(apiUrl).origin}/`)
  }
  const guarded = async <T>(act: () => Promise<Result<T>>): Promise<Result<T>> => {
    const checked = await check()
    // The options of the worker forbid the address, and no run can change them.
    return checked.ok ? act() : { ok: false, refusal: { ...checked.refusal, failure: 'configuration' } }
  }
  return {
    gitAddress: (remote) => codehost.gitAddress(remote),
    findPull: (...call) => guarded(() => codehost.findPull(...call)),
    openPull: (...call) => guarded(() => codehost.openPull(...call)),
    hasComment: (...call) => guarded(() => codehost.hasComment(...call)),
    comment: (...call) => guarded(() => codehost.comment(...call)),
    dropRepeats: (...call) => guarded(() => codehost.dropRepeats(...call)),
  }
}

/**
 * Keeps requests to `apiUrl` at public addresses, unless the operator named the host: after the check its name may
 * resolve to private ones.
 */
export function guardHttp(http: Http, { apiUrl }: Pick<JobCodehost, 'apiUrl'>, policy: RemotePolicy): Http {
  if (apiUrl === undefined) return http
  if (URL.canParse(apiUrl) && policy.isPrivateHost(new URL(apiUrl))) return http
  return {
    send: (request) => http.send({ ...request, publicOnly: true }),
    close: () => http.close(),
  }
}

// ---- folders of this machine ---------------------------------------------------------------------------------------

interface LocalRepositoryOptions {
  /** Absolute paths. */
  readonly allowedFolders: readonly string[]
  /** The worker's data directory, and the folder of its sandboxes. */
  readonly ownFolders: readonly string[]
}

const NO_LOCAL_REPOSITORIES: LocalRepositoryOptions = { allowedFolders: [], ownFolders: [] }

/** Git looks for the repository of a path at these places, in this order. */
const GIT_DIR_SUFFIXES = ['/.git', '', '.git/.git', '.git']

/**
 * `LocalRepositories` decides which folders of this machine git may use as a remote: those below the folders that the
 * worker was started with.
 *
 * Real paths are compared, so a symbolic link leads nowhere else. The worker's own folders are never allowed: an agent
 * writes to its sandbox, and git would obey a repository there.
 */
class LocalRepositories {
  readonly #options: LocalRepositoryOptions

  constructor(options: LocalRepositoryOptions) {
    this.#options = options
  }

  /** The real path of a folder that the worker may use. */
  async findFolder(path: string): Promise<Result<string>> {
    const real = await realPathOf(path)
    if (real !== undefined && (await this.#isAllowed(real))) return yes(real)
    if (real === undefined && (await this.#isAllowed(path)))
      return no('unknown', `${printable(path)} does not exist on this worker; correct remote or cloneUrl`)
    const absent = await this.#absentFolderOf(path)
    if (absent !== undefined)
      return no(
        'unknown',
        `the folder of the repositories, ${printable(absent)}, does not exist on this worker, or the worker may not pass to it; mount it, move it back, or give the worker access`,
      )
    return no(
      'forbidden',
      `${printable(path)} is not below a folder that this worker may use (${await this.#describeAllowed()}); start the worker, or the host for its own worker, with --local-repos and the folder of the repositories`,
    )
  }

  /** The real path of the git directory that git would open for the path. */
  async findGitDir(path: string): Promise<Result<string>> {
    const folder = await this.#findRepositoryFolder(path)
    if (!folder.ok) return folder
    // Git opens `X/.git` for `X`, and a linked worktree takes its configuration from elsewhere.
    const nested = await Promise.all(['.git', 'commondir'].map((name) => statOf(join(folder.value, name))))
    if (nested.every((found) => found === undefined)) return folder
    return no(
      'invalid',
      `${printable(path)} is a linked worktree or has another repository inside; name the main repository instead`,
    )
  }

  /** A sentence for each folder that allows nothing. */
  async findUselessFolders(): Promise<string[]> {
    const own = await this.#ownFolders()
    const checks = this.#options.allowedFolders.map(async (folder) => {
      const real = await realPathOf(folder)
      if (real === undefined) return `${folder} does not exist, or the worker may not pass to it`
      return overlapProblem(real, own)
    })
    return (await Promise.all(checks)).filter((problem) => problem !== undefined)
  }

  async #findRepositoryFolder(path: string): Promise<Result<string>> {
    for (const suffix of GIT_DIR_SUFFIXES) {
      const candidate = suffix.startsWith('/') ? join(path, suffix) : `${path.replace(/\/+$/, '')}${suffix}`
      const found = await statOf(candidate)
      if (found === undefined || (suffix === '' && !(await isGitDir(candidate)))) continue
      const allowed = await this.findFolder(candidate)
      if (!allowed.ok || found.isDirectory()) return allowed
      return no(
        'invalid',
        `${printable(candidate)} is a file that names another repository; name that repository instead`,
      )
    }
    const folder = await this.findFolder(path)
    return folder.ok
      ? no('unknown', `${printable(path)} is no git repository; correct remote or cloneUrl`)
      : folder
  }

  async #isAllowed(real: string): Promise<boolean> {
    const [allowed, own] = [await this.#allowedFolders(), await this.#ownFolders()]
    return allowed.some((folder) => isWithin(real, folder)) && !own.some((folder) => isWithin(real, folder))
  }

  /** Resolved for each question, because a folder may be mounted, moved or replaced while the worker runs. */
  async #allowedFolders(): Promise<string[]> {
    const own = await this.#ownFolders()
    const real = await Promise.all(this.#options.allowedFolders.map(realPathOf))
    return real
      .filter((folder) => folder !== undefined)
      .filter((folder) => overlapProblem(folder, own) === undefined)
  }

  /** The allowed folder of the path, where the folder itself is away, such as a disk that is not mounted. */
  async #absentFolderOf(path: string): Promise<string | undefined> {
    const above = this.#options.allowedFolders.filter((folder) => isWithin(path, folder))
    const real = await Promise.all(above.map(realPathOf))
    return above.find((_, at) => real[at] === undefined)
  }

  async #ownFolders(): Promise<string[]> {
    const { ownFolders } = this.#options
    return Promise.all(ownFolders.map(async (folder) => (await realPathOf(folder)) ?? folder))
  }

  async #describeAllowed(): Promise<string> {
    const allowed = await this.#allowedFolders()
    const useless = await this.findUselessFolders()
    const described =
      allowed.length === 0 ? 'none is allowed' : `allowed: ${allowed.map(printable).join(', ')}`
    return [described, ...useless.map(printable)].join('; ')
  }
}

function overlapProblem(folder: string, own: readonly string[]): string | undefined {
  for (const ownFolder of own) {
    if (isWithin(folder, ownFolder))
      return `${folder} lies in the worker's own folder ${ownFolder}, so nothing there is allowed; name another folder`
    if (isWithin(ownFolder, folder))
      return `${folder} contains the worker's own folder ${ownFolder}, so nothing there is allowed; name a folder that does not`
  }
  return undefined
}

function isWithin(path: string, folder: string): boolean {
  const steps = relative(folder, path)
  return steps === '' || (steps !== '..' && !steps.startsWith('../') && !isAbsolute(steps))
}

async function isGitDir(path: string): Promise<boolean> {
  return (await statOf(join(path, 'HEAD'))) !== undefined
}

function realPathOf(path: string): Promise<string | undefined> {
  return realpath(path).catch(() => undefined)
}

function statOf(path: string): Promise<Stats | undefined> {
  return stat(path).catch(() => undefined)
}
