/**
 * Judges whether the process that owns a data directory, as its lock file describes it, still lives.
 *
 * On one kernel a lock that the kernel releases proves life and death, whatever process namespaces and containers the
 * two run in. A machine that has booted since proves death. Everything else proves nothing, and then the owner counts
 * as alive until somebody takes the directory over.
 */
import type { StoreState } from './ports/store.ts'

/** The content of a lock file. Earlier versions wrote the first four fields only. */
export interface OwnerRecord {
  /** In the process namespace of the owner. */
  readonly pid: number
  /** When the process started, in the system's own unit. */
  readonly began: string
  /** The id of this boot of the kernel; `unknown` on systems other than Linux. */
  readonly boot: string
  readonly nonce: string
  readonly released?: true
  /** Absent where the machine has none of its own, as in most containers. */
  readonly machine?: string
  readonly pidNamespace?: string
  readonly hostname?: string
  /** ISO 8601. */
  readonly since?: string
  /** The owner holds a lock of the kernel on its lock file for as long as it lives. */
  readonly kernelLock?: true
}

/** The namespace of the first process of a Linux kernel. */
export const FIRST_PID_NAMESPACE = 'pid:[4026531836]'

/** The place of the judging process. */
export type OwnPlace = Pick<OwnerRecord, 'boot' | 'machine' | 'pidNamespace'>

/** Facts that the judging process can find out; each question may cost a process. */
export interface OwnerEvidence {
  /** Whether a process holds the lock of the kernel on the lock file. */
  readonly kernelLock: () => 'held' | 'free' | 'unknown'
  /** When a process of this namespace started; undefined when there is none with that id. */
  readonly startOf: (pid: number) => string | undefined
}

export type OwnerVerdict =
  | 'dead'
  | 'alive'
  /** The owner may live in another container of this machine. */
  | 'unknown on this kernel'
  /** The owner may live on another machine. */
  | 'unknown elsewhere'

export function judgeOwner(owner: OwnerRecord, place: OwnPlace, evidence: OwnerEvidence): OwnerVerdict {
  if (owner.released === true) return 'dead'
  const isSameBoot = owner.boot === place.boot
  const isVisible = isSameBoot && isInNamespace(owner, place)
  if (isVisible && evidence.startOf(owner.pid) === owner.began) return 'alive'
  const found = evidence.kernelLock()
  // A container may have a boot id of its own, and a network file system may pass the lock on to other machines. A record
  // that was damaged may say nothing of the lock.
  if (found === 'held') return 'alive'
  const lock = owner.kernelLock === true ? found : 'unknown'
  if (isSameBoot) return isVisible || lock === 'free' ? 'dead' : 'unknown on this kernel'
  return isEarlierBoot(owner, place) ? 'dead' : 'unknown elsewhere'
}

const isInNamespace = (owner: OwnerRecord, place: OwnPlace): boolean =>
  isOfEarlierVersion(owner) || owner.pidNamespace === place.pidNamespace

/** A machine has one boot at a time. Earlier versions took every other boot for one of the same machine. */
const isEarlierBoot = (owner: OwnerRecord, place: OwnPlace): boolean =>
  isOfEarlierVersion(owner) || (owner.machine !== undefined && owner.machine === place.machine)

/** A version that saw one process namespace of one machine only. */
export const isOfEarlierVersion = ({ since }: OwnerRecord): boolean => since === undefined

/**
 * A word that lets a start go ahead where nothing proves the owner dead: a person's, or that of a recipe in which one
 * machine at a time can have the volume.
 */
export type TakeOver = 'by-hand' | 'exclusive-volume'

/** The option of a command that gives the word. */
export const takeOverFlag = (word: TakeOver): string =>
  word === 'by-hand' ? '--take-over' : `--take-over=${word}`

export function mayTakeOver(verdict: OwnerVerdict, word: TakeOver | undefined): boolean {
  switch (verdict) {
    case 'dead':
      return true
    case 'alive':
      return false
    case 'unknown on this kernel':
      // Two containers of one machine can have a volume together.
      return word === 'by-hand'
    case 'unknown elsewhere':
      return word !== undefined
  }
}

/** Whether this process owns its data directory no more, so that it must neither write nor send anything. */
export const isTakenOver = (state: StoreState): state is Extract<StoreState, { is: 'broken' }> =>
  state.is === 'broken' && state.takenOver === true

/** Names the process, its machine, and since when it owns the directory. */
export function describeOwner(owner: OwnerRecord, place: OwnPlace): string {
  const { pid, hostname, since } = owner
  return [
    `process ${pid}${describeNamespace(owner, place)}`,
    ...(hostname === undefined ? [] : [` on ${hostname}`]),
    ...(since === undefined ? [] : [`, since ${since}`]),
  ].join('')
}

/** A process id means nothing in another namespace; on another machine the machine's name says enough. */
function describeNamespace(owner: OwnerRecord, place: OwnPlace): string {
  if (owner.boot !== place.boot || isInNamespace(owner, place)) return ''
  return owner.pidNamespace === FIRST_PID_NAMESPACE ? ' outside of this container' : ' in another container'
}
