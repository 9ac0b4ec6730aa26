/** A log that speaks only of trouble, and meters that count nothing: neither is what is measured. */
import type { Log, Meters } from '../core/ports.ts'

const nothing = (): void => {}
const complain = (fields: object, message: string): void => console.error(message, fields)

export const mute: Log = { debug: nothing, info: nothing, warn: complain, error: complain }
export const noMeters: Meters = { count: nothing, gauge: nothing, observe: nothing }
