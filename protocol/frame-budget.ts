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
import { isSafeJson } from './parse.ts'
import { sanitizeObject } from './safe-json.ts'
import { asShape } from './schema-errors.ts'
import { applySchemaBounds, isTree, shrinkFrame, type Tree } from './shrink-frame.ts'
import { jsonBytes } from './text-budget.ts'
import { fitUsage } from './usage-budget.ts'

export function encodeFrame(frame: WorkerFrame | HostFrame): string {
  const text = isSendable(frame) ? JSON.stringify(frame) : undefined
  // No unit of a text has more than three bytes, so most need not be counted.
  if (text !== undefined && text.length * 3 <= WORKER_FRAME_BYTES_MAX) return text
  if (text !== undefined && Buffer.byteLength(text) <= WORKER_FRAME_BYTES_MAX) return text
  return JSON.stringify(fitFrame(frame))
}

/** The same frame, or one as like it as fits. For the wire: a usage snapshot may come out in its packed form. */
export function fitFrame<F extends WorkerFrame | HostFrame>(frame: F): F {
  if (isSendable(frame) && jsonBytes(frame) <= WORKER_FRAME_BYTES_MAX) return frame
  // Each step answers a frame of the same type as it was given.
  if (frame.type === 'run-usage-snapshot') return fitUsage(frame) as F
  return shrinkFrame(sanitizeFrame(frame)) as F
}

function isSendable(frame: WorkerFrame | HostFrame): boolean {
  if (holdsUncheckedJson(frame) && !isSafeJson(frame)) return false
  return isWorkerFrame(frame) ? checkWorkerFrame(frame).ok : checkHostFrame(frame).ok
}

const isWorkerFrame = (frame: WorkerFrame | HostFrame): frame is WorkerFrame => frame.type in workerFrames

/** Of all frames only an agent's own messages hold what no schema bounds. */
const holdsUncheckedJson = (frame: WorkerFrame | HostFrame): boolean =>
  frame.type === 'run-event' && frame.event.type === 'agent'

/** A copy of its own, in which no text and no list is longer than the schema allows. */
function sanitizeFrame(frame: WorkerFrame | HostFrame): Tree {
  const tables: Readonly<Record<string, object>> = { ...workerFrames, ...hostFrames }
  const copy = copyTree({ ...sanitizeMessage(frame) })
  const schema = tables[frame.type]
  if (schema !== undefined) applySchemaBounds(asShape(schema), copy)
  return copy
}

/** Texts are shared, not copied: a frame may be far larger than what will be left of it. */
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
