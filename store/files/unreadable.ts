/** Tells failures of a read that last, and so are damage of the file, from those of the process or of the moment. */
import { codeOf } from '../errors.ts'

/** A bad block, something else in the place of the file, or a file of another user. */
const LASTING = new Set<unknown>(['EIO', 'EISDIR', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM'])

export const isUnreadable = (error: unknown): boolean => LASTING.has(codeOf(error))

export const describeUnreadable = (error: unknown): string => `unreadable (${codeOf(error)})`
