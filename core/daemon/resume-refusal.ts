/**
 * Why a sandbox could not be booted, in one sentence that travels from its worker to its host.
 *
 * What lasts has its kind in front, as a refused dispatch has its class; whatever else is wrong may pass.
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
