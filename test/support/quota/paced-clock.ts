/** PacedClock is a manual clock that waits after each step until all network requests are answered. */
import { ManualClock, settlePromises } from '../manual-clock.ts'

export class PacedClock extends ManualClock {
  isBusy: () => boolean = () => false

  override async settle(): Promise<void> {
    do {
      await super.settle()
      while (this.isBusy()) await settlePromises()
      await super.settle()
    } while (this.isBusy())
  }
}
