/** The worker supervisor machine: an idle worker is drained and stopped, and started when there is work. */
import type {
  SupervisorEvent,
  SupervisorInput,
} from '../../../actors/worker-supervisor/worker-supervisor.events.ts'
import { workerSupervisorMachine } from '../../../actors/worker-supervisor/worker-supervisor.machine.ts'
import type { OwnDemand } from '../../../core/fleet/supervision.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

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
const everywhere: readonly [string, readonly SupervisorEvent[]][] = [
  ['asking', []],
  ['serving', serving],
  ['draining', draining],
  ['stopped', resting],
  ['joining', [...resting, answered(130, away, 1), started(131)]],
]
const common = everywhere.flatMap(([state, path]): Story<SupervisorEvent>[] => [
  {
    title: `a silent host is asked again while ${state}`,
    input: command,
    events: [...path, unanswered, pollDue],
  },
  {
    title: `the worker ends by itself while ${state}`,
    input: command,
    events: [...path, ended, pauseOver],
    onlyLastLine: true,
  },
  {
    title: `the worker fails for good while ${state}`,
    input: command,
    events: [...path, failed],
    onlyLastLine: true,
  },
  {
    title: `the supervisor is asked to stop while ${state}`,
    input: command,
    events: [...path, stopRequested, released],
    onlyLastLine: true,
  },
])

const stories: readonly Story<SupervisorEvent>[] = [
  {
    title: 'an idle worker is drained, stopped, and undrained when it is gone; work starts it',
    input: command,
    events: [
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
  },
  {
    title: 'it sleeps on while others wake for all queued runs, and wakes for one more',
    input: command,
    events: [
      ...resting,
      answered(128, away),
      answered(140, { ...away, promisedRuns: 1 }, 1),
      answered(150, { ...away, promisedRuns: 1 }, 2),
    ],
  },
  {
    title: 'runs and terminals that slipped in are waited for',
    input: command,
    events: [
      ...draining,
      answered(121, { ...own, activeRuns: 1 }),
      answered(130, { ...own, attachSessions: 1 }),
      answered(140, own),
      answered(169, own),
      answered(170, own),
    ],
  },
  {
    title: 'a worker that is away is never stopped, because its figures say nothing',
    input: command,
    events: [...draining, answered(121, { ...own, ...away }), answered(500, { ...own, ...away })],
  },
  {
    title: 'work that comes before the stop ends the drain of the supervisor',
    input: command,
    events: [...draining, answered(121, own, 1), answered(122, {}, 1)],
  },
  {
    title: 'an operator who drains meanwhile keeps the drain, and nothing is stopped',
    input: command,
    events: [...draining, answered(121, both), answered(122, operators), answered(900, operators, 5)],
  },
  {
    title: 'a request to drain that arrives late is undone',
    input: command,
    events: [...draining, unanswered, answered(130, {}), answered(135, own)],
  },
  {
    title: 'a failed stop is tried again after a pause and a new quiet time',
    input: command,
    events: [
      ...stopping,
      notStopped,
      answered(123, own),
      answered(140, own),
      answered(153, own),
      stopped(160),
    ],
  },
  {
    title: 'after a failed stop work starts the worker before its drain ends',
    input: command,
    events: [
      ...stopping,
      notStopped,
      answered(123, own, 1),
      answered(130, own, 1),
      started(131),
      answered(132, own, 1),
      answered(133, {}, 1),
    ],
  },
  {
    title: 'no work wakes a worker that an operator drained',
    input: command,
    events: [
      ...resting,
      answered(126, { ...operators, ...away }, 9),
      answered(999, { ...operators, ...away }, 9),
    ],
  },
  {
    title: 'a worker that somebody else started serves',
    input: command,
    events: [...resting, answered(126, away), answered(127, {})],
  },
  {
    title: 'a worker that went away by itself is started for work after three minutes',
    input: command,
    events: [...serving, answered(10, away, 1), answered(189, away, 1), answered(190, away, 1)],
  },
  {
    title: 'a drain of an earlier supervisor ends when the worker has been started',
    input: command,
    events: [
      answered(0, { ...own, ...away }),
      started(5),
      answered(6, { ...own, ...away }),
      answered(9, own),
    ],
  },
  {
    title: 'a drain of an earlier supervisor beside an operator’s ends, and nothing is started',
    input: command,
    events: [answered(0, { ...both, ...away }), answered(1, { ...operators, ...away })],
  },
  {
    title: 'a worker that does not connect counts as stopped, and is started again',
    input: command,
    events: [
      answered(0, away),
      answered(1, away, 1),
      started(2),
      answered(3, away, 1),
      answered(602, away, 1),
      answered(603, away, 1),
    ],
  },
  {
    title: 'a failed start is tried again',
    input: command,
    events: [answered(0, away), answered(1, away, 1), notStarted, answered(2, away, 1), answered(7, away, 1)],
  },
  {
    title: 'a worker process starts first, whether the host answers or not',
    input: child,
    events: [started(0), unanswered, answered(5, away), answered(6, {})],
  },
  {
    title: 'a worker process that cannot be started is tried again',
    input: child,
    events: [notStarted, pauseOver, ended, stopRequested, released],
  },
  { title: 'a worker process that fails for good ends its supervisor', input: child, events: [failed] },
  { title: 'asked to stop while it starts the worker', input: child, events: [stopRequested, released] },
  {
    title: 'asked to stop while it stops the worker',
    input: command,
    events: [...stopping, stopRequested, released],
  },
  ...common,
]

testTrails(workerSupervisorMachine, stories)
