/**
 * `RegistryHosts` derives the hosts of package registries from the lock files of a repository.
 *
 * A lock file's own addresses replace the usual registry: a repository that uses a private one does not want the public
 * one. A manifest without a lock file stands for the usual registry, because its packages could not be installed
 * otherwise, and nobody who writes a manifest chooses that host. Only public https hosts at port 443 count.
 */
import { NETWORK_HOSTS_DERIVED_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { isHostName } from '../sandbox/egress/policy.ts'
import { COMPANIONS, REGISTRY_FILES, type RegistryFile } from './ecosystems.ts'

export interface ReachableHost {
  /** A name, with a port unless it is 443. */
  readonly host: string
  /** Says why it is allowed: the path of a file, or "code host". */
  readonly from: string
}

export interface ReachableHosts {
  readonly hosts: readonly ReachableHost[]
  /** Sentences about what does not count. */
  readonly leftOut: readonly string[]
}

const LEFT_OUT_MAX = 5
/** Packages that a repository contains are installed already. */
const COPIED_PACKAGES = /(^|\/)(node_modules|vendor|third_party)\//

/** The file's description, when the file tells where packages come from. */
export function registryFileOf(path: string): RegistryFile | undefined {
  if (COPIED_PACKAGES.test(path)) return undefined
  const name = path.slice(path.lastIndexOf('/') + 1)
  return REGISTRY_FILES.find((file) => file.path.test(name))
}

interface SeenFile {
  readonly path: string
  readonly file: RegistryFile
  readonly named: readonly string[]
  readonly usesUsual: boolean
}

export class RegistryHosts {
  readonly #seen: SeenFile[] = []

  add(path: string, text: string): void {
    const file = registryFileOf(path)
    if (file === undefined) return
    const named = [...new Set(file.named?.(text) ?? [])]
    const usesUsual = named.length === 0 || file.usesUsual?.(text) === true
    this.#seen.push({ path, file, named, usesUsual })
  }

  /** @param codeHost the addresses of the code host, which the configuration names */
  derive(codeHost: readonly string[] = []): ReachableHosts {
    const derived = new DerivedHosts()
    for (const ecosystem of new Set(this.#seen.map(({ file }) => file.ecosystem)))
      deriveFrom(
        this.#seen.filter(({ file }) => file.ecosystem === ecosystem),
        derived,
      )
    for (const address of codeHost) derived.addCodeHost(address)
    return derived.result()
  }
}

function deriveFrom(seen: readonly SeenFile[], derived: DerivedHosts): void {
  const withRole = (role: RegistryFile['role']) => seen.filter(({ file }) => file.role === role)
  const settings = withRole('settings').filter(({ named }) => named.length > 0)
  for (const { path, named } of settings) for (const address of named) derived.addAddress(address, path)
  const locks = withRole('lock')
  for (const { path, file, named, usesUsual } of locks.length > 0
    ? locks
    : withRole('manifest').slice(0, 1)) {
    for (const address of named) derived.addAddress(address, path)
    if (usesUsual && settings.length === 0) for (const host of file.usual) derived.addHost(host, path)
  }
}

class DerivedHosts {
  readonly #hosts = new Map<string, string>()
  readonly #leftOut = new Set<string>()

  addAddress(address: string, from: string): void {
    const url = URL.canParse(address) ? new URL(address) : undefined
    const isUsable = url?.protocol === 'https:' && url.port === '' && isHostName(url.hostname)
    if (isUsable) this.addHost(url.hostname, from)
    else this.#leftOut.add(`${printable(from)} names ${shorten(url?.host ?? address)}, ${UNUSABLE}`)
  }

  /** Any port, because a person has named it. An address of another kind needs no network of the sandbox. */
  addCodeHost(address: string): void {
    const url = URL.canParse(address) ? new URL(address) : undefined
    if (url?.protocol === 'https:') this.addHost(url.host, 'code host')
  }

  addHost(host: string, from: string): void {
    if (this.#hosts.has(host)) return
    if (this.#hosts.size >= NETWORK_HOSTS_DERIVED_MAX) {
      this.#leftOut.add(`more hosts than ${NETWORK_HOSTS_DERIVED_MAX} are named; ${CURE}`)
      return
    }
    this.#hosts.set(host, from)
    for (const companion of COMPANIONS[host] ?? []) this.addHost(companion, from)
  }

  result(): ReachableHosts {
    const hosts = [...this.#hosts].map(([host, from]): ReachableHost => ({ host, from }))
    return { hosts, leftOut: [...this.#leftOut].slice(0, LEFT_OUT_MAX) }
  }
}

const CURE = 'name those that sandboxes need in sandbox.allowedHosts'
const UNUSABLE = `which is no public https host at port 443; ${CURE}`
const HOST_CHARS_MAX = 100

function shorten(host: string): string {
  return printable(host).slice(0, HOST_CHARS_MAX)
}

/** The entries for the network policy. */
export function entriesOf(hosts: readonly ReachableHost[]): string[] {
  return hosts.map(({ host }) => (host.includes(':') ? host : `${host}:443`))
}

const withoutUsualPort = (host: string): string => host.replace(/:443$/, '')

/** Makes one line for the run's log. */
export function describeReachable(hosts: readonly ReachableHost[], allowed: readonly string[]): string {
  const sources = new Map<string, string[]>()
  for (const { host, from } of hosts) sources.set(from, [...(sources.get(from) ?? []), host])
  const derived = [...sources].map(
    ([from, names]) => `${names.map(withoutUsualPort).join(', ')} (${shorten(from)})`,
  )
  const named = allowed.length === 0 ? [] : [`${allowed.join(', ')} (sandbox.allowedHosts)`]
  const all = [...derived, ...named]
  return `network: may reach ${all.length === 0 ? 'no host' : all.join(', ')}`
}
