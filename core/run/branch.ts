/**
 * The branch that a ticket's work goes to.
 *
 * The tracker's own proposal when it is a name that git, a shell and a file system all take, and is not the branch
 * that the work starts from; else one of ours, which is the same each time, so that a retry finds its branch again.
 */
import { createHash } from 'node:crypto'
import { BRANCH_CHARS_MAX } from '../../protocol/limits.ts'
import type { Ticket } from '../../protocol/run.ts'

const SLUG_CHARS_MAX = 60
/** Never worked on, whatever a mapping calls its default branch. */
const TRUNKS: readonly string[] = ['main', 'master', 'trunk', 'develop', 'HEAD']

export function branchFor(ticket: Pick<Ticket, 'identifier' | 'branchName'>, base?: string): string {
  const { branchName } = ticket
  const usable = branchName !== undefined && branchName !== base && isBranchName(branchName)
  return usable ? branchName : `switchyard/${slugOf(ticket.identifier)}`
}

/** Stricter than git: plain letters only, and nothing that a command could take for an option, or a push for force. */
export function isBranchName(name: string): boolean {
  if (name.length > BRANCH_CHARS_MAX || TRUNKS.includes(name) || name.startsWith('refs/')) return false
  return name.split('/').every((part) => /^(?!.*(\.\.|\.lock$|\.$|@\{))\w[\w.+@-]*$/i.test(part))
}

/** As trackers number their tickets, `ENG-12`; its small letters are taken for it, so `eng-12` itself is not plain. */
const NUMBERED = /^[A-Z][A-Z0-9]*-[0-9]+$/
const PLAIN = /^[a-z0-9]+(-[a-z0-9]+)*$/
/** What the name of one that is not plain ends with. */
const HASHED = /(^|-)[0-9a-f]{8}$/

/** Whatever is lost on the way could make two tickets one branch, so then a hash stands for it. */
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

/** Whether no other identifier has the same small letters and is kept too. */
function isUniqueInLowerCase(identifier: string): boolean {
  if (HASHED.test(identifier.toLowerCase())) return false
  if (NUMBERED.test(identifier)) return true
  return PLAIN.test(identifier) && !NUMBERED.test(identifier.toUpperCase())
}
