/** A log that prints only problems, meters that count nothing and a trail that keeps nothing, so that none is measured. */
import type { Log, Meters } from '../core/ports/log.ts'
import type { AuditTrail } from '../core/ports/store.ts'

const nothing = (): void => {}
const printProblem = (fields: object, message: string): void => console.error(message, fields)

export const silentLog: Log = { debug: nothing, info: nothing, warn: printProblem, error: printProblem }
export const noTrail: AuditTrail = { record: async () => {} }
export const noMeters: Meters = { count: nothing, gauge: nothing, observe: nothing }
