/** Words and instants of the inspector. */
import type { ShownFields } from '../../protocol/inspection.ts'

/** `14:07:58.123` in local time. */
export function clockWithMs(at: number): string {
  const date = new Date(at)
  const part = (value: number, digits = 2) => String(value).padStart(digits, '0')
  return `${part(date.getHours())}:${part(date.getMinutes())}:${part(date.getSeconds())}.${part(date.getMilliseconds(), 3)}`
}

const REPLACED = /^\(text, \d+ characters?\)$/

/**
 * How many fields of a context are shown, and how many it has.
 *
 * @param hidden the fields that are left out, or whose texts are replaced by their lengths
 */
export function countFields(context: ShownFields, hidden: number): { shown: number; all: number } {
  const values = Object.values(context)
  const replaced = values.filter((value) => typeof value === 'string' && REPLACED.test(value)).length
  const shown = values.length - replaced
  return { shown, all: shown + Math.max(hidden, replaced) }
}
