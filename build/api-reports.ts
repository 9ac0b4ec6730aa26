/**
 * The API reports: what `client/` exports to other programs, and what `protocol/` says on the wire, as text.
 *
 * A test compares them with `client/api.txt` and `protocol/api.txt` and rewrites these with `npm run test:update`, so
 * that a review sees each change of a public name, key or bound as a changed line.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TSchema } from 'typebox'
import { helperRoutes, type Route, routes } from '../protocol/routes.ts'
import { asShape, isObject, type Shape } from '../protocol/schema-errors.ts'
import { declareClient } from './build.mjs'

const root = join(import.meta.dirname, '..')
const byName = <T>([a]: readonly [string, T], [b]: readonly [string, T]): number => (a < b ? -1 : 1)
const indented = (text: string): string => text.replace(/\n/g, '\n  ')

// ---- the protocol ------------------------------------------------------------------------------------------------

const PROTOCOL_HEAD = `The API of protocol/, written by "npm run test:update". A review reads the difference.

A record is closed unless it is "open". "key?" may be absent, "(added)" is unknown to the first form of the worker
channel, "(secret)" is never shown. "text 1..256" has so many characters, "list ..50" so many entries; "max" is the
highest integer that a number holds exactly.
`

export async function protocolReport(): Promise<string> {
  const schemas = new NamedSchemas(await exportedSchemas())
  const rows = [...Object.entries<Route>(routes), ...Object.entries<Route>(helperRoutes)].map(
    ([name, route]) => [`${route.path} ${route.method}`, routeText(name, route, schemas)] as const,
  )
  const texts = rows.sort(byName).map(([, text]) => text)
  return [PROTOCOL_HEAD, '## Routes', '', ...texts, '', '## Schemas', '', ...schemas.all(), ''].join('\n')
}

/** Every schema that a file of protocol/ exports, by the name of the export. */
async function exportedSchemas(): Promise<[string, Shape][]> {
  const paths = readdirSync(join(root, 'protocol'), { recursive: true, encoding: 'utf8' })
  const exports: [string, unknown][] = []
  // One after the other, because Jest fails on modules that two imports load at once.
  for (const path of paths.filter((name) => name.endsWith('.ts')))
    exports.push(...Object.entries<unknown>(await import(`../protocol/${path}`)))
  return exports.filter((entry): entry is [string, Shape] => isSchema(entry[1])).sort(byName)
}

const isSchema = (value: unknown): value is Shape =>
  isObject(value) && ('type' in value || 'anyOf' in value || 'enum' in value)

function routeText(name: string, route: Route, schemas: NamedSchemas): string {
  const { method, path, access, listeners, params, query, frames, response, errorStatuses } = route
  const named = (label: string, schema: TSchema | undefined): string[] =>
    schema === undefined ? [] : [`${label}: ${schemas.text(asShape(schema))}`]
  const status = frames === undefined ? (route.successStatus ?? 200) : 101
  const success = `${status}${route.isPaged ? ' in pages' : ''}`
  return indented(
    [
      `${method} ${path} ${name}: ${access} on ${listeners.join(', ')}`,
      ...schemas.keys(asShape(params ?? {})).map((key) => `path ${key}`),
      ...schemas.keys(asShape(query ?? {})).map((key) => `query ${key}`),
      ...named(route.isBodyOptional ? 'body?' : 'body', route.body),
      ...(typeof response === 'string' ? [`${success}: ${response}`] : named(success, response)),
      ...named('frames to the host', frames?.from),
      ...named('frames from the host', frames?.to),
      ...(errorStatuses.length === 0 ? [] : [`${errorStatuses.join(', ')}: ErrorBody`]),
    ].join('\n'),
  )
}

/** The schemas that have a name: a title, or else that of an export. */
class NamedSchemas {
  readonly #texts = new Map<string, string>()
  /** The names of exported patterns and words without a title, by their text. A bound alone has no name. */
  readonly #exports = new Map<string, string>()

  constructor(exported: readonly (readonly [string, Shape])[]) {
    for (const [name, shape] of exported)
      if (shape.title === undefined && (shape.pattern ?? shape.enum) !== undefined)
        this.#exports.set(this.#ownText(shape), name)
    for (const [, shape] of exported) this.text(shape)
  }

  all(): string[] {
    const exports = [...this.#exports].map(([text, name]) => [name, text] as const)
    return [...this.#texts, ...exports].sort(byName).map(([name, text]) => `${name} = ${text}`)
  }

  /** The name of a schema, or else its text. */
  text(shape: Shape): string {
    const own = this.#ownText(shape)
    if (shape.title === undefined) return this.#exports.get(own) ?? own
    let name = shape.title
    for (let count = 2; (this.#texts.get(name) ?? own) !== own; count++) name = `${shape.title}(${count})`
    this.#texts.set(name, own)
    return name
  }

  keys({ properties = {}, patternProperties = {}, required = [] }: Shape): string[] {
    const keys = Object.entries(properties).map(
      ([key, inner]) => `${key}${required.includes(key) ? '' : '?'}: ${this.#marked(inner)}`,
    )
    const patterns = Object.entries(patternProperties).map(
      ([key, inner]) => `/${key}/: ${this.#marked(inner)}`,
    )
    return [...keys, ...patterns].sort()
  }

  #marked(shape: Shape): string {
    return `${this.text(shape)}${shape['x-added'] ? ' (added)' : ''}${shape['x-secret'] ? ' (secret)' : ''}`
  }

  #ownText(shape: Shape): string {
    const { type = 'anything', pattern, exclusiveMinimum } = shape
    if (shape.anyOf !== undefined) return choice(shape.anyOf.map((branch) => this.#marked(branch)))
    if (shape.enum !== undefined) return choice(shape.enum.map((word) => JSON.stringify(word)))
    if (shape.const !== undefined) return JSON.stringify(shape.const)
    if (type === 'object') return this.#objectText(shape)
    if (type === 'array')
      return `list${range(shape.minItems, shape.maxItems)} of ${this.#marked(shape.items ?? {})}`
    const above = exclusiveMinimum === undefined ? '' : ` above ${exclusiveMinimum}`
    const bounds = range(shape.minLength ?? shape.minimum, shape.maxLength ?? shape.maximum)
    return `${type === 'string' ? 'text' : type}${above}${bounds}${pattern === undefined ? '' : ` /${pattern}/`}`
  }

  #objectText(shape: Shape): string {
    const head = shape.additionalProperties === false ? 'record' : 'open record'
    const lines = [
      `${head}${range(shape.minProperties, shape.maxProperties)}`,
      ...this.keys(shape).map(indented),
    ]
    return lines.join('\n  ')
  }
}

/** Branches that are more than a short line stand on a line each. */
function choice(branches: readonly string[]): string {
  const sorted = [...new Set(branches)].sort()
  const line = sorted.join(' | ')
  return line.length < 60 && !line.includes('\n') ? line : ['one of', ...sorted.map(indented)].join('\n  ')
}

function range(min: number | undefined, max: number | undefined): string {
  if (min === undefined && max === undefined) return ''
  return ` ${min ?? ''}..${max === Number.MAX_SAFE_INTEGER ? 'max' : (max ?? '')}`
}

// ---- the client --------------------------------------------------------------------------------------------------

const CLIENT_HEAD = `The API of client/, written by "npm run test:update". Its review reads the difference.

protocol/api.txt has the types of protocol/, and the routes, which are the functions of Client.
`

interface Declaration {
  readonly name: string
  readonly file: string
  readonly text: string
}

interface Module {
  readonly exported: readonly string[]
  /** Each name with its declaration, or with the file of client/ from which it comes. */
  readonly names: ReadonlyMap<string, Declaration | string>
}

/** @param folder receives the declarations that the compiler writes; they lack what nothing exported needs */
export function clientReport(folder: string): string {
  declareClient(folder)
  const types = join(folder, 'types', 'client')
  const modules = new Map(readdirSync(types).map((file) => [file, readModule(file, read(join(types, file)))]))
  const find = (file: string, name: string): Declaration[] => {
    const found = modules.get(file)?.names.get(name) ?? []
    return typeof found === 'string' ? find(found, name) : [found].flat()
  }
  const exportedBy = (entry: string): Set<Declaration> => {
    const files = [...read(join(folder, entry)).matchAll(/client\/(.*)\.ts/g)].map(
      ([, name]) => `${name}.d.ts`,
    )
    return new Set(
      files.flatMap((file) => modules.get(file)?.exported.flatMap((name) => find(file, name)) ?? []),
    )
  }
  const [node, browser] = [exportedBy('node.d.ts'), exportedBy('browser.d.ts')]
  const needed = new Set([...node, ...browser])
  // The loop also visits what it adds.
  for (const { file, text } of needed)
    for (const [name] of text.matchAll(/\b[A-Z]\w*/g))
      for (const declaration of find(file, name)) needed.add(declaration)
  const all = [...needed].sort((a, b) => (a.name < b.name ? -1 : 1))
  const section = (title: string, inNode: boolean, inBrowser: boolean): string[] => {
    const members = all.filter((each) => node.has(each) === inNode && browser.has(each) === inBrowser)
    return [`## ${title}`, '', ...members.map(({ text }) => text)]
  }
  return [
    CLIENT_HEAD,
    ...section('switchyard/client and switchyard/client/browser', true, true),
    ...section('switchyard/client only', true, false),
    ...section('switchyard/client/browser only', false, true),
    ...section('Not exported, but named above', false, false),
  ].join('\n')
}

const read = (path: string): string => readFileSync(path, 'utf8')

/** A statement ends with a line at the margin that ends with a semicolon or a brace. */
function readModule(file: string, source: string): Module {
  const names = new Map<string, Declaration | string>()
  const exported: string[] = []
  for (const [statement] of source.matchAll(/[\s\S]*?^(?![\s/*]).*[;}]$\n/gm)) {
    const body = statement.replace(/^(\/\*\*[\s\S]*?\*\/\n)*/, '')
    const [, keyword, list = '', from] =
      /^(im|ex)port (?:type )?\{(.*)\}(?: from '\.\/(.*)\.ts')?;/.exec(body) ?? []
    const [, mark, name] =
      /^(export )?(?:declare )?(?:class|const|function|interface|type) (\w+)/.exec(body) ?? []
    const listed = list.match(/\w+(?=,| $)/g) ?? []
    if (from !== undefined) for (const word of listed) names.set(word, `${from}.d.ts`)
    else if (keyword === 'ex') exported.push(...listed)
    else if (name !== undefined) {
      const before = names.get(name)
      const text = `${typeof before === 'object' ? before.text : ''}${withShortComments(statement)}`
      names.set(name, { name, file, text })
      if (mark !== undefined) exported.push(name)
    } else if (!body.startsWith('import ')) throw new Error(`${file}: unknown statement: ${body}`)
  }
  return { names, exported }
}

/** Each comment is its first sentence, and the last comment before a declaration is its own. */
function withShortComments(statement: string): string {
  return statement
    .replace(/^(\/\*\*[\s\S]*?\*\/\n)+(?=\/\*\*)/, '')
    .replace(/\/\*\*([\s\S]*?)\*\//g, (_, comment: string) => {
      const text = comment.replace(/(\s+|^)(\*\s*)?/g, ' ').trim()
      return `// ${/^.*?[.!?](?= |$)/.exec(text)?.[0] ?? text}`
    })
    .replace(/^ *#private;\n/gm, '')
    .replace(/^(export )?(declare )?/gm, '')
}
