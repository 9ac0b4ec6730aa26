/**
 * The files by which a repository tells where its packages come from, and what each of them names.
 *
 * Lock files and settings name hosts; manifests name packages only. Patterns find addresses in text, because a lock
 * file in a new version should still be read, and a wrong guess only allows one host too few. No pattern takes more than
 * linear time, because a file may be made to take long.
 */

export interface RegistryFile {
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

/** Hosts that answer with addresses of another. */
export const COMPANIONS: Readonly<Record<string, readonly string[]>> = {
  'registry.yarnpkg.com': ['registry.npmjs.org', 'repo.yarnpkg.com'],
  'pypi.org': ['files.pythonhosted.org'],
  'rubygems.org': ['index.rubygems.org'],
  'services.gradle.org': ['downloads.gradle.org'],
  'github.com': ['codeload.github.com'],
  'api.github.com': ['codeload.github.com'],
}

/** Newer versions of cargo read this index elsewhere, and all versions load the packages elsewhere. */
const CRATES_INDEX = 'github.com/rust-lang/crates.io-index'

export const REGISTRY_FILES: readonly RegistryFile[] = [
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
