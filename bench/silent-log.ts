/** A log that prints only problems, and meters that count nothing, so that neither is measured. */
import type { Log, Meters } from '../core/ports.ts'

const nothing = (): void => {}
const printProblem = (fields: object, message: string): void => console.error(message, fields)

export const silentLog: Log = { debug: nothing, info: nothing, warn: printProblem, error: printProblem }
export const noMeters: Meters = { count: nothing, gauge: nothing, observe: nothing }
