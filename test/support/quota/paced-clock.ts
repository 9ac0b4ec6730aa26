/**
 * A clock wound by hand that waits, after whatever it lets happen, until all that was asked over the network is
 * answered: hours of a host's life with real requests, each at its instant.
 */
import { ManualClock, promisesSettled } from '../manual-clock.ts'

export class PacedClock extends ManualClock {
  isBusy: () => boolean = () => false

  override async turn(): Promise<void> {
    do {
      await super.turn()
      while (this.isBusy()) await promisesSettled()
      await super.turn()
    } while (this.isBusy())
  }
}
