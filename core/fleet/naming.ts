/**
 * Normalizes a worker's name to one short line of visible characters.
 */
import { WORKER_NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { collapseSpaces, stripInvisible } from '../safe-text.ts'

/**
 * The result may be empty. Control characters, line ends and tabs included, are removed without a space in their
 * place.
 */
export function normalizeWorkerName(text: string): string {
  const visible = collapseSpaces(stripInvisible(text))
  return Array.from(visible).slice(0, WORKER_NAME_CHARS_MAX).join('').trimEnd()
}

export function workerNameOrDefault(text: string, fallback: string): string {
  return normalizeWorkerName(text) || fallback
}
