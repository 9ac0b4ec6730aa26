/**
 * Language rules read names, comments and sizes in the sources and list each place that breaks one.
 *
 * Every rule has a ratchet in test/ratchets.json: the number of places that still break it. The number may only fall.
 */

import { dirname } from 'node:path/posix'
import { parseSync } from '@swc/core'
import { importedPaths, type Sources, withoutComments, withoutTexts } from './structure-rules.ts'

export const FUNCTION_LINES_MAX = 70
export const FILE_LINES_MAX = 400
/** The ceiling of tables and drawn machines, whose lines a reader scans. */
export const TABLE_LINES_MAX = 700
/** A file of fewer lines belongs into the neighbour that alone imports it. */
export const SATELLITE_LINES_MAX = 100
export const SUBJECT_CHARS_MAX = 60

/** The list of banned words is made of them. */
const OWN_PATH = 'test/support/language-rules.ts'
/** The mutants quote the product's source, because each replaces a text in it. */
const QUOTING_PATH = 'test/simulation/mutants.ts'
/** Folders whose code people install. */
const PRODUCT = /^(protocol|core|store|providers|actors|transport|worker|oauth-helper|client|web|bin)\//

// ---- names -------------------------------------------------------------------------------------------------------

/** A part of a name → the word that the field uses. GLOSSARY.md says what each of those means. */
const BANNED_PARTS: Readonly<Record<string, string>> = {
  alarm: 'timer',
  alarms: 'timers',
  ballast: 'emergency space',
  bear: 'spawn',
  bears: 'spawns',
  born: 'spawned',
  bury: 'markFailed',
  chore: 'task',
  chores: 'tasks',
  courier: 'client',
  couriers: 'clients',
  cradle: 'template',
  curtain: 'filter',
  cut: 'commit',
  deed: 'action',
  deeds: 'actions',
  desk: 'api',
  desks: 'apis',
  door: 'listener',
  doors: 'listeners',
  drawer: 'pending requests',
  ear: 'router',
  ears: 'routers',
  errand: 'task, request',
  errands: 'tasks, requests',
  furnish: 'create modules',
  gist: 'projection',
  gists: 'projections',
  ground: 'location',
  guest: 'participant',
  guests: 'participants',
  hands: 'executor',
  hear: 'handle',
  heard: 'received',
  hears: 'handles',
  house: 'project',
  journey: 'OAuth redirect',
  journeys: 'OAuth redirects',
  kit: 'runtime',
  landed: 'committed',
  landing: 'commit',
  landings: 'commits',
  leavings: 'outputs',
  life: 'actor',
  lives: 'actors, snapshots',
  look: 'poll, schedule, read',
  looked: 'polled, read',
  looks: 'polls, reads',
  manners: 'rules, rate limits',
  mean: 'dispatch',
  mould: 'template',
  mouth: 'sender',
  neighbour: 'provider',
  neighbours: 'providers',
  nursery: 'factory',
  rang: 'onTimer',
  room: 'manager, or the noun',
  rooms: 'modules',
  said: 'sent, reported',
  say: 'send, report',
  says: 'sends, reports',
  scrub: 'redact',
  shelf: 'collection',
  shelves: 'collections',
  showing: 'broadcast',
  spool: 'worker store, temp file',
  stir: 'requestCommit',
  stranger: 'unregistered',
  strangers: 'unregistered',
  strike: 'redact',
  struck: 'redacted',
  tale: 'event',
  tell: 'send, report, publish',
  tells: 'sends, reports',
  told: 'sent, reported',
  tray: 'transition output',
  volatile: 'in memory',
  wish: 'request',
  wishes: 'requests',
  yard: 'modules, system',
}

/** Names that say nothing when they stand alone. */
const BANNED_WHOLE: Readonly<Record<string, string>> = {
  here: 'what it is',
  it: 'what it is',
  one: 'what it is',
  other: 'what it is',
  way: 'path, proxy',
}

/** Names that a library, a protocol, a service's API, a metric or what is stored on disk has chosen. */
const ALLOWED_NAMES = new Set([
  'sockets_cut_off_total',
  'told',
  'errand',
  'journey',
  'gists_url',
  'private_gists',
  'public_gists',
])

/** One violation for each such name in each file, with the usual word beside it. */
export function bannedNames(path: string, text: string): string[] {
  if (path === OWN_PATH) return []
  const code = path.endsWith('.tsx') ? withoutElementText(text) : text
  const names = new Set(withoutTexts(code).match(/[A-Za-z_$][\w$]*/g) ?? [])
  return [...names].sort().flatMap((name) => {
    const instead = usualWord(name)
    return instead === undefined ? [] : [`${path}: ${name}: say ${instead}`]
  })
}

/** Removes the words that people read between the tags of elements. */
const withoutElementText = (text: string): string => text.replace(/(?<=[>}])[^<>{}=;()]*(?=[<{])/g, ' ')

function usualWord(name: string): string | undefined {
  if (ALLOWED_NAMES.has(name)) return undefined
  if (Object.hasOwn(BANNED_WHOLE, name)) return BANNED_WHOLE[name]
  const part = partsOf(name).find((word) => Object.hasOwn(BANNED_PARTS, word))
  return part === undefined ? undefined : BANNED_PARTS[part]
}

/** `runsInFlight` and `RUNS_IN_FLIGHT` are made of runs, in and flight. */
function partsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[_$]+/)
}

/** Names of types that more than one file of the product declares. */
export function repeatedTypes(sources: Sources): string[] {
  const files = new Map<string, string[]>()
  for (const [path, text] of sources) {
    if (!PRODUCT.test(path)) continue
    const declared = withoutComments(text).matchAll(
      /^(?:export )?(?:abstract )?(?:class|interface|type) ([A-Z]\w*)/gm,
    )
    for (const [, name = ''] of declared) files.set(name, [...(files.get(name) ?? []), path])
  }
  return [...files]
    .filter(([, paths]) => paths.length > 1)
    .map(([name, paths]) => `${name} is declared ${paths.length} times: ${paths.join(', ')}`)
}

// ---- sentences ---------------------------------------------------------------------------------------------------

const RIDDLE =
  /^(Who|What|Those|Whoever|Whose|Which|Where|When it|It|One|Of|Nobody|That|There|Whatever|Somebody)\b/

/** A file's first comment names its subject. */
export function riddleHeaders(path: string, text: string): string[] {
  const [, header] = /^(?:#![^\n]*\n)?\/\*\*([\s\S]*?)\*\//.exec(text) ?? []
  return header !== undefined && RIDDLE.test(prose(header))
    ? [`${path}: its header begins with "${prose(header).split(' ')[0]}"`]
    : []
}

/** Every comment of the product does. */
export function riddleComments(path: string, text: string): string[] {
  if (!PRODUCT.test(path)) return []
  const comments = text.matchAll(/\/\*\*([\s\S]*?)\*\/|^\s*\/\/ (.*)$/gm)
  return [...comments]
    .map(([, block, line]) => prose(block ?? line ?? ''))
    .filter((sentence) => RIDDLE.test(sentence))
    .map((sentence) => `${path}: "${sentence.slice(0, 60)}"`)
}

const prose = (comment: string): string =>
  comment
    .replace(/^\s*\* ?/gm, '')
    .replace(/\s+/g, ' ')
    .trim()

/** Shorter texts are often the same by chance. */
const SENTENCE_CHARS_MIN = 24
const SENTENCE_WORDS_MIN = 4

/** String literals of tests that repeat a sentence of the product. Tables in test/rules are where the words stand. */
export function repeatedSentences(sources: Sources): string[] {
  const sentences = [...sources]
    .filter(([path]) => PRODUCT.test(path))
    .flatMap(([path, text]) => stringsIn(path, text))
    .map((text) => text.trim())
    .filter((text) => text.length >= SENTENCE_CHARS_MIN && text.split(/\s+/).length >= SENTENCE_WORDS_MIN)
  const known = [...new Set(sentences)]
  return [...sources]
    .filter(([path]) => /^test\/(?!rules\/)/.test(path) && path !== QUOTING_PATH)
    .flatMap(([path, text]) =>
      stringsIn(path, text)
        .filter((found) => found.length >= SENTENCE_CHARS_MIN && known.some((one) => found.includes(one)))
        .map((found) => `${path}: ${found.slice(0, 70)}`),
    )
}

function stringsIn(path: string, text: string): string[] {
  const found: string[] = []
  const tsx = path.endsWith('x')
  visitNodes(parseSync(text, { syntax: 'typescript', tsx, target: 'es2022' }), ({ type, value, cooked }) => {
    if (type === 'StringLiteral' && typeof value === 'string') found.push(value)
    if (type === 'TemplateElement' && typeof cooked === 'string') found.push(cooked)
  })
  return found
}

// ---- sizes -------------------------------------------------------------------------------------------------------

/** Files that are one table from top to bottom, and machines. */
const TABLES = /^protocol\/(config|frames|limits|routes)\.ts$|\.machine\.ts$/

const linesOf = (text: string): number => text.split('\n').length - 1

export function longFiles(path: string, text: string): string[] {
  const lines = linesOf(text)
  const most = TABLES.test(path) ? TABLE_LINES_MAX : FILE_LINES_MAX
  return PRODUCT.test(path) && lines > most ? [`${path}: ${lines} lines`] : []
}

/** Lists the short files that only one file of the same folder imports; a test that imports one is a reason to keep it. */
export function satellites(sources: Sources): string[] {
  const importers = new Map<string, string[]>()
  for (const [path, text] of sources)
    for (const target of new Set(importedPaths(path, text)))
      importers.set(target, [...(importers.get(target) ?? []), path])
  return [...sources].flatMap(([path, text]) => {
    const [importer, ...others] = importers.get(path) ?? []
    const isLone = importer !== undefined && others.length === 0 && dirname(importer) === dirname(path)
    const isShort = PRODUCT.test(path) && linesOf(text) < SATELLITE_LINES_MAX
    return isLone && isShort ? [`${path}: ${linesOf(text)} lines, imported by ${importer} alone`] : []
  })
}

/** Sums the lines of the product's code by folder of the first two levels. */
export function linesByFolder(sources: Sources): Map<string, number> {
  const sums = new Map<string, number>()
  for (const [path, text] of sources) {
    if (!PRODUCT.test(path)) continue
    const folders = path.split('/').slice(0, -1)
    for (const folder of new Set([folders[0] ?? '', folders.slice(0, 2).join('/'), 'all']))
      sums.set(folder, (sums.get(folder) ?? 0) + linesOf(text))
  }
  return sums
}

export function longFunctions(path: string, text: string): string[] {
  if (!PRODUCT.test(path) || !/\.tsx?$/.test(path)) return []
  // The module's span ends with its last token.
  const code = text.trimEnd()
  const bytes = Buffer.from(code)
  const module = parseSync(code, { syntax: 'typescript', tsx: path.endsWith('x'), target: 'es2022' })
  // Offsets count bytes, and go on from file to file.
  const start = module.span.end - bytes.length
  const found: string[] = []
  visitNodes(module, (node) => {
    const span = node.span ?? node.function?.span
    if (span === undefined || !FUNCTIONS.has(node.type ?? '')) return
    const [from, to] = [span.start - start, span.end - start]
    const lines = bytes.subarray(from, to).toString().split('\n').length
    if (lines > FUNCTION_LINES_MAX)
      found.push(`${path}:${bytes.subarray(0, from).toString().split('\n').length}: ${lines} lines`)
  })
  return found
}

interface Span {
  readonly start: number
  readonly end: number
}

/** What the rules read of a node of the syntax tree. */
interface SyntaxNode {
  readonly type?: string
  readonly span?: Span
  readonly function?: { readonly span?: Span }
  readonly value?: unknown
  readonly cooked?: unknown
}

const FUNCTIONS = new Set([
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunctionExpression',
  'ClassMethod',
  'PrivateMethod',
  'Constructor',
  'MethodProperty',
])

function visitNodes(node: unknown, onNode: (node: SyntaxNode) => void): void {
  if (typeof node !== 'object' || node === null) return
  if (!Array.isArray(node)) onNode(node)
  // A third of all objects are spans, and lists of values would cost half of the time.
  for (const name in node) if (name !== 'span') visitNodes(Reflect.get(node, name), onNode)
}

// ---- commits -----------------------------------------------------------------------------------------------------

/** @param log one subject a line */
export function longSubjects(log: string): string[] {
  return log.split('\n').filter((subject) => subject.length > SUBJECT_CHARS_MAX)
}
