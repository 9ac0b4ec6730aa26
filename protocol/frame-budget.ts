/**
 * Turns a frame into text that its reader accepts, in length and in form, as the last step before sending.
 *
 * A refused frame closes the connection, and the worker sends it again after each reconnect, so one oversized text
 * would keep a worker away forever. Too long texts are therefore truncated and marked, the longest first; then lists
 * are shortened, oldest comments and last names first. Ids, links, numbers, credentials and scripts are never
 * truncated. A valid frame costs one check and one serialization.
 */
import {
  checkHostFrame,
  checkWorkerFrame,
  type HostFrame,
  hostFrames,
  type WorkerFrame,
  workerFrames,
} from './frames.ts'
import { TRUNCATED_TEXT_BYTES_MIN, WORKER_FRAME_BYTES_MAX } from './limits.ts'
import { isSafeJson } from './parse.ts'
import { sanitizeObject, TRUNCATION_MARK } from './safe-json.ts'
import { asShape, type Shape } from './schema-errors.ts'
import { jsonBytes, textBytes, truncateToBytes, truncateToChars } from './text-budget.ts'
import { fitUsage } from './usage-budget.ts'

export function encodeFrame(frame: WorkerFrame | HostFrame): string {
  const text = isSendable(frame) ? JSON.stringify(frame) : undefined
  // A UTF-16 unit has at most three bytes, so most frames need no exact count.
  if (text !== undefined && text.length * 3 <= WORKER_FRAME_BYTES_MAX) return text
  if (text !== undefined && Buffer.byteLength(text) <= WORKER_FRAME_BYTES_MAX) return text
  return JSON.stringify(fitFrame(frame))
}

/** Returns the same frame, or the closest frame that fits. For the wire only: a usage snapshot may come out packed. */
export function fitFrame<F extends WorkerFrame | HostFrame>(frame: F): F {
  if (isSendable(frame) && jsonBytes(frame) <= WORKER_FRAME_BYTES_MAX) return frame
  // Each function returns a frame of the type that it received.
  if (frame.type === 'run-usage-snapshot') return fitUsage(frame) as F
  return shrinkFrame(sanitizeFrame(frame)) as F
}

function isSendable(frame: WorkerFrame | HostFrame): boolean {
  if (holdsUncheckedJson(frame) && !isSafeJson(frame)) return false
  return isWorkerFrame(frame) ? checkWorkerFrame(frame).ok : checkHostFrame(frame).ok
}

const isWorkerFrame = (frame: WorkerFrame | HostFrame): frame is WorkerFrame => frame.type in workerFrames

/** Only the messages of an agent contain JSON that no schema limits. */
const holdsUncheckedJson = (frame: WorkerFrame | HostFrame): boolean =>
  frame.type === 'run-event' && frame.event.type === 'agent'

/** Copies a frame and applies the schema's limits to its texts and lists. */
function sanitizeFrame(frame: WorkerFrame | HostFrame): Tree {
  const tables: Readonly<Record<string, object>> = { ...workerFrames, ...hostFrames }
  const copy = copyTree({ ...sanitizeMessage(frame) })
  const schema = tables[frame.type]
  if (schema !== undefined) applySchemaBounds(asShape(schema), copy)
  return copy
}

/** Texts are shared and not copied, because the frame may be much larger than its shortened form. */
function copyTree(tree: Tree): Tree {
  return Object.fromEntries(Object.entries(tree).map(([key, value]) => [key, copyNode(value)]))
}

function copyNode(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyNode)
  return isTree(value) ? copyTree(value) : value
}

function sanitizeMessage(frame: WorkerFrame | HostFrame): WorkerFrame | HostFrame {
  if (frame.type !== 'run-event' || frame.event.type !== 'agent') return frame
  return { ...frame, event: { ...frame.event, message: sanitizeObject(frame.event.message) } }
}

// ---- limits of the schema ------------------------------------------------------------------------------------------

type Tree = Record<string, unknown>

/** Truncates prose and shortens lists to the limits of the schema. */
function applySchemaBounds(schema: Shape, tree: Tree): void {
  for (const [key, shape] of Object.entries(schema.properties ?? {})) {
    const value = tree[key]
    if (typeof value === 'string') {
      if (isProse(key)) tree[key] = truncateToChars(value, shape.maxLength ?? value.length)
    } else if (Array.isArray(value)) applyListBounds(shape, key, value)
    else if (isTree(value)) applySchemaBounds(matchingBranch(shape, value), value)
  }
}

function applyListBounds(schema: Shape, key: string, list: unknown[]): void {
  const excess = list.length - (schema.maxItems ?? list.length)
  if (excess > 0 && SHORTENABLE_LISTS.has(key)) dropItems(key, list, excess)
  for (const [i, item] of list.entries()) {
    if (isTree(item)) applySchemaBounds(matchingBranch(schema.items ?? {}, item), item)
    else if (typeof item === 'string' && isProse(key))
      list[i] = truncateToChars(item, schema.items?.maxLength ?? item.length)
  }
}

/** Returns the branch of a union that has the value's type. */
function matchingBranch(schema: Shape, value: Tree): Shape {
  return schema.anyOf?.find((branch) => branch.properties?.type?.const === value.type) ?? schema
}

// ---- limits of the frame -------------------------------------------------------------------------------------------

/**
 * Shortens the frame in place until it fits: prose first, the longest first; then breakdowns of sums; then lists.
 *
 * Only keys named here are changed, so no id, link, number, credential or script is ever cut in half, whatever frames are
 * added later.
 */
function shrinkFrame(frame: Tree): Tree {
  const excess = (): number => jsonBytes(frame) - WORKER_FRAME_BYTES_MAX
  truncateTexts(frame, CHARS, WORKER_FRAME_BYTES_MAX)
  if (excess() > 0) truncateTexts(frame, BYTES, totalProseBytes(frame) - excess())
  if (excess() > 0) removeKey(frame, 'breakdown')
  while (excess() > 0 && halveLongest(frame));
  if (excess() > 0) dropMessage(frame)
  return frame
}

const totalProseBytes = (frame: Tree): number =>
  longTexts(frame, BYTES.sizeOf).reduce((sum, { size }) => sum + size, 0)

/** Two ways to measure a text: by characters, fast and never too high; and by bytes, exactly. */
interface Measure {
  readonly sizeOf: (text: string) => number
  readonly truncate: (text: string, max: number) => string
}

const CHARS: Measure = { sizeOf: (text) => text.length, truncate: truncateToChars }
const BYTES: Measure = { sizeOf: textBytes, truncate: truncateToBytes }

/** Keys of texts for people. An agent's message is all prose, whatever its keys. */
const PROSE_KEYS = new Set(
  'text message reason error summary description title body diffHunk instructions queueReason facts memories'.split(
    ' ',
  ),
)
const isProse = (key: string): boolean => PROSE_KEYS.has(key)

interface Leaf {
  readonly holder: Tree | unknown[]
  readonly key: string
  readonly text: string
  readonly size: number
}

/** Truncates all texts to one level: the highest level at which they fit into the budget together. */
function truncateTexts(frame: Tree, { sizeOf, truncate }: Measure, budget: number): void {
  const leaves = longTexts(frame, sizeOf)
  const takenAt = (level: number): number => leaves.reduce((sum, { size }) => sum + Math.min(size, level), 0)
  let [fits, tooHigh] = [TRUNCATED_TEXT_BYTES_MIN, WORKER_FRAME_BYTES_MAX + 1]
  while (tooHigh - fits > 1) {
    const middle = Math.floor((fits + tooHigh) / 2)
    if (takenAt(middle) <= budget) fits = middle
    else tooHigh = middle
  }
  for (const { holder, key, text, size } of leaves)
    if (size > fits) Reflect.set(holder, key, truncate(text, fits))
}

function longTexts(frame: Tree, sizeOf: Measure['sizeOf']): Leaf[] {
  const leaves: Leaf[] = []
  const visit = (holder: Tree | unknown[], prose: boolean): void => {
    for (const [key, value] of Object.entries(holder)) {
      const reads = prose || isProse(key)
      if (typeof value === 'string') addLeaf(holder, key, value, reads)
      else if (Array.isArray(value) || isTree(value)) visit(value, reads)
    }
  }
  const addLeaf = (holder: Tree | unknown[], key: string, text: string, reads: boolean): void => {
    const size = reads ? sizeOf(text) : 0
    if (size > TRUNCATED_TEXT_BYTES_MIN) leaves.push({ holder, key, text, size })
  }
  visit(frame, false)
  return leaves
}

/** Removes parts whose sum stays. */
function removeKey(tree: Tree | unknown[], key: string): void {
  for (const [name, value] of Object.entries(tree)) {
    if (name === key) Reflect.deleteProperty(tree, name)
    else if (Array.isArray(value) || isTree(value)) removeKey(value, key)
  }
}

/** Lists whose oldest entries are dropped first; other lists lose their last entries. */
const NEWEST_LAST = new Set(['threads', 'reviews', 'comments', 'costs'])
const SHORTENABLE_LISTS = new Set([...NEWEST_LAST, 'memories', 'artifacts', 'labels', 'blockedBy', 'facts'])

/** Returns whether there was a list to halve. */
function halveLongest(frame: Tree): boolean {
  let longest: { key: string; list: unknown[]; bytes: number } | undefined
  const visit = (tree: Tree | unknown[]): void => {
    for (const [key, value] of Object.entries(tree)) {
      if (Array.isArray(value) && SHORTENABLE_LISTS.has(key) && value.length > 0) {
        const bytes = jsonBytes(value)
        if (bytes > (longest?.bytes ?? 0)) longest = { key, list: value, bytes }
      }
      if (Array.isArray(value) || isTree(value)) visit(value)
    }
  }
  visit(frame)
  if (longest !== undefined) dropItems(longest.key, longest.list, Math.ceil(longest.list.length / 2))
  return longest !== undefined
}

function dropItems(key: string, list: unknown[], count: number): void {
  list.splice(NEWEST_LAST.has(key) ? 0 : list.length - count, count)
}

/** Replaces a message of very many small values by a mark. */
function dropMessage(frame: Tree): void {
  const event = frame.event
  if (isTree(event) && isTree(event.message))
    event.message = {
      type: typeof event.message.type === 'string' ? event.message.type : 'message',
      [TRUNCATION_MARK]: true,
    }
}

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
