/** The worker supervisor machine: an idle worker is drained and stopped, and started when there is work. */
import type {
  SupervisorEvent,
  SupervisorInput,
} from '../../../actors/worker-supervisor/worker-supervisor.machine.ts'
import { workerSupervisorMachine } from '../../../actors/worker-supervisor/worker-supervisor.machine.ts'
import type { OwnDemand } from '../../../core/fleet/supervision.ts'
import { inEach, LAST_LINE, trailTests } from '../trail-tests.ts'

const S = 1_000
const settings = { idleMs: 60 * S, upMs: 120 * S, startsAbsent: true }
const command: SupervisorInput = { settings, at: 0 }
const child: SupervisorInput = { settings: { ...settings, startsAbsent: false }, at: 0 }

type Worker = OwnDemand['worker']
const online: Worker = { id: 'wk-1', connected: true, state: 'active', activeRuns: 0, attachSessions: 0 }
const own = { state: 'draining', drainedBy: ['supervisor'] } satisfies Partial<Worker>
const both = { state: 'draining', drainedBy: ['supervisor', 'operator'] } satisfies Partial<Worker>
const operators = { state: 'draining', drainedBy: ['operator'] } satisfies Partial<Worker>

const answered = (seconds: number, worker: Partial<Worker>, wanted = 0): SupervisorEvent => ({
  type: 'answered',
  at: seconds * S,
  demand: {
    queuedRuns: wanted,
    wanted,
    activeRuns: 0,
    connectedWorkers: 1,
    spareCapacity: 0,
    worker: { ...online, ...worker },
  },
})
const away = { connected: false }
const started = (seconds: number): SupervisorEvent => ({ type: 'started', at: seconds * S })
const stopped = (seconds: number): SupervisorEvent => ({ type: 'stopped', at: seconds * S })
const notStarted: SupervisorEvent = { type: 'not started', at: 1 * S, retryAt: 6 * S }
const notStopped: SupervisorEvent = { type: 'not stopped', at: 122 * S, retryAt: 127 * S }
const unanswered: SupervisorEvent = { type: 'unanswered' }
const pollDue: SupervisorEvent = { type: 'poll due' }
const ended: SupervisorEvent = { type: 'worker ended', at: 1 * S }
const failed: SupervisorEvent = { type: 'worker failed for good', exitCode: 77, reason: 'revoked' }
const stopRequested: SupervisorEvent = { type: 'stop requested' }
const released: SupervisorEvent = { type: 'released' }
const pauseOver: SupervisorEvent = { type: 'pause over' }

const serving = [answered(0, {})]
const draining = [...serving, answered(120, {})]
const stopping = [...draining, answered(121, own)]
const resting = [...stopping, stopped(125)]

/** The events that every state with answers takes alike. */
const everywhere: Readonly<Record<string, readonly SupervisorEvent[]>> = {
  asking: [],
  serving,
  draining,
  stopped: resting,
  joining: [...resting, answered(130, away, 1), started(131)],
}

trailTests<SupervisorEvent>(workerSupervisorMachine, command, [
  [
    'an idle worker is drained, stopped, and undrained when it is gone; work starts it',
    [
      ...serving,
      answered(60, {}),
      ...draining.slice(1),
      answered(121, own),
      stopped(125),
      answered(126, own),
      answered(127, { ...own, ...away }),
      answered(128, away),
      answered(140, away, 1),
      started(150),
      answered(151, away, 1),
      answered(160, {}, 1),
    ],
  ],
  [
    'it sleeps on while others wake for all queued runs, and wakes for one more',
    [
      ...resting,
      answered(128, away),
      answered(140, { ...away, promisedRuns: 1 }, 1),
      answered(150, { ...away, promisedRuns: 1 }, 2),
    ],
  ],
  [
    'runs and terminals that slipped in are waited for',
    [
      ...draining,
      answered(121, { ...own, activeRuns: 1 }),
      answered(130, { ...own, attachSessions: 1 }),
      answered(140, own),
      answered(169, own),
      answered(170, own),
    ],
  ],
  [
    'a worker that is away is never stopped, because its figures say nothing',
    [...draining, answered(121, { ...own, ...away }), answered(500, { ...own, ...away })],
  ],
  [
    'work that comes before the stop ends the drain of the supervisor',
    [...draining, answered(121, own, 1), answered(122, {}, 1)],
  ],
  [
    'an operator who drains meanwhile keeps the drain, and nothing is stopped',
    [...draining, answered(121, both), answered(122, operators), answered(900, operators, 5)],
  ],
  [
    'a request to drain that arrives late is undone',
    [...draining, unanswered, answered(130, {}), answered(135, own)],
  ],
  [
    'a failed stop is tried again after a pause and a new quiet time',
    [...stopping, notStopped, answered(123, own), answered(140, own), answered(153, own), stopped(160)],
  ],
  [
    'after a failed stop work starts the worker before its drain ends',
    [
      ...stopping,
      notStopped,
      answered(123, own, 1),
      answered(130, own, 1),
      started(131),
      answered(132, own, 1),
      answered(133, {}, 1),
    ],
  ],
  [
    'no work wakes a worker that an operator drained',
    [...resting, answered(126, { ...operators, ...away }, 9), answered(999, { ...operators, ...away }, 9)],
  ],
  ['a worker that somebody else started serves', [...resting, answered(126, away), answered(127, {})]],
  [
    'a worker that went away by itself is started for work after three minutes',
    [...serving, answered(10, away, 1), answered(189, away, 1), answered(190, away, 1)],
  ],
  [
    'a drain of an earlier supervisor ends when the worker has been started',
    [answered(0, { ...own, ...away }), started(5), answered(6, { ...own, ...away }), answered(9, own)],
  ],
  [
    'a drain of an earlier supervisor beside an operator’s ends, and nothing is started',
    [answered(0, { ...both, ...away }), answered(1, { ...operators, ...away })],
  ],
  [
    'a worker that does not connect counts as stopped, and is started again',
    [
      answered(0, away),
      answered(1, away, 1),
      started(2),
      answered(3, away, 1),
      answered(602, away, 1),
      answered(603, away, 1),
    ],
  ],
  [
    'a failed start is tried again',
    [answered(0, away), answered(1, away, 1), notStarted, answered(2, away, 1), answered(7, away, 1)],
  ],
  [
    'a worker process starts first, whether the host answers or not',
    [started(0), unanswered, answered(5, away), answered(6, {})],
    { input: child },
  ],
  [
    'a worker process that cannot be started is tried again',
    [notStarted, pauseOver, ended, stopRequested, released],
    { input: child },
  ],
  ['a worker process that fails for good ends its supervisor', [failed], { input: child }],
  ['asked to stop while it starts the worker', [stopRequested, released], { input: child }],
  ['asked to stop while it stops the worker', [...stopping, stopRequested, released]],
  ...inEach(everywhere, [
    ['a silent host is asked again', [unanswered, pollDue]],
    ['the worker ends by itself', [ended, pauseOver], LAST_LINE],
    ['the worker fails for good', [failed], LAST_LINE],
    ['the supervisor is asked to stop', [stopRequested, released], LAST_LINE],
  ]),
])
