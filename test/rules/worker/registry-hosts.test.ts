/** The hosts that the lock files of a repository allow, by table. */
import { describe, expect, test } from '@jest/globals'
import {
  describeReachable,
  NETWORK_HOSTS_DERIVED_MAX,
  RegistryHosts,
} from '../../../worker/registries/registry-hosts.ts'
import { measureCpuMs } from '../../support/cpu-time.ts'

function derived(files: Readonly<Record<string, string>>) {
  const hosts = new RegistryHosts()
  for (const [path, text] of Object.entries(files)) hosts.add(path, text)
  return hosts.derive()
}

const hostsOf = (files: Readonly<Record<string, string>>) => derived(files).hosts.map(({ host }) => host)
const resolved = (...addresses: readonly string[]) =>
  JSON.stringify(
    { packages: Object.fromEntries(addresses.map((resolved, n) => [`p${n}`, { resolved }])) },
    null,
    2,
  )

const YARN_1 = `"@babel/core@^7":
  version "7.1.0"
  resolved "https://registry.npmjs.org/@babel/core/-/core-7.1.0.tgz#abc"
`
const YARN_BERRY = `"a@npm:^1":
  version: 1.0.0
  resolution: "a@npm:1.0.0"
"b@https://github.com/o/b.git":
  resolution: "b@https://github.com/o/b.git#commit=abc"
"c@npm:^1":
  resolution: "c@npm:1.0.0::__archiveUrl=https%3A%2F%2Fnpm.corp.example%2Fc%2Fc.tgz"
`
const PNPM = `packages:
  a@1.0.0:
    resolution: {integrity: sha512-x}
  b@1.0.0:
    resolution: {integrity: sha512-y, tarball: https://codeload.github.com/o/b/tar.gz/abc}
`
const BUN = `{ "packages": { "a": ["a@1.0.0", "", {}, "sha512-x"], "b": ["b@1.0.0", "https://npm.corp.example/b.tgz", {}, "sha512-y"] } }`
const CARGO = `[[package]]
name = "a"
source = "registry+https://github.com/rust-lang/crates.io-index"
[[package]]
name = "b"
source = "git+https://gitlab.example/o/b?tag=v1#abc"
[[package]]
name = "c"
source = "sparse+https://cargo.corp.example/index/"
`
const POETRY = `[[package]]
name = "a"
[[package]]
name = "b"
[package.source]
type = "legacy"
url = "https://pypi.corp.example/simple"
`
const UV = `[[package]]
name = "a"
source = { registry = "https://pypi.org/simple" }
sdist = { url = "https://files.pythonhosted.org/packages/a.tar.gz", hash = "sha256:x" }
`
const PIPFILE = JSON.stringify({
  _meta: { sources: [{ name: 'corp', url: 'https://pypi.corp.example/simple', verify_ssl: true }] },
  default: { a: { index: 'corp' } },
})
const GEMFILE = `GIT
  remote: https://github.com/o/b.git
  revision: abc
GEM
  remote: https://rubygems.org/
  specs:
    a (1.0)
`
const COMPOSER = JSON.stringify({
  packages: [
    {
      name: 'o/a',
      source: { type: 'git', url: 'https://github.com/o/a.git' },
      dist: { type: 'zip', url: 'https://api.github.com/repos/o/a/zipball/abc' },
      support: { url: 'https://docs.example' },
      funding: [{ url: 'https://sponsor.example', type: 'github' }],
    },
  ],
}).replaceAll('/', '\\/')
const MIX = `%{
  "a": {:hex, :a, "1.0.0", "abc", [:mix], [], "hexpm", "def"},
  "b": {:git, "https://github.com/o/b.git", "abc", []},
}`
const POM = `<project><repositories><repository><id>corp</id><url>https://maven.corp.example/x</url></repository></repositories>
<url>https://homepage.example</url></project>`
const GRADLE = `repositories { mavenCentral(); google(); maven { url = uri("https://maven.corp.example/x") } }`

test.each<[string, Readonly<Record<string, string>>, readonly string[]]>([
  ['npm', { 'package-lock.json': resolved('https://registry.npmjs.org/a/-/a.tgz') }, ['registry.npmjs.org']],
  ['npm without addresses', { 'package-lock.json': '{}' }, ['registry.npmjs.org']],
  [
    'a private registry replaces npm’s',
    { 'npm-shrinkwrap.json': resolved('https://npm.corp.example/a.tgz') },
    ['npm.corp.example'],
  ],
  [
    'npm with a package from git',
    { 'a/package-lock.json': resolved('git+ssh://git@github.com/o/a.git#1', 'https://registry.npmjs.org/b') },
    ['registry.npmjs.org', 'github.com', 'codeload.github.com'],
  ],
  ['yarn 1', { 'yarn.lock': YARN_1 }, ['registry.npmjs.org', 'registry.yarnpkg.com', 'repo.yarnpkg.com']],
  [
    'yarn berry',
    { 'yarn.lock': YARN_BERRY },
    [
      'github.com',
      'codeload.github.com',
      'npm.corp.example',
      'registry.yarnpkg.com',
      'registry.npmjs.org',
      'repo.yarnpkg.com',
    ],
  ],
  ['pnpm', { 'pnpm-lock.yaml': PNPM }, ['codeload.github.com', 'registry.npmjs.org']],
  ['bun', { 'bun.lock': BUN }, ['npm.corp.example', 'registry.npmjs.org']],
  ['bun, in binary', { 'bun.lockb': '\0' }, ['registry.npmjs.org']],
  [
    'settings of npm',
    { '.npmrc': 'registry=https://npm.corp.example/\n', 'package-lock.json': '{}' },
    ['npm.corp.example'],
  ],
  [
    'settings of yarn',
    { '.yarnrc.yml': 'npmRegistryServer: "https://npm.corp.example"\n', 'package.json': '{}' },
    ['npm.corp.example'],
  ],
  [
    'cargo',
    { 'Cargo.lock': CARGO },
    [
      'github.com',
      'codeload.github.com',
      'gitlab.example',
      'cargo.corp.example',
      'index.crates.io',
      'static.crates.io',
    ],
  ],
  ['poetry', { 'poetry.lock': POETRY }, ['pypi.corp.example', 'pypi.org', 'files.pythonhosted.org']],
  ['uv', { 'uv.lock': UV }, ['pypi.org', 'files.pythonhosted.org']],
  ['pipenv', { 'Pipfile.lock': PIPFILE }, ['pypi.corp.example']],
  ['pip', { 'requirements.txt': 'a==1.0\n' }, ['pypi.org', 'files.pythonhosted.org']],
  [
    'pip with another index',
    { 'requirements-dev.txt': '--index-url https://u:p@pypi.corp.example/simple\na==1.0\n' },
    ['pypi.corp.example'],
  ],
  [
    'pip with one index more',
    { 'requirements.txt': '--extra-index-url=https://x.example/simple\nb @ https://y.example/b.whl\n' },
    ['x.example', 'y.example', 'pypi.org', 'files.pythonhosted.org'],
  ],
  [
    'go',
    { 'go.sum': 'example.com/a v1.0.0 h1:x=\n', 'go.mod': 'module m\n' },
    ['proxy.golang.org', 'sum.golang.org'],
  ],
  [
    'ruby',
    { 'Gemfile.lock': GEMFILE },
    ['github.com', 'codeload.github.com', 'rubygems.org', 'index.rubygems.org'],
  ],
  [
    'php',
    { 'composer.lock': COMPOSER },
    ['github.com', 'codeload.github.com', 'api.github.com', 'repo.packagist.org'],
  ],
  ['elixir', { 'mix.lock': MIX }, ['github.com', 'codeload.github.com', 'repo.hex.pm']],
  ['maven', { 'pom.xml': POM }, ['maven.corp.example', 'repo.maven.apache.org']],
  [
    'gradle',
    { 'build.gradle.kts': GRADLE },
    ['maven.corp.example', 'dl.google.com', 'repo.maven.apache.org', 'plugins.gradle.org'],
  ],
  [
    'gradle’s wrapper',
    {
      'gradle/wrapper/gradle-wrapper.properties':
        'distributionUrl=https\\://services.gradle.org/distributions/gradle-8.5-bin.zip\n',
    },
    ['services.gradle.org', 'downloads.gradle.org'],
  ],
  [
    'a manifest alone',
    { 'package.json': '{}', 'Cargo.toml': '' },
    ['registry.npmjs.org', 'index.crates.io', 'static.crates.io'],
  ],
  [
    'a manifest beside a lock file',
    { 'package.json': '{}', 'app/package-lock.json': resolved('https://npm.corp.example/a.tgz') },
    ['npm.corp.example'],
  ],
  [
    'packages that are part of the repository',
    { 'node_modules/a/package.json': '{}', 'vendor/go.mod': '' },
    [],
  ],
  [
    'no file of this kind',
    { 'README.md': 'see https://example.org', 'my-package-lock.json': resolved('https://x.example/') },
    [],
  ],
])('%s', (_, files, expected) => {
  expect(hostsOf(files)).toEqual(expected)
})

describe('an address that does not count is named', () => {
  test.each([
    ['https://10.0.0.1/a.tgz', '10.0.0.1'],
    ['https://169.254.169.254/a.tgz', '169.254.169.254'],
    ['https://[::1]/a.tgz', '[::1]'],
    ['https://localhost/a.tgz', 'localhost'],
    ['https://intranet/a.tgz', 'intranet'],
    ['https://npm.corp.example:4873/a.tgz', 'npm.corp.example:4873'],
    ['http://npm.corp.example/a.tgz', 'npm.corp.example'],
    ['https://0x7f.1/a.tgz', '127.0.0.1'],
    ['https://a_b.example/a.tgz', 'a_b.example'],
    ['https://x.localhost/', 'x.localhost'],
  ])('%s', (address, host) => {
    const { hosts, leftOut } = derived({ 'package-lock.json': resolved(address) })
    expect(hosts).toEqual([])
    expect(leftOut).toEqual([
      `package-lock.json names ${host}, which is no public https host at port 443; name those that sandboxes need in sandbox.allowedHosts`,
    ])
  })

  test('so are hosts beyond the limit', () => {
    const addresses = Array.from({ length: 200 }, (_, n) => `https://h${n}.example/a.tgz`)
    const { hosts, leftOut } = derived({ 'package-lock.json': resolved(...addresses) })
    expect(hosts.length).toBe(NETWORK_HOSTS_DERIVED_MAX)
    expect(leftOut).toEqual([expect.stringMatching(/^more hosts than 40 are named; /)])
  })
})

test('the log says in one line what may be reached, and why', () => {
  const hosts = [
    { host: 'registry.npmjs.org', from: 'package-lock.json' },
    { host: 'x.example', from: 'package-lock.json' },
    { host: 'github.com', from: 'code host' },
  ]
  expect(describeReachable(hosts, ['a.example'])).toBe(
    'network: may reach registry.npmjs.org, x.example (package-lock.json), github.com (code host), a.example (sandbox.allowedHosts)',
  )
  expect(describeReachable([], [])).toBe('network: may reach no host')
  expect(describeReachable([{ host: 'x.example', from: 'a\nb' }], [])).not.toContain('\n')
})

test('a large lock file is read within a turn of the event loop', () => {
  const text = resolved(
    ...Array.from({ length: 60_000 }, (_, n) => `https://registry.npmjs.org/p${n}/-/p${n}-1.0.0.tgz`),
  )
  const cpuMs = measureCpuMs(() =>
    expect(hostsOf({ 'package-lock.json': text })).toEqual(['registry.npmjs.org']),
  )
  expect(cpuMs).toBeLessThan(1_000)
})

test.each<[string, readonly string[]]>([
  ['package-lock.json', ['"resolved"', '"resolved": "https:', '"resolved": "git+ssh://', '"resolved" ', ' ']],
  [
    'yarn.lock',
    [' resolved "https:', '@https:', ' resolution: "', ' resolution: "@npm:', '__archiveUrl=https%3A', ' '],
  ],
  ['pnpm-lock.yaml', ['tarball: ', 'resolution: {integrity: ', 'tarball: https:', '\n']],
  ['bun.lock', ['"https:', '["a", "b', '["a",', '["', ' ']],
  ['.npmrc', ['registry', '@a:registry = ', '@a', '\n', ' \n', ' ']],
  ['.yarnrc.yml', ['npmRegistryServer:', '\n', ' ']],
  ['Cargo.lock', ['source = "registry+https:', '\n']],
  ['poetry.lock', ['url = "https:', '[[package]]\n', '\n']],
  ['uv.lock', ['registry = "', 'url = "https:', ' ']],
  ['Pipfile.lock', ['"sources":[', '"sources"', '"sources": ', ' ']],
  ['requirements.txt', ['-i', '-i ', '--index-url', ' @ ', ' @', '\n', ' ', 'https:']],
  ['Gemfile.lock', [' remote: ', '\n', ' ']],
  ['composer.lock', ['"dist":{', '"dist":{"url":', '"url"', '"source"', ' ']],
  ['mix.lock', ['{:git, "https:', '{:git, ']],
  ['pom.xml', ['<repository>', '<repository><a>', '<url>', '<repository><url>', '<', ' ']],
  ['build.gradle', ['url', 'url ', 'url = ', 'url uri(', "url 'https:", ' ']],
  ['gradle-wrapper.properties', ['distributionUrl=', 'distributionUrl=https:', '\n']],
])('a hostile %s does not take long', (path, beginnings) => {
  for (const part of beginnings) {
    const cpuMs = measureCpuMs(() => derived({ [path]: part.repeat(1_000_000 / part.length) }))
    expect({ part, isSlow: cpuMs > 700 }).toEqual({ part, isSlow: false })
  }
})
