/**
 * `findOutsideReference` finds what a vendor would fetch, or has kept, in the conversation of a request.
 *
 * An address of an image makes the vendor ask a server of the sandbox's choice, with data in the name. Arguments of the
 * agent's own tools are texts to the vendor, and are not searched.
 */
import type { ServerTool } from '../../protocol/agents/model-use.ts'
import { isObject, type JsonObject, textAt } from '../agents/json-lines.ts'

export interface OutsideReference {
  readonly what: string
  /** Absent: no setting allows it. */
  readonly tool?: ServerTool
}

/** Values under these keys are arguments and results of the agent's own tools. */
const OWN_DATA = new Set(['arguments', 'args', 'response'])
const ADDRESS_KEY = /^(?:image|video|audio|file|input|document)_?url$/i
const FILE_KEY = /^(?:file_?id|file_?ids|file_?uri)$/i

export function findOutsideReference(
  value: unknown,
  allowed: readonly ServerTool[],
): OutsideReference | undefined {
  const left: unknown[] = [value]
  while (left.length > 0) {
    const next = left.pop()
    if (Array.isArray(next)) for (const each of next) left.push(each)
    else if (isObject(next)) {
      const found = referenceIn(next)
      if (found !== undefined && !(found.tool !== undefined && allowed.includes(found.tool))) return found
      for (const [key, inner] of Object.entries(next))
        if (typeof inner === 'object' && !isOwnData(next, key)) left.push(inner)
    }
  }
  return undefined
}

const isOwnData = (holder: JsonObject, key: string): boolean =>
  OWN_DATA.has(key) || (key === 'input' && String(holder.type).endsWith('tool_use'))

function referenceIn(object: JsonObject): OutsideReference | undefined {
  const type = textAt(object, 'type')
  if (type === 'container_upload') return { what: 'a file of a container', tool: 'code_execution' }
  if (type === 'item_reference') return { what: 'a stored item' }
  for (const [key, value] of Object.entries(object)) {
    if (key === 'source' && isObject(value)) {
      const kind = textAt(value, 'type')
      if (kind === 'url') return { what: 'an address to fetch', tool: 'urls' }
      if (kind === 'file') return { what: 'a stored file', tool: 'files' }
    }
    if (ADDRESS_KEY.test(key) && isAddress(value)) return { what: 'an address to fetch', tool: 'urls' }
    if (FILE_KEY.test(key) && (typeof value === 'string' || Array.isArray(value)))
      return isForeignFile(value)
        ? { what: 'an address to fetch', tool: 'urls' }
        : { what: 'a stored file', tool: 'files' }
  }
  return undefined
}

/** A file that the request itself brings along has no address. */
function isAddress(value: unknown): boolean {
  if (isObject(value)) return isAddress(value.url)
  return typeof value === 'string' && !value.startsWith('data:')
}

/** Gemini names its stored files by address too. */
const STORED_FILE = /^https:\/\/generativelanguage\.googleapis\.com\/v1(?:alpha|beta)?\/files\/[\w-]+$/

const isForeignFile = (value: unknown): boolean =>
  typeof value === 'string' && /^[a-z][a-z\d+.-]*:/i.test(value) && !STORED_FILE.test(value)
