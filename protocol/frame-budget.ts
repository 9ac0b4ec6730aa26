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
import { WORKER_FRAME_BYTES_MAX } from './limits.ts'
import { isSafeJson } from './parse.ts'
import { sanitizeObject } from './safe-json.ts'
import { asShape } from './schema-errors.ts'
import { applySchemaBounds, isTree, shrinkFrame, type Tree } from './shrink-frame.ts'
import { jsonBytes } from './text-budget.ts'
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
