/**
 * Damage is a part of the data directory that does not hold what was stored there.
 *
 * What is damaged is named to people, and never read as if it were absent, shorter or older.
 */
import type { Cancel } from './ports/clock.ts'

export const RESTORE_CURE = 'restore the folder state from a backup while the host is stopped'
/** The cure for all damage, as a sentence for people. */
export const DAMAGE_CURE = `switchyard check-data, which names all of it; then ${RESTORE_CURE}`

export interface Damage {
  /** The same damage keeps its id: `run run-1`. */
  readonly id: string
  /** The place, such as a file, or a table of the database. */
  readonly where: string
  /** Says what cannot be read, and what that means. */
  readonly message: string
  readonly runId?: string
  /** Nothing is there to be read: other records name it. Only such damage can be a loss that a person knows of. */
  readonly isMissing?: true
  /** Instead of the cure for all damage. */
  readonly cure?: string
  /** The ids of damage that stays as it is, so that a person may acknowledge the loss. */
  readonly lost?: readonly string[]
}

const RUN_DAMAGE = 'run '

/** Whether the record of a run cannot be read. */
export const isOfRun = ({ id }: Damage): boolean => id.startsWith(RUN_DAMAGE)

/** Returns the ids of the runs whose records are lost. */
export const lostRunsOf = ({ lost = [] }: Damage): string[] =>
  lost.flatMap((id) => (id.startsWith(RUN_DAMAGE) ? [id.slice(RUN_DAMAGE.length)] : []))

/** Says that events of a log are damaged or missing at a place. */
export function damageOfEvents(
  { runId, from, to }: { readonly runId: string; readonly from: number; readonly to: number },
  why: string,
  where: string,
): Damage {
  const which =
    from === to ? `event ${from} of run ${runId} is` : `events ${from} to ${to} of run ${runId} are`
  return { id: `events ${runId} ${from}`, where, message: `${which} ${why}`, runId }
}

/** The damage of the data directory that is known. */
export interface KnownDamage {
  all(): readonly Damage[]
  /** Calls the listener when something is added, or mended: then with its id. */
  onChange(listener: (mended?: string) => void): Cancel
}

export const NO_DAMAGE: KnownDamage = { all: () => [], onChange: () => () => {} }

/** A loss stays as it is; what is there again, and is damaged anew, is another matter. */
export const isLoss = ({ lost, isMissing }: Damage): boolean => lost !== undefined || isMissing === true

/** Says to a person what is damaged, and what helps. */
export const damageText = ({ message, cure = DAMAGE_CURE }: Damage): string => `${message}: ${cure}`

/** Thrown by a read of something damaged. */
export class DamagedRecord extends Error {
  override readonly name = 'DamagedRecord'
  readonly damage: Damage

  constructor(damage: Damage, options?: ErrorOptions) {
    super(damageText(damage), options)
    this.damage = damage
  }
}

export const isDamagedRecord = (error: unknown): error is DamagedRecord => error instanceof DamagedRecord

/** Returns what `read` returns; `instead` where what it reads is damaged. */
export function readOr<T>(read: () => T, instead: (damage: Damage) => T): T {
  try {
    return read()
  } catch (error) {
    if (isDamagedRecord(error)) return instead(error.damage)
    throw error
  }
}
