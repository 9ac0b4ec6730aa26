/** Faults that are put into the supervisor on purpose, one at a time: its simulation must find each of them. */
import type { Mutant } from '../mutants.ts'

const RULES = 'core/fleet/supervision.ts'

export const supervisorMutants: readonly Mutant[] = [
  {
    name: 'the figures of a worker that is away are believed',
    file: RULES,
    find: 'const isQuiet = worker.connected && worker.activeRuns === 0',
    replace: 'const isQuiet = worker.activeRuns === 0',
  },
  {
    name: 'terminals do not count',
    file: RULES,
    find: ' && worker.attachSessions === 0',
    replace: '',
  },
  {
    name: 'after a failed stop the drain is lifted at once',
    file: RULES,
    find: "if (!memory.stopPending) return 'lift'",
    replace: "return 'lift'",
  },
  {
    name: 'a worker is started although somebody else drains it',
    file: RULES,
    find: "if (isHeldByOthers(demand.worker) || now < memory.notBefore) return 'wait'",
    replace: '',
  },
  {
    name: 'a stopped worker stays drained',
    file: RULES,
    find: "if (holdsOwnDrain(demand.worker) && !memory.stopPending) return 'lift'",
    replace: "if (holdsOwnDrain(demand.worker) && !memory.stopPending) return 'wait'",
  },
  {
    name: 'a worker is stopped without being drained',
    file: RULES,
    find: "isLongerThan(memory.since, settings.upMs, now) ? 'drain' : 'wait'",
    replace: "isLongerThan(memory.since, settings.upMs, now) ? 'stop' : 'wait'",
  },
]
