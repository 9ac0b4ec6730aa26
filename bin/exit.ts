/**
 * How a process of ours ends. The numbers are those of sysexits.h where it has one; scripts rely on them.
 */
export const EXIT = {
  done: 0,
  refused: 1,
  usage: 2,
  /** The data was written by a newer version. */
  dataTooNew: 65,
  /** A port is taken, no host can be reached, or this machine has no sandbox. */
  unavailable: 69,
  /** Something inside broke, or the disk did. */
  broken: 70,
  /** Another process works on this data directory, or with this credential. */
  inUse: 75,
  /** Host and worker don't understand each other. */
  protocol: 76,
  /** The host doesn't know this worker, or knows it no more. */
  notAccepted: 77,
  /** The configuration does not validate. */
  config: 78,
} as const

/** An end that was foreseen: a sentence for the person, a number for the script. */
export class ExitError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}
