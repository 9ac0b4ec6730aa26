/**
 * Structure rules are functions from sources to violations: layers, libraries, ambient state, import cycles.
 *
 * Sources are a map from path to text, so that a test can also show the rules bad sources. The rules read import lines
 * and a few words with patterns; a parser would see more, and take longer than all other tests.
 */
import { posix } from 'node:path'

export type Sources = ReadonlyMap<string, string>

interface Import {
  readonly from: string
  /** Erased before anything runs. */
  readonly typeOnly: boolean
}

// ---- the tables --------------------------------------------------------------------------------------------------

/** Folder → what it may import from, besides itself. `*`: anything. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  core: ['protocol/'],
  store: ['protocol/', 'core/'],
  providers: ['protocol/', 'core/'],
  actors: ['protocol/', 'core/'],
  transport: ['protocol/', 'core/', 'actors/api/host-api.ts'],
  worker: [
    'protocol/',
    'core/',
    'providers/codehost/',
    'providers/http/',
    'actors/daemon/',
    'actors/runtime/',
  ],
  'oauth-helper': ['protocol/', 'core/', 'providers/http/', 'transport/'],
  inspector: ['protocol/', 'core/'],
  client: ['protocol/'],
  web: ['protocol/', 'client/'],
  bin: ['*'],
  bench: ['*'],
  examples: ['*'],
  build: ['*'],
  test: ['*'],
}

/** Library → the files that may load it. Tests, benches and the build may load any. */
const LIBRARIES: Readonly<Record<string, RegExp>> = {
  typebox: /^protocol\//,
  xstate: /^actors\//,
  lmdb: /^store\/lmdb\//,
  undici: /^providers\/http\/|^worker\/(.*\/)?dial[a-z-]*\.ts$/,
  'uWebSockets.js': /^transport\/native\//,
  ws: /^transport\/node\//,
  'prom-client': /^transport\/metrics\.ts$/,
  ssh2: /^providers\/ssh\.ts$/,
  '@lydell/node-pty': /^worker\/inside\/terminal[a-z-]*\.ts$/,
  '@xterm/headless': /^worker\/terminal\//,
  pino: /^bin\//,
  'pino-pretty': /^bin\//,
  commander: /^bin\//,
  '@commander-js/extra-typings': /^bin\//,
  preact: /^web\//,
  '@preact/signals': /^web\//,
  '@tanstack/virtual-core': /^web\/elements\//,
  ansi_up: /^web\/dashboard\//,
  'parse-diff': /^web\/dashboard\//,
  uplot: /^web\/dashboard\//,
  marked: /^web\/dashboard\//,
  dompurify: /^web\/dashboard\//,
  '@xterm/xterm': /^web\/dashboard\/terminal\//,
  '@xterm/addon-fit': /^web\/dashboard\/terminal\//,
  '@xterm/addon-search': /^web\/dashboard\/terminal\//,
  '@bomb.sh/tab': /^bin\/cli\/help\/completion\.ts$/,
}
/** Where a library's types may be named, when that is a wider place than where it is loaded. */
const LIBRARY_TYPES: Readonly<Record<string, RegExp>> = {
  '@xterm/headless': /^worker\/terminal\//,
}

const MAY_LOAD_ANY = /^(test|bench|build|examples)\//
const PURE = /^(protocol|core|actors)\//

/** What rules and actors must not reach for by themselves, and what they are given instead. */
const AMBIENT: readonly (readonly [RegExp, instead: string])[] = [
  [/\bDate\.now\b/, 'Clock.now()'],
  [/\bnew Date\(\s*\)|(?<!new )\bDate\(\s*\)/, 'new Date(clock.now())'],
  [/\bperformance\.now\b/, 'Clock.monotonic()'],
  [/\bset(Timeout|Interval)\b/, 'Clock.after() or a deadline'],
  [/\b(setImmediate|queueMicrotask)\b/, 'Clock.endOfTick()'],
  [/\bMath\.random\b/, 'Chance.fraction()'],
  [/\b(randomBytes|randomUUID|randomInt|getRandomValues)\b/, 'Chance.bytes()'],
  [/\bprocess\.\w/, 'a value that bin/ hands in'],
  [/\bconsole\.\w/, 'the Log port'],
]
/** Node's own modules that only compute. */
const PURE_BUILTINS = [
  'node:crypto',
  'node:util',
  'node:util/types',
  'node:buffer',
  'node:path/posix',
  'node:assert/strict',
]

const EMPTY_NAMES = /(^|\/)(utils?|libs?|common|helpers?|types|misc|shared)\//

/** Packages that would like to run something when installed, and why they work without. */
const INSTALL_SCRIPTS: Readonly<Record<string, string>> = {
  '@parcel/watcher': 'a prebuilt binary for each platform; ours does not even load it',
  '@swc/core': 'a prebuilt binary for each platform',
  esbuild: 'a prebuilt binary for each platform; its script only makes starting it a little faster',
  lmdb: 'a prebuilt binary for each platform',
  'msgpackr-extract': 'optional: msgpackr decodes in JavaScript without it',
  fsevents: 'macOS only, prebuilt',
  'unrs-resolver': 'a prebuilt binary for each platform',
  ssh2: 'optional: it has all its ciphers from Node without its native part',
  'cpu-features': 'optional part of ssh2',
}

// ---- the rules ---------------------------------------------------------------------------------------------------

export function violations(sources: Sources): string[] {
  const rules = [
    layers,
    actorLayers,
    binLayers,
    libraries,
    pureBuiltins,
    ambient,
    barrels,
    exceptions,
    skips,
    folderNames,
  ]
  const perFile = [...sources].flatMap(([path, text]) => rules.flatMap((rule) => rule(path, text)))
  return [...perFile, ...cycles(sources)]
}

function layers(path: string, text: string): string[] {
  const own = folderOf(path)
  const allowed = LAYERS[own]
  if (allowed === undefined) return [`${path}: ${own}/ is no folder of the project`]
  if (allowed.includes('*')) return []
  return inside(path, text)
    .filter((target) => ![`${own}/`, ...allowed].some((start) => target.startsWith(start)))
    .map((target) => `${path}: ${own}/ must not import ${target}`)
}

/** Inside actors/ imports run down too: root, then api, then the folders of nouns, then runtime. */
const ACTOR_RANKS: Readonly<Record<string, number>> = { runtime: 0, api: 2, root: 3 }

function actorLayers(path: string, text: string): string[] {
  if (!path.startsWith('actors/')) return []
  const rank = actorRank(path)
  return inside(path, text)
    .filter((target) => target.startsWith('actors/') && isUpward(path, rank, target))
    .map((target) => `${path}: must not import ${target}, which stands above it`)
}

/** Inside bin/ a noun of the command line may use a program, and no program a noun. */
const BIN_RANKS: Readonly<Record<string, number>> = { process: 0, output: 0, pages: 1, programs: 2, cli: 3 }

function binLayers(path: string, text: string): string[] {
  const rankOf = (each: string): number => BIN_RANKS[each.split('/')[1] ?? ''] ?? 4
  if (!path.startsWith('bin/')) return []
  return inside(path, text)
    .filter((target) => target.startsWith('bin/') && rankOf(target) > rankOf(path))
    .map((target) => `${path}: must not import ${target}, which stands above it`)
}

/** The worker daemon uses the runtime only. */
const isUpward = (path: string, rank: number, target: string): boolean =>
  actorRank(target) > rank ||
  (path.startsWith('actors/daemon/') && !/^actors\/(daemon|runtime)\//.test(target))

const actorRank = (path: string): number => ACTOR_RANKS[path.split('/')[1] ?? ''] ?? 1

function libraries(path: string, text: string): string[] {
  if (MAY_LOAD_ANY.test(path)) return []
  return importsOf(text)
    .filter(({ from }) => !from.startsWith('.') && !from.startsWith('node:'))
    .flatMap((imported) => libraryViolation(path, imported))
}

function libraryViolation(path: string, { from, typeOnly }: Import): string[] {
  const library = from
    .split('/')
    .slice(0, from.startsWith('@') ? 2 : 1)
    .join('/')
  const allowed = (typeOnly ? LIBRARY_TYPES[library] : undefined) ?? LIBRARIES[library]
  if (allowed === undefined)
    return [`${path}: no file may load ${library}; name one in test/support/structure-rules.ts`]
  return allowed.test(path) ? [] : [`${path}: ${library} is only for ${allowed.source}`]
}

function pureBuiltins(path: string, text: string): string[] {
  if (!PURE.test(path)) return []
  return importsOf(text)
    .filter(({ from, typeOnly }) => from.startsWith('node:') && !typeOnly && !PURE_BUILTINS.includes(from))
    .map(({ from }) => `${path}: ${from} reaches outside; use a port of core/ports/ instead`)
}

function ambient(path: string, text: string): string[] {
  if (!PURE.test(path)) return []
  const code = withoutTexts(text)
  return AMBIENT.flatMap(([pattern, instead]) => {
    const found = pattern.exec(code)?.[0]
    return found === undefined ? [] : [`${path}: ${found}: use ${instead} instead`]
  })
}

function barrels(path: string, text: string): string[] {
  const reExport = /^export\s+(type\s+)?(\*|\{[^}]*\})(\s+as\s+\w+)?\s+from\b/m
  return reExport.test(withoutComments(text))
    ? [`${path}: re-exports another file; import from that file instead`]
    : []
}

/** `any` and switched-off checks stand only beside a comment that says why. */
function exceptions(path: string, text: string): string[] {
  const lines = text.split('\n')
  const bare = withoutTexts(text).split('\n')
  return lines.flatMap((line, at) => {
    const complaint = exceptionViolation(line, bare[at] ?? '', `${lines[at - 1] ?? ''}${line}`)
    return complaint === undefined ? [] : [`${path}:${at + 1}: ${complaint}`]
  })
}

/** A skipped test has a reason, which `skips.ts` puts into its name. */
function skips(path: string, text: string): string[] {
  if (path === 'test/support/skips.ts') return []
  const found = /\b(?:test|it|describe)\.(?:skip|todo|only)\b/.exec(withoutTexts(text))?.[0]
  return found === undefined ? [] : [`${path}: ${found}: use testIf or describeIf of test/support/skips.ts`]
}

function exceptionViolation(line: string, code: string, nearby: string): string | undefined {
  if (/^\s*(\/\/|\/?\*).*@ts-nocheck/.test(line)) return '@ts-nocheck is never right'
  if (/^\s*(\/\/|\/?\*)\s*@ts-(ignore|expect-error)\s*$/.test(line))
    return 'a switched-off type check without a reason'
  if (/^\s*\/\/\s*biome-ignore\b(?!.*:\s*\S+\s+\S+)/.test(line)) return 'biome-ignore without a reason'
  const hasAny = /(?::|<|\bas|[|&,])\s*any\b(?!\s*[:(])|\bany\[\]/.test(code)
  return hasAny && !/\/\/|\*/.test(nearby) ? 'any without a reason beside it' : undefined
}

function folderNames(path: string): string[] {
  return EMPTY_NAMES.test(path)
    ? [`${path}: a folder of this name says nothing; name the folder after what lives there`]
    : []
}

function cycles(sources: Sources): string[] {
  const done = new Set<string>()
  const found: string[] = []
  const visit = (path: string, chain: readonly string[]): void => {
    if (chain.includes(path))
      found.push(`an import cycle: ${[...chain.slice(chain.indexOf(path)), path].join(' → ')}`)
    if (chain.includes(path) || done.has(path)) return
    for (const target of loaded(path, sources.get(path) ?? '')) visit(target, [...chain, path])
    done.add(path)
  }
  for (const path of sources.keys()) visit(path, [])
  return found
}

/** @param lock package-lock.json, parsed */
export function installScripts(lock: {
  packages: Readonly<Record<string, { hasInstallScript?: boolean }>>
}): string[] {
  return Object.entries(lock.packages)
    .filter(([, { hasInstallScript }]) => hasInstallScript === true)
    .map(([path]) => path.replace(/^.*node_modules\//, ''))
    .filter((name) => INSTALL_SCRIPTS[name] === undefined)
    .map(
      (name) => `${name} has an install script; we install with --ignore-scripts: say why it works without`,
    )
}

// ---- reading sources ---------------------------------------------------------------------------------------------

function folderOf(path: string): string {
  return path.split('/')[0] ?? ''
}

/** The project's files that this one imports. */
function inside(path: string, text: string): string[] {
  return resolved(path, importsOf(text))
}

/** Those of them that are loaded at run time. A machine and its effects may name each other's types. */
function loaded(path: string, text: string): string[] {
  const imports = importsOf(text)
  return resolved(
    path,
    imports.filter(({ typeOnly }) => !typeOnly),
  )
}

function resolved(path: string, imports: readonly Import[]): string[] {
  return imports
    .filter(({ from }) => from.startsWith('.'))
    .map(({ from }) => posix.join(posix.dirname(path), from))
}

/** The paths of the project's own files that a file imports, also lazily. */
export const importedPaths = (path: string, text: string): string[] => resolved(path, importsOf(text))

const STATIC = /^(?:import|export)\b(?<what>[^'"`;]*?)\bfrom\s*['"](?<from>[^'"]+)['"]/gm
const BARE = /^import\s*['"](?<from>[^'"]+)['"]/gm
const LAZY = /\bimport\(\s*['"](?<from>[^'"]+)['"]/g

export function importsOf(text: string): Import[] {
  const code = withoutComments(text)
  return [...code.matchAll(STATIC), ...code.matchAll(BARE), ...code.matchAll(LAZY)].map(({ groups }) => ({
    from: groups?.from ?? '',
    typeOnly: /^\s+type\b/.test(groups?.what ?? ''),
  }))
}

/** Comments, strings and patterns; the latter two because they may hold what looks like a comment. */
const TOKEN =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|(?<=[=(,:[!&|?{};\n]\s*)\/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\//g

const blank = (text: string): string => text.replace(/[^\n]/g, ' ')

/** Line numbers and columns stay. */
export function withoutComments(text: string): string {
  return text.replace(TOKEN, (found) => (/^\/[/*]/.test(found) ? blank(found) : found))
}

export function withoutTexts(text: string): string {
  return text.replace(TOKEN, blank)
}
