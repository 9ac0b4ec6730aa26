/**
 * What gives way in a frame that is too long: prose first, the longest first; then breakdowns of sums that stand beside
 * them; then what lists hold beyond what fits.
 *
 * Works on a copy that the caller owns. Only keys named here are ever touched, so that no id, link, number, credential
 * or script can be cut in half, whatever a frame will look like one day.
 */

import { CUT_TEXT_BYTES_MIN, WORKER_FRAME_BYTES_MAX } from './limits.ts'
import { CUT_MARK } from './safe-json.ts'
import type { Shape } from './schema-errors.ts'
import { cutToBytes, cutToChars, jsonBytes, textBytes } from './text-budget.ts'

// ---- what a schema bounds ------------------------------------------------------------------------------------------

export type Tree = Record<string, unknown>

/** No prose in it is longer, and no list that may be shortened, than its schema allows. */
export function bound(schema: Shape, tree: Tree): void {
  for (const [key, shape] of Object.entries(schema.properties ?? {})) {
    const value = tree[key]
    if (typeof value === 'string') {
      if (isProse(key)) tree[key] = cutToChars(value, shape.maxLength ?? value.length)
    } else if (Array.isArray(value)) boundList(shape, key, value)
    else if (isTree(value)) bound(branchFor(shape, value), value)
  }
}

function boundList(schema: Shape, key: string, list: unknown[]): void {
  const excess = list.length - (schema.maxItems ?? list.length)
  if (excess > 0 && SHORTENED.has(key)) drop(key, list, excess)
  for (const [i, item] of list.entries()) {
    if (isTree(item)) bound(branchFor(schema.items ?? {}, item), item)
    else if (typeof item === 'string' && isProse(key))
      list[i] = cutToChars(item, schema.items?.maxLength ?? item.length)
  }
}

/** Of a union, the branch of the value's own type. */
function branchFor(schema: Shape, value: Tree): Shape {
  return schema.anyOf?.find((one) => one.properties?.type?.const === value.type) ?? schema
}

// ---- what a frame bounds -------------------------------------------------------------------------------------------

/** In place: no longer than a frame may be. */
export function shortened(frame: Tree): Tree {
  const excess = (): number => jsonBytes(frame) - WORKER_FRAME_BYTES_MAX
  cutTexts(frame, CHARS, WORKER_FRAME_BYTES_MAX)
  if (excess() > 0) cutTexts(frame, BYTES, proseBytes(frame) - excess())
  if (excess() > 0) strip(frame, 'breakdown')
  while (excess() > 0 && halveLongest(frame));
  if (excess() > 0) dropMessage(frame)
  return frame
}

const proseBytes = (frame: Tree): number =>
  longTexts(frame, BYTES.sizeOf).reduce((sum, { size }) => sum + size, 0)

/** Two ways to measure a text: quickly, never finding too much; and exactly. */
interface Measure {
  readonly sizeOf: (text: string) => number
  readonly cut: (text: string, max: number) => string
}

const CHARS: Measure = { sizeOf: (text) => text.length, cut: cutToChars }
const BYTES: Measure = { sizeOf: textBytes, cut: cutToBytes }

/** What people read. An agent's message is all prose, whatever its keys. */
const PROSE = new Set(
  'text message reason error summary description title body diffHunk instructions queueReason facts memories'.split(
    ' ',
  ),
)
const isProse = (key: string): boolean => PROSE.has(key)

interface Leaf {
  readonly holder: Tree | unknown[]
  readonly key: string
  readonly text: string
  readonly size: number
}

/** All texts longer than a level are cut to that level: the highest at which they take no more than there is room. */
function cutTexts(frame: Tree, { sizeOf, cut }: Measure, room: number): void {
  const leaves = longTexts(frame, sizeOf)
  const takenAt = (level: number): number => leaves.reduce((sum, { size }) => sum + Math.min(size, level), 0)
  let [fits, tooHigh] = [CUT_TEXT_BYTES_MIN, WORKER_FRAME_BYTES_MAX + 1]
  while (tooHigh - fits > 1) {
    const middle = Math.floor((fits + tooHigh) / 2)
    if (takenAt(middle) <= room) fits = middle
    else tooHigh = middle
  }
  for (const { holder, key, text, size } of leaves) if (size > fits) Reflect.set(holder, key, cut(text, fits))
}

function longTexts(frame: Tree, sizeOf: Measure['sizeOf']): Leaf[] {
  const leaves: Leaf[] = []
  const look = (holder: Tree | unknown[], prose: boolean): void => {
    for (const [key, value] of Object.entries(holder)) {
      const reads = prose || isProse(key)
      if (typeof value === 'string') note(holder, key, value, reads)
      else if (Array.isArray(value) || isTree(value)) look(value, reads)
    }
  }
  const note = (holder: Tree | unknown[], key: string, text: string, reads: boolean): void => {
    const size = reads ? sizeOf(text) : 0
    if (size > CUT_TEXT_BYTES_MIN) leaves.push({ holder, key, text, size })
  }
  look(frame, false)
  return leaves
}

/** Sums stand beside their parts; the parts go first. */
function strip(tree: Tree | unknown[], key: string): void {
  for (const [name, value] of Object.entries(tree)) {
    if (name === key) Reflect.deleteProperty(tree, name)
    else if (Array.isArray(value) || isTree(value)) strip(value, key)
  }
}

/** Conversations are long at their old end; of everything else what came first is kept. */
const NEWEST_LAST = new Set(['threads', 'reviews', 'comments', 'costs'])
const SHORTENED = new Set([...NEWEST_LAST, 'memories', 'artifacts', 'labels', 'blockedBy', 'facts'])

/** Answers whether there was anything left to halve. */
function halveLongest(frame: Tree): boolean {
  let longest: { key: string; list: unknown[]; bytes: number } | undefined
  const look = (tree: Tree | unknown[]): void => {
    for (const [key, value] of Object.entries(tree)) {
      if (Array.isArray(value) && SHORTENED.has(key) && value.length > 0) {
        const bytes = jsonBytes(value)
        if (bytes > (longest?.bytes ?? 0)) longest = { key, list: value, bytes }
      }
      if (Array.isArray(value) || isTree(value)) look(value)
    }
  }
  look(frame)
  if (longest !== undefined) drop(longest.key, longest.list, Math.ceil(longest.list.length / 2))
  return longest !== undefined
}

function drop(key: string, list: unknown[], count: number): void {
  list.splice(NEWEST_LAST.has(key) ? 0 : list.length - count, count)
}

/** A message of a hundred thousand small things: only that it was there is left. */
function dropMessage(frame: Tree): void {
  const event = frame.event
  if (isTree(event) && isTree(event.message))
    event.message = {
      type: typeof event.message.type === 'string' ? event.message.type : 'message',
      [CUT_MARK]: true,
    }
}

export const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
