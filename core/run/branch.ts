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

/** Letters that are lost on the way would make two tickets one branch, so then a hash stands for them. */
function slugOf(identifier: string): string {
  const plain = identifier.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
  const slug = plain
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, SLUG_CHARS_MAX)
    .replace(/^-|-$/g, '')
  if (slug !== '' && plain.length <= SLUG_CHARS_MAX && !/[^\0-\x7f]/.test(plain)) return slug
  const hash = createHash('sha256').update(identifier).digest('hex').slice(0, 8)
  return slug === '' ? hash : `${slug}-${hash}`
}
