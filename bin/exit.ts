/**
 * How a process of ours ends. The numbers are those of sysexits.h where it has one; scripts rely on them.
 */
export const EXIT = {
  done: 0,
  refused: 1,
  usage: 2,
  /** The data was written by a newer version. */
  dataTooNew: 65,
  /** A port is taken, or no host can be reached. */
  unavailable: 69,
  /** Something inside broke, or the disk did. */
  broken: 70,
  /** Another host works on this data directory. */
  taken: 75,
  /** The configuration does not validate. */
  config: 78,
} as const

/** An end that was foreseen: a sentence for the person, a number for the script. */
export class Ending extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}
