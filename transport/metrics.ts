/**
 * The figures, as Prometheus text.
 *
 * The only place that knows the metrics library. Names and labels are fixed by the table below, so a part that
 * reports a figure cannot make up a series; a label nobody declared is dropped.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { MeterName, Meters } from '../core/ports.ts'

type Described = {
  readonly is: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly labels: readonly string[]
}

const described: Readonly<Record<MeterName, Described>> = {
  store_commit_seconds: {
    is: 'histogram',
    help: 'From handing a commit to the disk until it is durable.',
    labels: [],
  },
  store_commit_writes_total: { is: 'counter', help: 'Writes that went through commits.', labels: [] },
  store_state: { is: 'gauge', help: '1 for the state the store is in.', labels: ['state'] },
  actors: { is: 'gauge', help: 'Lives there are now.', labels: ['kind'] },
  actor_crashes_total: { is: 'counter', help: 'Lives that ended by a bug.', labels: ['kind'] },
  actor_transitions_total: { is: 'counter', help: 'Events that lives have taken.', labels: ['kind'] },
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
}

/** A commit on a quiet disk takes a tenth of a millisecond, on a busy one some; seconds mean trouble. */
const COMMIT_BUCKETS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5]
const GC_BUCKETS = [0.001, 0.01, 0.1, 1]

export interface Metrics extends Meters {
  text(): Promise<string>
}

export function prometheusMetrics(): Metrics {
  const register = new Registry()
  collectDefaultMetrics({ register, gcDurationBuckets: GC_BUCKETS })
  const counters = new Map<MeterName, Counter>()
  const gauges = new Map<MeterName, Gauge>()
  const histograms = new Map<MeterName, Histogram>()
  for (const name of meterNames()) {
    const { is, help, labels } = described[name]
    const shape = { name: `switchyard_${name}`, help, labelNames: [...labels], registers: [register] }
    if (is === 'counter') counters.set(name, new Counter(shape))
    else if (is === 'gauge') gauges.set(name, new Gauge(shape))
    else histograms.set(name, new Histogram({ ...shape, buckets: COMMIT_BUCKETS }))
  }
  return {
    count: (name, labels, by = 1) => counters.get(name)?.inc(declared(name, labels), by),
    gauge: (name, value, labels) => gauges.get(name)?.set(declared(name, labels), value),
    observe: (name, seconds) => histograms.get(name)?.observe(seconds),
    text: () => register.metrics(),
  }
}

function meterNames(): MeterName[] {
  // Object.keys forgets that the keys of a constant are known.
  return Object.keys(described) as MeterName[]
}

function declared(name: MeterName, labels: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels).filter(([label]) => described[name].labels.includes(label)),
  )
}
