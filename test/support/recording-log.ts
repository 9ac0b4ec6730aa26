/** A log that keeps its entries for assertions, and meters that do nothing. */
import type { Log, Meters } from '../../core/ports/log.ts'
import type { AuditTrail } from '../../core/ports/store.ts'

export interface RecordingLog extends Log {
  readonly lines: { readonly level: string; readonly fields: object; readonly message: string }[]
}

export function createRecordingLog(): RecordingLog {
  const lines: RecordingLog['lines'] = []
  const keep = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, fields, message })
  return { lines, debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') }
}

export const noTrail: AuditTrail = { record: async () => {} }
export const noMeters: Meters = { count: () => {}, gauge: () => {}, observe: () => {} }
