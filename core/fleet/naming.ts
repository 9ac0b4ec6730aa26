/**
 * What a worker may be called: a short line of visible characters, for lists and terminals.
 */
import { WORKER_NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { collapseSpaces, stripInvisible } from '../safe-text.ts'

/** May come out empty. Control characters go, line ends and tabs among them; they do not become spaces. */
export function normalizeWorkerName(text: string): string {
  const visible = collapseSpaces(stripInvisible(text))
  return Array.from(visible).slice(0, WORKER_NAME_CHARS_MAX).join('').trimEnd()
}

export function workerNameOrDefault(text: string, fallback: string): string {
  return normalizeWorkerName(text) || fallback
}
