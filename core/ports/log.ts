/**
 * The ports to which the product tells what happens: the log, and the sink of metrics.
 */

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** The sink for metrics, which `/metrics` prints. Names become `switchyard_…`; labels are few and bounded. */
export interface Meters {
  /** Increases a counter. */
  count(name: MeterName, labels?: Readonly<Record<string, string>>, by?: number): void
  /** Sets a gauge. */
  gauge(name: MeterName, value: number, labels?: Readonly<Record<string, string>>): void
  /** Adds a duration to a histogram. */
  observe(name: MeterName, seconds: number): void
}

export type MeterName =
  | 'store_commit_seconds'
  | 'store_commit_writes_total'
  | 'store_state'
  | 'actors'
  | 'actor_crashes_total'
  | 'actor_transitions_total'
  | 'sockets'
  | 'sockets_cut_off_total'
  | 'http_requests_total'
  | 'settings_changes_total'
  | 'runs_ended_total'
  | 'run_costs_usd_total'
  | 'run_costs_day_usd'
  | 'queue_depth'
  | 'queue_wait_seconds'
  | 'dispatches_total'
  | 'leases_ended_total'
  | 'leases'
  | 'frames_total'
  | 'frames_lost_total'
  | 'watermark_lag_frames'
  | 'invariant_violations_total'
  | 'workers_connected'
  | 'worker_registrations_total'
  | 'worker_proofs_total'
  | 'provisions_total'
  | 'workers_unregistered'
