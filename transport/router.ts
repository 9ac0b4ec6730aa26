/**
 * Finds the routes of a path.
 *
 * Paths are compared without decoding. Only parameter values are percent-decoded, once, after the path was split, so an
 * encoded slash never splits a segment and `/api/%68ealth` is not `/api/health`. A static path costs one map lookup, a
 * path with parameters one step per segment.
 */
export interface Pattern {
  readonly method: string
  readonly path: string
}

/** All routes of one path, by method. */
export interface PathRoutes<T> {
  readonly byMethod: ReadonlyMap<string, T>
  /** For `Allow` and for preflight answers: `GET, PUT`. */
  readonly allow: string
  /** The names of the path's parameters, in order. */
  readonly names: readonly string[]
}

export interface RouteMatch<T> {
  readonly path: PathRoutes<T>
  /** Still percent-encoded, in the order of `place.names`. */
  readonly rawValues: readonly string[]
}

export type Router<T> = (path: string) => RouteMatch<T> | undefined

export type Params = Readonly<Record<string, string>>

interface PathNode<T> {
  readonly children: Map<string, PathNode<T>>
  param: PathNode<T> | undefined
  place: PathRoutes<T> | undefined
}

export function createRouter<T extends Pattern>(rows: readonly T[]): Router<T> {
  const statics = new Map<string, RouteMatch<T>>()
  const root: PathNode<T> = emptyNode()
  for (const [path, same] of groupByPath(rows)) {
    const place = pathRoutes(path, same)
    if (place.names.length === 0) statics.set(path, { path: place, rawValues: [] })
    else addPath(root, path, place)
  }
  return (path) => statics.get(path) ?? matchPath(root, path)
}

const NO_PARAMS: Params = Object.freeze({})

/** Percent-decodes the values of a path's parameters. `undefined`: one of them is not valid encoding. */
export function decodeParams<T>(found: RouteMatch<T>): Params | undefined {
  if (found.rawValues.length === 0) return NO_PARAMS
  const params: Record<string, string> = {}
  for (const [at, name] of found.path.names.entries()) {
    const value = percentDecode(found.rawValues[at] ?? '')
    if (value === undefined) return undefined
    params[name] = value
  }
  return params
}

/** Percent-decodes once; `undefined` when the text is not valid encoding of UTF-8. */
export function percentDecode(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

function groupByPath<T extends Pattern>(rows: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const row of rows) groups.set(row.path, [...(groups.get(row.path) ?? []), row])
  return groups
}

function pathRoutes<T extends Pattern>(path: string, rows: readonly T[]): PathRoutes<T> {
  return {
    byMethod: new Map(rows.map((row) => [row.method, row])),
    allow: rows.map((row) => row.method).join(', '),
    names: segments(path)
      .filter(isParam)
      .map((segment) => segment.slice(1)),
  }
}

function addPath<T>(root: PathNode<T>, path: string, place: PathRoutes<T>): void {
  let node = root
  for (const segment of segments(path)) node = isParam(segment) ? paramOf(node) : childOf(node, segment)
  if (node.place !== undefined)
    throw new Error(`two routes share the shape of ${path} but not its parameter names`)
  node.place = place
}

/** A literal segment wins over a parameter where both match, without backtracking: no route needs it. */
function matchPath<T>(root: PathNode<T>, path: string): RouteMatch<T> | undefined {
  let node = root
  const raw: string[] = []
  for (const segment of segments(path)) {
    const literal = node.children.get(segment)
    if (literal === undefined && (node.param === undefined || segment === '')) return undefined
    if (literal === undefined) raw.push(segment)
    node = literal ?? node.param ?? node
  }
  return node.place === undefined ? undefined : { path: node.place, rawValues: raw }
}

function childOf<T>(node: PathNode<T>, segment: string): PathNode<T> {
  const known = node.children.get(segment)
  if (known !== undefined) return known
  const fresh = emptyNode<T>()
  node.children.set(segment, fresh)
  return fresh
}

function paramOf<T>(node: PathNode<T>): PathNode<T> {
  node.param ??= emptyNode()
  return node.param
}

const emptyNode = <T>(): PathNode<T> => ({ children: new Map(), param: undefined, place: undefined })
const segments = (path: string): string[] => path.split('/').slice(1)
const isParam = (segment: string): boolean => segment.startsWith(':')
