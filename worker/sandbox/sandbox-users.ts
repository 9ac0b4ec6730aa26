/**
 * Whom sandboxes run as outside.
 *
 * A worker that is root runs each sandbox as a user of its own that nobody else is: then one run can't look into
 * another's processes, files or memory, and what it is allowed in numbers is its own. Several workers of one machine know
 * nothing of each other, so each begins to count somewhere else. Any other worker can only run sandboxes as itself, and
 * the namespaces alone keep them apart.
 */
import type { LocalMachine } from './local-machine.ts'
import type { SandboxUser } from './sandbox-process.ts'

/** Beyond what systemd gives to services and containers, and below what some programs take for negative. */
export const SANDBOX_UID_BASE = 1_900_000_000
export const SANDBOX_USERS_MAX = 247_000_000
/** One group for all: what the worker shows to each of them, such as its copies of repositories, is readable by it. */
export const SANDBOX_GID = SANDBOX_UID_BASE

/** A sandbox keeps its number for as long as it is on disk; whoever hands out numbers sees to it that it is alone. */
export function sandboxUserOf(
  number: number,
  { euid, egid }: Pick<LocalMachine, 'euid' | 'egid'>,
): SandboxUser {
  if (!Number.isInteger(number) || number < 0 || number >= SANDBOX_USERS_MAX)
    throw new Error(`there is no slot ${number}`)
  if (euid !== 0) return { number, uid: euid, gid: egid }
  return { number, uid: SANDBOX_UID_BASE + number, gid: SANDBOX_GID }
}

/** The first one from there on that no running and no retained sandbox has; there are more than any disk holds. */
export function findFreeNumber(usedNumbers: Iterable<number>, from: number): number {
  const numbers = new Set(usedNumbers)
  let number = from
  while (numbers.has(number)) number = (number + 1) % SANDBOX_USERS_MAX
  return number
}

export function isSandboxUid(uid: number): boolean {
  return uid >= SANDBOX_UID_BASE && uid < SANDBOX_UID_BASE + SANDBOX_USERS_MAX
}
