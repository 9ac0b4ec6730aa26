/**
 * These functions word the problems of a ticket folder and of its files. Each names the file or folder, and the cure.
 *
 * Problems with the content of a file are worded in `ticket-file.ts`.
 */
import { no, type Refused } from '../../../core/result.ts'
import { TICKET_FILE_BYTES_MAX, TICKET_FILES_MAX, TICKET_PROBLEMS_MAX } from '../../../protocol/limits.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { errorCode, errorText } from './errors.ts'

export function largeFileProblem(name: string): string {
  return `${printable(name)} has more than ${TICKET_FILE_BYTES_MAX} bytes; shorten it`
}

export function repeatedIdProblem(name: string, id: string, firstName: string): string {
  return `${printable(name)} has the id ${printable(id)}, as ${printable(firstName)} has; change one of them`
}

export function unprintableNameProblem(name: string): string {
  return `${printable(name)} has characters in its name that do not print; rename it`
}

export function unreadableFileProblem(name: string, error: unknown): string {
  const advice = errorCode(error) === 'EACCES' ? '; give switchyard the right to read it' : ''
  return `${printable(name)} cannot be read (${printable(errorText(error))})${advice}`
}

/** Empty when all files are read. */
export function manyFilesProblems(fileCount: number): string[] {
  if (fileCount <= TICKET_FILES_MAX) return []
  return [
    `only the first ${TICKET_FILES_MAX} of ${fileCount} files are read; move closed tickets to another folder`,
  ]
}

/** Keeps the first `TICKET_PROBLEMS_MAX` problems, and counts the rest. */
export function limitProblems(problems: readonly string[]): readonly string[] {
  const more = problems.length - TICKET_PROBLEMS_MAX
  if (more <= 0) return problems
  return [...problems.slice(0, TICKET_PROBLEMS_MAX), `${more} more files have problems; fix these first`]
}

export function refuseUnreadableFolder(path: string, error: unknown): Refused {
  const code = errorCode(error)
  const shown = printable(path)
  const advice = 'or set tracker.path to the folder that holds the tickets'
  if (code === 'ENOENT')
    return no('invalid', `tracker.path: ${shown} does not exist; make that folder, ${advice}`)
  if (code === 'ENOTDIR')
    return no('invalid', `tracker.path: ${shown} is not a folder; make it one, ${advice}`)
  if (code === 'EACCES')
    return no('invalid', `tracker.path: ${shown} may not be read; give switchyard the right to, ${advice}`)
  return no('failed', `tracker.path: ${shown} cannot be read (${printable(errorText(error))})`)
}
