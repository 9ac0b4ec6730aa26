/** The failure streak module warns in the log when three runs in a row have failed. */
import { defineHostModule } from '../../actors/host-context.ts'
import { RUN } from '../../actors/runs/run.machine.ts'
import { effectHandlers, observeKind } from '../../actors/runtime/module.ts'
import {
  FAILURE_STREAK,
  type FailureStreakEffect,
  type FailureStreakEvent,
  failureStreakKind,
} from './failure-streak.machine.ts'

export const failureStreakModule = defineHostModule({
  name: 'failureStreak',
  kinds: [failureStreakKind],
  create({ system, log }) {
    const send = (event: FailureStreakEvent) => void system.send(FAILURE_STREAK, FAILURE_STREAK, event)
    return {
      onStateChange: [
        observeKind(RUN, ({ after, over }) => {
          const { status } = after.context.run
          if (over && status === 'failed') send({ type: 'run failed' })
          if (over && status === 'completed') send({ type: 'run completed' })
        }),
      ],
      effects: effectHandlers<FailureStreakEffect>({
        failureStreak: ({ failures }) => log.warn({ failures }, 'runs keep failing'),
      }),
    }
  },
})
