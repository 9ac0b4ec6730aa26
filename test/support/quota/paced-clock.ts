/** PacedClock is a manual clock that waits after each step until all network requests are answered. */
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
