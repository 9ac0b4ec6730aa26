/** Rules that the filters of the vendors' bodies share: keys by list, vendors' tools, refusals that name a setting. */
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import type { ServerTool } from '../../protocol/agents/model-use.ts'
import { field, type JsonObject } from '../agents/json-lines.ts'

export interface BodyRules {
  readonly serverTools: readonly ServerTool[]
  /** Receives the name of each part that is left out. */
  readonly drop: (what: string) => void
  /** The path of the request. */
  readonly path: string
}

/** Returns what of a body may pass. Dropped parts change no meaning that the agent relies on; the rest is refused. */
export type FilterBody = (body: JsonObject, rules: BodyRules) => Result<JsonObject>

export function pickKeys(
  object: JsonObject,
  names: ReadonlySet<string>,
  { drop }: BodyRules,
  prefix = '',
): JsonObject {
  const kept = Object.entries(object).filter(([name]) => names.has(name))
  for (const name of Object.keys(object)) if (!names.has(name)) drop(`${prefix}${name}`)
  return Object.fromEntries(kept)
}

/** `tool` absent: no setting allows it. */
export function refuse(what: string, tool?: ServerTool): Refused {
  const cure = tool === undefined ? 'no setting allows it' : `agent.serverTools can allow it with "${tool}"`
  return no('forbidden', `a request with ${what} is not passed on: it leads beyond the model; ${cure}`)
}

/** Refuses a body that uses one of the keys, unless the tool beside it is allowed. */
export function refuseKeys(
  body: JsonObject,
  keys: Readonly<Record<string, ServerTool | undefined>>,
  { serverTools }: BodyRules,
): Refused | undefined {
  for (const [key, tool] of Object.entries(keys)) {
    const value = field(body, key)
    const isUsed =
      value !== undefined &&
      value !== null &&
      value !== false &&
      !(Array.isArray(value) && value.length === 0)
    if (isUsed && (tool === undefined || !serverTools.includes(tool))) return refuse(key, tool)
  }
  return undefined
}

/** `own`: the agent runs it. Otherwise the vendor does; without a `tool`, no setting allows it. */
export type ToolKind =
  | { readonly is: 'own' }
  | { readonly is: 'vendors'; readonly name: string; readonly tool?: ServerTool }

export interface SortedTools {
  readonly kept: readonly unknown[]
  /** The names of those that were left out. */
  readonly stripped: ReadonlySet<string>
}

export function sortTools(
  tools: readonly unknown[],
  kindOf: (tool: unknown) => ToolKind,
  { serverTools, drop }: BodyRules,
): Result<SortedTools> {
  const [kept, stripped]: [unknown[], Set<string>] = [[], new Set()]
  for (const each of tools) {
    const kind = kindOf(each)
    if (kind.is === 'own' || (kind.tool !== undefined && serverTools.includes(kind.tool))) kept.push(each)
    else if (kind.tool === 'mcp') return refuse('a remote MCP server', 'mcp')
    else {
      stripped.add(kind.name)
      drop(`the tool ${kind.name}`)
    }
  }
  return yes({ kept, stripped })
}
