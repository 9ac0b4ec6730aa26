/**
 * Normalizes the name of a worker or a join key to one short line of visible characters.
 */
import { WORKER_NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { collapseSpaces, stripInvisible } from '../safe-text.ts'

/**
 * The result may be empty. Control characters, line ends and tabs included, are removed without a space in their
 * place.
 */
export const normalizeWorkerName = (text: string): string => normalizeName(text, WORKER_NAME_CHARS_MAX)

export function normalizeName(text: string, charsMax: number): string {
  const visible = collapseSpaces(stripInvisible(text))
  return Array.from(visible).slice(0, charsMax).join('').trimEnd()
}

export function workerNameOrDefault(text: string, fallback: string): string {
  return normalizeWorkerName(text) || fallback
}
