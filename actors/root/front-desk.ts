/**
 * The front desk: all that the doors may ask of the lives behind it, or tell them.
 *
 * Values go in and values come out; no actor reference, snapshot or secret crosses it. What it answers is on disk
 * already: an answer is an effect like any other, run after the commit that made it true.
 */

import type { Cancel, StoreState } from '../../core/ports.ts'
import type { Answer } from '../../core/refusal.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { DashboardPush, HelloFrame } from '../../protocol/dashboard.ts'
import type { SettingsUpdateResponse } from '../../protocol/routes.ts'
import type { HealthResponse } from '../../protocol/worker.ts'

export interface FrontDesk {
  health(): HealthResponse
  /** Redacted. The same object until something changes, so that its text can be kept. */
  config(): ServiceConfig
  /** The patch as it came in, already parsed and of the route's schema. */
  changeSettings(patch: Record<string, unknown>): Promise<Answer<SettingsUpdateResponse>>
  /** What a dashboard sees first. Redacted. */
  hello(): HelloFrame
  /** Told of every push, in order, after its cause became durable. */
  onPush(listener: (push: DashboardPush) => void): Cancel
  /** Origins beyond the built-in ones, as configured right now. */
  allowedOrigins(): readonly string[]
  /** Does this credential belong to that worker? The same refusal for every wrong pair. */
  admitWorker(workerId: string, secret: string): Answer<{ readonly workerId: string }>
  /** Whether new work may be accepted: not while stopping. */
  open(): boolean
  storeState(): StoreState
  /** How many actors of each kind there are now. */
  actorsByKind(): ReadonlyMap<string, number>
}
