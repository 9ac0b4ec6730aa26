/**
 * Collects metrics and prints them in the Prometheus text format.
 *
 * The table below fixes all names and labels. Undeclared labels are dropped, so callers cannot create new series. This
 * is the only file that uses the metrics library.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { MeterName, Meters } from '../core/ports/log.ts'

type MetricDescription = {
  readonly is: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly labels: readonly string[]
}

const descriptions: Readonly<Record<MeterName, MetricDescription>> = {
  store_commit_seconds: {
    is: 'histogram',
    help: 'Time from handing a commit to the disk until it is durable.',
    labels: [],
  },
  store_commit_writes_total: { is: 'counter', help: 'Writes that went through commits.', labels: [] },
  store_state: { is: 'gauge', help: '0 when the store is ready, 1 degraded, 2 broken.', labels: [] },
  actors: { is: 'gauge', help: 'Live actors.', labels: ['kind'] },
  actor_crashes_total: { is: 'counter', help: 'Actors that crashed.', labels: ['kind'] },
  actor_transitions_total: { is: 'counter', help: 'Events that actors have processed.', labels: ['kind'] },
  sockets: { is: 'gauge', help: 'Open sockets.', labels: ['socket'] },
  sockets_cut_off_total: {
    is: 'counter',
    help: 'Sockets closed because their reader was too slow.',
    labels: ['socket'],
  },
  http_requests_total: { is: 'counter', help: 'Requests answered.', labels: ['route', 'status'] },
  settings_changes_total: {
    is: 'counter',
    help: 'Changes of the configuration that took effect.',
    labels: [],
  },
  runs_ended_total: {
    is: 'counter',
    help: 'Runs and follow-ups that ended, by status and kind of failure.',
    labels: ['job', 'status', 'failure'],
  },
  run_costs_usd_total: {
    is: 'counter',
    help: 'Known costs of runs in US dollars, by repository.',
    labels: ['repo', 'estimated'],
  },
  run_costs_day_usd: {
    is: 'gauge',
    help: "Known costs of runs in US dollars on the host's local day, by repository.",
    labels: ['day', 'repo', 'estimated'],
  },
  queue_depth: { is: 'gauge', help: 'Runs that wait for a worker.', labels: [] },
  queue_wait_seconds: {
    is: 'histogram',
    help: 'Time from queued until a worker holds the lease.',
    labels: [],
  },
  dispatches_total: {
    is: 'counter',
    help: 'Dispatches to workers, by outcome.',
    labels: ['outcome'],
  },
  leases: { is: 'gauge', help: 'Current leases.', labels: [] },
  leases_ended_total: { is: 'counter', help: 'Ended leases, by reason.', labels: ['how'] },
  frames_total: { is: 'counter', help: 'Frames received from workers.', labels: ['type'] },
  frames_lost_total: {
    is: 'counter',
    help: 'Frames that workers dropped because their buffer was full.',
    labels: [],
  },
  watermark_lag_frames: {
    is: 'gauge',
    help: 'Frames that are applied and not on disk yet, over all leases.',
    labels: [],
  },
  invariant_violations_total: {
    is: 'counter',
    help: 'Violated invariants; each is a bug.',
    labels: ['law'],
  },
  workers_connected: { is: 'gauge', help: 'Workers that are online.', labels: [] },
  worker_proofs_total: {
    is: 'counter',
    help: 'Proofs in the upgrade requests of workers, by outcome.',
    labels: ['outcome'],
  },
  workers_unregistered: {
    is: 'gauge',
    help: 'Connections of workers that wait for their registration, by the proof of their upgrade.',
    labels: ['proof'],
  },
  provisions_total: {
    is: 'counter',
    help: 'Provisionings over SSH: done, or the step that failed.',
    labels: ['outcome'],
  },
  worker_registrations_total: {
    is: 'counter',
    help: 'Registrations of workers, by outcome.',
    labels: ['outcome'],
  },
}

/** A commit takes 0.1 ms on an idle disk and a few ms on a busy one; seconds mean trouble. */
const COMMIT_BUCKETS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5]
/** An idle fleet starts a run within milliseconds; in a busy fleet runs wait for hours. */
const WAIT_BUCKETS = [0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1_800, 7_200]
const GC_BUCKETS = [0.001, 0.01, 0.1, 1]

export interface Metrics extends Meters {
  /** Lag of the event loop and collections of garbage are measured from the first call on. */
  text(): Promise<string>
}

export function createPrometheusMetrics(): Metrics {
  const register = new Registry()
  let isObservingProcess = false
  // The meter of the event loop wakes the process a hundred times a second, which an unobserved host need not pay.
  const observeProcess = (): void => {
    if (isObservingProcess) return
    isObservingProcess = true
    collectDefaultMetrics({ register, gcDurationBuckets: GC_BUCKETS })
    addPastProcessorTime(register)
    // Without a sample since the last request it would be 292 years.
    register.removeSingleMetric('nodejs_eventloop_lag_min_seconds')
  }
  const counters = new Map<MeterName, Counter>()
  const gauges = new Map<MeterName, Gauge>()
  const histograms = new Map<MeterName, Histogram>()
  for (const name of meterNames()) {
    const { is, help, labels } = descriptions[name]
    const shape = { name: `switchyard_${name}`, help, labelNames: [...labels], registers: [register] }
    if (is === 'counter') counters.set(name, new Counter(shape))
    else if (is === 'gauge') gauges.set(name, new Gauge(shape))
    else histograms.set(name, new Histogram({ ...shape, buckets: bucketsOf(name) }))
  }
  return {
    count: (name, labels, by = 1) => counters.get(name)?.inc(keepDeclaredLabels(name, labels), by),
    gauge: (name, value, labels) => gauges.get(name)?.set(keepDeclaredLabels(name, labels), value),
    observe: (name, seconds) => histograms.get(name)?.observe(seconds),
    text() {
      observeProcess()
      return register.metrics()
    },
  }
}

/** The library counts the processor time from its own start on. */
function addPastProcessorTime(register: Registry): void {
  const { user, system } = process.cpuUsage()
  const add = (name: string, micros: number): void => {
    const counter = register.getSingleMetric(name)
    if (counter instanceof Counter) counter.inc(micros / 1e6)
  }
  add('process_cpu_user_seconds_total', user)
  add('process_cpu_system_seconds_total', system)
  add('process_cpu_seconds_total', user + system)
}

const bucketsOf = (name: MeterName): number[] =>
  name === 'queue_wait_seconds' ? WAIT_BUCKETS : COMMIT_BUCKETS

function meterNames(): MeterName[] {
  // Object.keys returns string[] although the keys are known.
  return Object.keys(descriptions) as MeterName[]
}

function keepDeclaredLabels(
  name: MeterName,
  labels: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels).filter(([label]) => descriptions[name].labels.includes(label)),
  )
}
