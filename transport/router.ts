/**
 * From a path to what may be asked there.
 *
 * Paths are compared as they came over the wire: only the values of parameters are percent-decoded, once, after the
 * path was split, so an encoded slash can never move a border and `/api/%68ealth` is simply not `/api/health`.
 * A static path costs one map look-up; one with parameters costs one step a segment.
 */
export interface Pattern {
  readonly method: string
  readonly path: string
}

/** Everything that may be asked at one path, by method. */
export interface Place<T> {
  readonly byMethod: ReadonlyMap<string, T>
  /** For `Allow` and for preflight answers: `GET, PUT`. */
  readonly allow: string
  /** Names of the path's parameters, in order. */
  readonly names: readonly string[]
}

export interface Found<T> {
  readonly place: Place<T>
  /** Still percent-encoded, in the order of `place.names`. */
  readonly raw: readonly string[]
}

export type Router<T> = (path: string) => Found<T> | undefined

export type Params = Readonly<Record<string, string>>

interface Node<T> {
  readonly next: Map<string, Node<T>>
  param: Node<T> | undefined
  place: Place<T> | undefined
}

export function router<T extends Pattern>(rows: readonly T[]): Router<T> {
  const statics = new Map<string, Found<T>>()
  const root: Node<T> = emptyNode()
  for (const [path, same] of grouped(rows)) {
    const place = placeOf(path, same)
    if (place.names.length === 0) statics.set(path, { place, raw: [] })
    else plant(root, path, place)
  }
  return (path) => statics.get(path) ?? climb(root, path)
}

/** Percent-decodes the values of a path's parameters. `undefined`: one of them is not valid encoding. */
export function decodeParams<T>(found: Found<T>): Params | undefined {
  const params: Record<string, string> = {}
  for (const [at, name] of found.place.names.entries()) {
    const value = decoded(found.raw[at] ?? '')
    if (value === undefined) return undefined
    params[name] = value
  }
  return params
}

/** One percent-decoding; `undefined` when the text is not valid encoding of UTF-8. */
export function decoded(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

function grouped<T extends Pattern>(rows: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const row of rows) groups.set(row.path, [...(groups.get(row.path) ?? []), row])
  return groups
}

function placeOf<T extends Pattern>(path: string, rows: readonly T[]): Place<T> {
  return {
    byMethod: new Map(rows.map((row) => [row.method, row])),
    allow: rows.map((row) => row.method).join(', '),
    names: segments(path)
      .filter(isParam)
      .map((segment) => segment.slice(1)),
  }
}

function plant<T>(root: Node<T>, path: string, place: Place<T>): void {
  let node = root
  for (const segment of segments(path)) node = isParam(segment) ? paramOf(node) : childOf(node, segment)
  if (node.place !== undefined)
    throw new Error(`two routes share the shape of ${path} but not its parameter names`)
  node.place = place
}

/** A literal segment wins over a parameter where both fit, and there is no way back: no route here needs one. */
function climb<T>(root: Node<T>, path: string): Found<T> | undefined {
  let node = root
  const raw: string[] = []
  for (const segment of segments(path)) {
    const literal = node.next.get(segment)
    if (literal === undefined && (node.param === undefined || segment === '')) return undefined
    if (literal === undefined) raw.push(segment)
    node = literal ?? node.param ?? node
  }
  return node.place === undefined ? undefined : { place: node.place, raw }
}

function childOf<T>(node: Node<T>, segment: string): Node<T> {
  const known = node.next.get(segment)
  if (known !== undefined) return known
  const fresh = emptyNode<T>()
  node.next.set(segment, fresh)
  return fresh
}

function paramOf<T>(node: Node<T>): Node<T> {
  node.param ??= emptyNode()
  return node.param
}

const emptyNode = <T>(): Node<T> => ({ next: new Map(), param: undefined, place: undefined })
const segments = (path: string): string[] => path.split('/').slice(1)
const isParam = (segment: string): boolean => segment.startsWith(':')
