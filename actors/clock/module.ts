/** The clock module judges the host's wall clock before anything that can't be made again is deleted by it. */
import { defineHostModule } from '../host-context.ts'
import { TrustedClock } from './trusted-clock.ts'

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly trustedClock: TrustedClock
  }
}

export const trustedClockModule = defineHostModule({
  name: 'trustedClock',
  create(context) {
    const trustedClock = new TrustedClock({ ...context, database: context.store.database })
    return {
      view: trustedClock,
      participants: [trustedClock],
      start: () => trustedClock.start(),
      stop: () => trustedClock.stop(),
      sizes: () => ({ workerTimes: trustedClock.size }),
    }
  },
})
