/**
 * `RegistryHosts` derives the hosts of package registries from the lock files of a repository.
 *
 * A lock file's own addresses replace the usual registry: a repository that uses a private one does not want the public
 * one. A manifest without a lock file stands for the usual registry, because its packages could not be installed
 * otherwise, and nobody who writes a manifest chooses that host. Only public https hosts at port 443 count.
 */
import { printable } from '../../protocol/schema-errors.ts'
import { isHostName } from '../sandbox/egress/policy.ts'

/** Hosts that lock files may add to `sandbox.allowedHosts`. */
export const NETWORK_HOSTS_DERIVED_MAX = 40

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

/** The entries for the network policy. */
export function entriesOf(hosts: readonly ReachableHost[]): string[] {
  return hosts.map(({ host }) => (host.includes(':') ? host : `${host}:443`))
}

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

// ---- deriving ------------------------------------------------------------------------------------------------------

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

/** Hosts that answer with addresses of another. */
const COMPANIONS: Readonly<Record<string, readonly string[]>> = {
  'registry.yarnpkg.com': ['registry.npmjs.org', 'repo.yarnpkg.com'],
  'pypi.org': ['files.pythonhosted.org'],
  'rubygems.org': ['index.rubygems.org'],
  'services.gradle.org': ['downloads.gradle.org'],
  'github.com': ['codeload.github.com'],
  'api.github.com': ['codeload.github.com'],
}

const CURE = 'name those that sandboxes need in sandbox.allowedHosts'
const UNUSABLE = `which is no public https host at port 443; ${CURE}`
const HOST_CHARS_MAX = 100

function shorten(host: string): string {
  return printable(host).slice(0, HOST_CHARS_MAX)
}

const withoutUsualPort = (host: string): string => host.replace(/:443$/, '')

// ---- the files by which a repository tells where its packages come from --------------------------------------------

// Lock files and settings name hosts; manifests name packages only. Patterns find addresses in text, because a lock
// file in a new version should still be read, and a wrong guess only allows one host too few. No pattern takes more than
// linear time, because a file may be made to take long.

interface RegistryFile {
  readonly ecosystem: string
  /** Matches the path. */
  readonly path: RegExp
  /** A `manifest` counts where the ecosystem has no lock file; `settings` name its registry in place of the usual one. */
  readonly role: 'lock' | 'manifest' | 'settings'
  /** The hosts that its programs contact unless a file names another. */
  readonly usual: readonly string[]
  /** Finds the addresses that the file names. */
  readonly named?: (text: string) => Iterable<string>
  /** Whether packages come from the usual registry too. Absent: only when the file names no address. */
  readonly usesUsual?: (text: string) => boolean
}

const NPM = ['registry.npmjs.org']
const YARN = ['registry.yarnpkg.com', 'registry.npmjs.org']
const CRATES = ['index.crates.io', 'static.crates.io']
const PYPI = ['pypi.org', 'files.pythonhosted.org']
const GO = ['proxy.golang.org', 'sum.golang.org']
const GEMS = ['rubygems.org', 'index.rubygems.org']
const PACKAGIST = ['repo.packagist.org']
const HEX = ['repo.hex.pm']
const MAVEN = ['repo.maven.apache.org']

/** Newer versions of cargo read this index elsewhere, and all versions load the packages elsewhere. */
const CRATES_INDEX = 'github.com/rust-lang/crates.io-index'

const REGISTRY_FILES: readonly RegistryFile[] = [
  // ---- npm and its relatives
  lock('npm', /^(package-lock|npm-shrinkwrap)\.json$/, NPM, {
    named: (text) => [
      ...found(text, /"resolved"\s*:\s*"(https?:[^"\s]+)"/g),
      ...found(text, /"resolved"\s*:\s*"git\+(?:ssh|https):\/\/(?:[^@"/]*@)?([^"/:]+)/g).map(toAddress),
    ],
  }),
  lock('npm', /^yarn\.lock$/, YARN, {
    named: (text) => [
      ...found(text, /^ +resolved "(https?:[^"\s]+)"/gm).flatMap(withYarnRegistry),
      ...found(text, /^ +resolution: "[^"]*?@(https?:[^"\s@]+)"/gm),
      ...found(text, /__archiveUrl=(https?%3A[^"&\s]+)/g).map(decoded),
    ],
    usesUsual: (text) => /^ +resolution: "[^"]*?@npm:[^:"]*"/m.test(text),
  }),
  lock('npm', /^pnpm-lock\.yaml$/, NPM, {
    named: (text) => found(text, /\btarball:\s*['"]?(https?:[^'",}\s]+)/g),
    usesUsual: (text) => /\bresolution: \{integrity: [^,{}]+\}/.test(text),
  }),
  lock('npm', /^bun\.lock$/, NPM, {
    named: (text) => found(text, /"(https?:[^"\s]+)"/g),
    usesUsual: (text) => /\["[^"]+",\s*"",/.test(text),
  }),
  lock('npm', /^bun\.lockb$/, NPM),
  settings('npm', /^\.npmrc$/, (text) =>
    found(text, /^[ \t]*(?:@[\w-]+:)?registry[ \t]*=[ \t]*["']?(https?:[^\s"']+)/gm),
  ),
  settings('npm', /^\.yarnrc\.yml$/, (text) =>
    found(text, /^[ \t]*npmRegistryServer:[ \t]*["']?(https?:[^\s"']+)/gm),
  ),
  manifest('npm', /^package\.json$/, NPM),

  // ---- others
  lock('cargo', /^Cargo\.lock$/, CRATES, {
    named: (text) => [
      ...found(text, /^source = "(?:registry|sparse|git)\+(https?:[^"\s]+)"/gm),
      ...(text.includes(CRATES_INDEX) ? CRATES.map(toAddress) : []),
    ],
  }),
  manifest('cargo', /^Cargo\.toml$/, CRATES),
  lock('python', /^poetry\.lock$/, PYPI, {
    named: (text) => found(text, /^url = "(https?:[^"\s]+)"/gm),
    usesUsual: (text) => count(text, /^\[\[package\]\]/gm) > count(text, /^\[package\.source\]/gm),
  }),
  lock('python', /^uv\.lock$/, PYPI, {
    named: (text) => found(text, /\b(?:registry|url|git) = "(https?:[^"\s]+)"/g),
  }),
  lock('python', /^Pipfile\.lock$/, PYPI, {
    named: (text) =>
      found(text, /"sources"\s*:\s*\[([^[\]]*)\]/g).flatMap((list) =>
        found(list, /"url"\s*:\s*"(https?:[^"\s]+)"/g),
      ),
  }),
  lock('python', /^requirements[\w.-]*\.txt$/, PYPI, {
    named: (text) => [
      ...found(text, /^[ \t]*(?:--index-url|--extra-index-url|-i|--find-links|-f)[= \t][ \t]*(https?:\S+)/gm),
      ...found(text, /(?:^|[ \t]@)[ \t]*(?:git\+)?(https?:\S+)/gm),
    ],
    usesUsual: (text) => !/^[ \t]*(?:--index-url|-i|--no-index)\b/m.test(text),
  }),
  manifest('python', /^(pyproject\.toml|setup\.py|setup\.cfg|Pipfile)$/, PYPI),
  lock('go', /^go\.(sum|mod)$/, GO),
  lock('ruby', /^(Gemfile\.lock|gems\.locked)$/, GEMS, {
    named: (text) => found(text, /^[ \t]+remote: (https?:\S+)/gm),
  }),
  manifest('ruby', /^(Gemfile|gems\.rb)$/, GEMS),
  lock('php', /^composer\.lock$/, PACKAGIST, {
    named: (text) =>
      found(text, /"(?:dist|source)"\s*:\s*\{[^{}]*?"url"\s*:\s*"(https?:[^"\s]+)"/g).map(withoutBackslashes),
    usesUsual: () => true,
  }),
  manifest('php', /^composer\.json$/, PACKAGIST),
  lock('elixir', /^mix\.lock$/, HEX, {
    named: (text) => found(text, /\{:git, "(https?:[^"\s]+)"/g),
    usesUsual: (text) => text.includes('{:hex,'),
  }),
  manifest('elixir', /^mix\.exs$/, HEX),
  lock('maven', /^pom\.xml$/, MAVEN, {
    named: (text) =>
      found(text, /<(?:repository|pluginRepository)>[^<]*(?:<(?!url>)[^<]*){0,20}<url>\s*(https?:[^<\s]+)/g),
    usesUsual: () => true,
  }),
  // Gradle's build files name repositories, as other ecosystems' lock files do.
  lock('gradle', /^(gradle\.lockfile|(build|settings)\.gradle(\.kts)?)$/, [...MAVEN, 'plugins.gradle.org'], {
    named: (text) => [
      ...found(text, /\burl[ \t]{0,4}=?[ \t]{0,4}(?:uri\([ \t]{0,4})?["'](https?:[^"'\s]+)["']/g),
      ...(/\bgoogle\(\)/.test(text) ? ['https://dl.google.com'] : []),
    ],
    usesUsual: () => true,
  }),
  lock('gradle wrapper', /^gradle-wrapper\.properties$/, [], {
    named: (text) => found(text, /^distributionUrl=(https?\\?:\S+)/gm).map(withoutBackslashes),
  }),
]

// ---- kinds -------------------------------------------------------------------------------------------------------

type LockFileReading = Pick<RegistryFile, 'named' | 'usesUsual'>

function lock(
  ecosystem: string,
  path: RegExp,
  usual: readonly string[],
  reading: LockFileReading = {},
): RegistryFile {
  return { ecosystem, path, role: 'lock', usual, ...reading }
}

function manifest(ecosystem: string, path: RegExp, usual: readonly string[]): RegistryFile {
  return { ecosystem, path, role: 'manifest', usual }
}

function settings(ecosystem: string, path: RegExp, named: (text: string) => string[]): RegistryFile {
  return { ecosystem, path, role: 'settings', usual: [], named }
}

// ---- texts -------------------------------------------------------------------------------------------------------

/** Returns the first group of each match, without repetitions. */
function found(text: string, pattern: RegExp): string[] {
  const all = new Set<string>()
  for (const match of text.matchAll(pattern)) all.add(originOnly(match[1] ?? ''))
  return [...all]
}

/** Cuts an address behind its host, so that thousands of packages of one registry are one address. */
function originOnly(text: string): string {
  return /^https?:\/\/[^/?#]*/.exec(text)?.[0] ?? text
}

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0
const toAddress = (host: string): string => `https://${host}`
const withoutBackslashes = (text: string): string => text.replaceAll('\\', '')

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Yarn asks its own name of npm's registry. */
function withYarnRegistry(address: string): string[] {
  return address === 'https://registry.npmjs.org' ? [address, 'https://registry.yarnpkg.com'] : [address]
}
