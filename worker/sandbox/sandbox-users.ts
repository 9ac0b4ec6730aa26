/**
 * Assigns the host user that a sandbox runs as.
 *
 * A root worker runs each sandbox under an unused user id of its own, so that a run cannot access another run's
 * processes, files or memory, and per-user limits count for one run only. Several workers on one machine do not know
 * each other, so each starts counting at a different number. A worker without root runs sandboxes under its own user;
 * only the namespaces separate those.
 */
import type { LocalMachine } from './local-machine.ts'
import type { SandboxUser } from './sandbox-process.ts'

/** Above the ids that systemd assigns to services and containers, below 2^31, which some programs read as negative. */
export const SANDBOX_UID_BASE = 1_900_000_000
export const SANDBOX_USERS_MAX = 247_000_000
/** The group of all sandbox users. Folders that every sandbox may read, such as repository mirrors, belong to it. */
export const SANDBOX_GID = SANDBOX_UID_BASE

/** A sandbox keeps its number while it is on disk. The caller makes sure that no other sandbox has the number. */
export function sandboxUserOf(
  number: number,
  { euid, egid }: Pick<LocalMachine, 'euid' | 'egid'>,
): SandboxUser {
  if (!Number.isInteger(number) || number < 0 || number >= SANDBOX_USERS_MAX)
    throw new Error(`there is no sandbox user ${number}`)
  if (euid !== 0) return { number, uid: euid, gid: egid }
  return { number, uid: SANDBOX_UID_BASE + number, gid: SANDBOX_GID }
}

/** Finds the first unused number at or after `from`. More numbers exist than any disk holds sandboxes. */
export function findFreeNumber(usedNumbers: Iterable<number>, from: number): number {
  const numbers = new Set(usedNumbers)
  let number = from
  while (numbers.has(number)) number = (number + 1) % SANDBOX_USERS_MAX
  return number
}

export function isSandboxUid(uid: number): boolean {
  return uid >= SANDBOX_UID_BASE && uid < SANDBOX_UID_BASE + SANDBOX_USERS_MAX
}
