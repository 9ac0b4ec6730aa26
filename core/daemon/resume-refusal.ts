/**
 * The reason why a sandbox could not be booted, as one sentence from the worker to the host.
 *
 * A permanent reason starts with its kind, as a refused dispatch starts with its class. All other reasons are
 * temporary.
 */
import { no, type Refusal, type Refused } from '../result.ts'

const LASTING_KINDS = ['gone', 'invalid'] as const

export function formatBootRefusal({ kind, message }: Refusal): string {
  return LASTING_KINDS.some((lasting) => lasting === kind) ? `${kind}: ${message}` : message
}

export function parseBootRefusal(text: string): Refused {
  const kind = LASTING_KINDS.find((lasting) => text.startsWith(`${lasting}: `))
  return kind === undefined ? no('conflict', text) : no(kind, text.slice(`${kind}: `.length))
}
