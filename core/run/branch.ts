/**
 * Chooses the branch for a ticket's work.
 *
 * The tracker's proposal is used when git, a shell and a file system all accept the name and it is not the base
 * branch. Otherwise the name is derived from the ticket, the same each time, so a retry finds its branch again.
 */
import { createHash } from 'node:crypto'
import type { Ticket } from '../../protocol/run.ts'

const BRANCH_CHARS_MAX = 200

const SLUG_CHARS_MAX = 60
/** Branches that runs never work on, whatever a mapping calls its default branch. */
const TRUNKS: readonly string[] = ['main', 'master', 'trunk', 'develop', 'HEAD']

export function branchFor(ticket: Pick<Ticket, 'identifier' | 'branchName'>, base?: string): string {
  const { branchName } = ticket
  const usable = branchName !== undefined && branchName !== base && isBranchName(branchName)
  return usable ? branchName : `switchyard/${slugOf(ticket.identifier)}`
}

/** Stricter than git: only plain letters, and nothing that a command could read as an option, or a push as force. */
export function isBranchName(name: string): boolean {
  if (name.length > BRANCH_CHARS_MAX || TRUNKS.includes(name) || name.startsWith('refs/')) return false
  return name.split('/').every((part) => /^(?!.*(\.\.|\.lock$|\.$|@\{))\w[\w.+@-]*$/i.test(part))
}

/**
 * The usual ticket number, `ENG-12`. The lower case form belongs to such a number, so the identifier `eng-12` is not plain.
 */
const NUMBERED = /^[A-Z][A-Z0-9]*-[0-9]+$/
const PLAIN = /^[a-z0-9]+(-[a-z0-9]+)*$/
/** The suffix of a slug whose identifier is not plain. */
const HASHED = /(^|-)[0-9a-f]{8}$/

/** Shortening an identifier could give two tickets one branch, so a hash is appended then. */
function slugOf(identifier: string): string {
  if (identifier.length <= SLUG_CHARS_MAX && isUniqueInLowerCase(identifier)) return identifier.toLowerCase()
  const hash = createHash('sha256').update(identifier).digest('hex').slice(0, 8)
  const slug = identifier
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, SLUG_CHARS_MAX)
    .replace(/^-|-$/g, '')
  return slug === '' ? hash : `${slug}-${hash}`
}

/** Whether no other identifier keeps the same lower case form. */
function isUniqueInLowerCase(identifier: string): boolean {
  if (HASHED.test(identifier.toLowerCase())) return false
  if (NUMBERED.test(identifier)) return true
  return PLAIN.test(identifier) && !NUMBERED.test(identifier.toUpperCase())
}
