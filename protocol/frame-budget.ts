/**
 * The last thing a sender does to a frame: it becomes text that its reader accepts, in length and in form.
 *
 * A frame that is refused costs the connection, and a reporting frame comes again with every new one: one text that
 * grew too long would keep a worker away for good. So what is too long gives way here, prose first, the longest first,
 * each with a mark where it was cut; then what lists hold beyond what fits, oldest comments and last names first.
 * Ids, links, numbers, credentials and scripts are never touched: half of one is worse than none.
 *
 * A frame that is in order costs one check and one JSON text.
 */

import {
  checkHostFrame,
  checkWorkerFrame,
  type HostFrame,
  hostFrames,
  type WorkerFrame,
  workerFrames,
} from './frames.ts'
import { WORKER_FRAME_BYTES_MAX } from './limits.ts'
import { isHarmless } from './parse.ts'
import { harmlessObject } from './safe-json.ts'
import { asShape } from './schema-errors.ts'
import { bound, isTree, shortened, type Tree } from './shrink-frame.ts'
import { jsonBytes } from './text-budget.ts'
import { fittingUsage } from './usage-budget.ts'

export function frameText(frame: WorkerFrame | HostFrame): string {
  const text = inOrder(frame) ? JSON.stringify(frame) : undefined
  // No unit of a text has more than three bytes, so most need not be counted.
  if (text !== undefined && text.length * 3 <= WORKER_FRAME_BYTES_MAX) return text
  if (text !== undefined && Buffer.byteLength(text) <= WORKER_FRAME_BYTES_MAX) return text
  return JSON.stringify(fitting(frame))
}

/** The same frame, or one as like it as fits. For the wire: a usage snapshot may come out in its packed form. */
export function fitting<F extends WorkerFrame | HostFrame>(frame: F): F {
  if (inOrder(frame) && jsonBytes(frame) <= WORKER_FRAME_BYTES_MAX) return frame
  // Each step answers a frame of the same type as it was given.
  if (frame.type === 'run-usage-snapshot') return fittingUsage(frame) as F
  return shortened(wellMade(frame)) as F
}

function inOrder(frame: WorkerFrame | HostFrame): boolean {
  if (isOpen(frame) && !isHarmless(frame)) return false
  return isWorkerFrame(frame) ? checkWorkerFrame(frame).ok : checkHostFrame(frame).ok
}

const isWorkerFrame = (frame: WorkerFrame | HostFrame): frame is WorkerFrame => frame.type in workerFrames

/** Of all frames only an agent's own messages hold what no schema bounds. */
const isOpen = (frame: WorkerFrame | HostFrame): boolean =>
  frame.type === 'run-event' && frame.event.type === 'agent'

/** A copy of its own, in which no text and no list is longer than the schema allows. */
function wellMade(frame: WorkerFrame | HostFrame): Tree {
  const tables: Readonly<Record<string, object>> = { ...workerFrames, ...hostFrames }
  const copy = copied({ ...withHarmlessMessage(frame) })
  const schema = tables[frame.type]
  if (schema !== undefined) bound(asShape(schema), copy)
  return copy
}

/** Texts are shared, not copied: a frame may be far larger than what will be left of it. */
function copied(tree: Tree): Tree {
  return Object.fromEntries(Object.entries(tree).map(([key, value]) => [key, copyOf(value)]))
}

function copyOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyOf)
  return isTree(value) ? copied(value) : value
}

function withHarmlessMessage(frame: WorkerFrame | HostFrame): WorkerFrame | HostFrame {
  if (frame.type !== 'run-event' || frame.event.type !== 'agent') return frame
  return { ...frame, event: { ...frame.event, message: harmlessObject(frame.event.message) } }
}
