/** Builds gates. A message or a cure that names foreign texts may be long, so both are bounded. */
import type { Gate, GateId } from '../../protocol/explain.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { toSingleLine, truncate } from '../safe-text.ts'

const bounded = (text: string): string => truncate(toSingleLine(text), TEXT_CHARS_MAX)

function gate(id: GateId, status: Gate['status'], message: string, cure: string | undefined): Gate {
  return {
    id,
    status,
    message: bounded(message),
    ...(cure === undefined ? {} : { cure: bounded(cure) }),
  }
}

export const pass = (id: GateId, message: string): Gate => gate(id, 'pass', message, undefined)
/** The gate opens by itself. */
export const wait = (id: GateId, message: string, cure?: string): Gate => gate(id, 'wait', message, cure)
/** A person must act. */
export const stop = (id: GateId, message: string, cure?: string): Gate => gate(id, 'stop', message, cure)

/** The words before a cure that time makes unnecessary. */
export const orElse = (command: string): string => `wait, or: ${command}`
