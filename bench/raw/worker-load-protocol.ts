/**
 * The commands for a load process, one line of JSON each, and values shared by workers and servers of the benches.
 */
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import { routes } from '../../protocol/routes.ts'

export const WORKER_PATH = routes.workerSocket.path

export interface Enrollment {
  readonly workerId: string
  readonly credential: string
}

export type WorkerLoadCommand =
  /** Enrolls a worker for each pairing token. Responds with `Enrollment[]`. */
  | {
      readonly do: 'enroll'
      readonly port: number
      readonly slots: number
      readonly tokens: readonly string[]
    }
  /** Waits until this many dispatches are accepted and held. */
  | { readonly do: 'hold'; readonly leases: number }
  /** Completes this many runs, each after this many events. Responds with `LoadTiming`. */
  | { readonly do: 'cycles'; readonly count: number; readonly events: number }
  /**
   * Requests this many runs of these many tickets while workers execute them. A worker waits a moment between
   * acceptance and completion. Responds with `EnqueueTiming`.
   */
  | {
      readonly do: 'enqueue'
      readonly token: string
      readonly producers: number
      readonly tickets: number
      readonly count: number
      readonly events: number
    }
  /** Sends this many events on each held lease. Responds with `LoadTiming`. */
  | { readonly do: 'frames'; readonly perLease: number }
  /**
   * Breaks the connection, reconnects, and sends all unacknowledged frames, with the completion last. Responds with
   * `LoadTiming`.
   */
  | { readonly do: 'replay'; readonly frames: number }
  /** Requests runs one after the other, and completes each after its dispatch. Responds with `DispatchWaits`. */
  | {
      readonly do: 'dispatches'
      readonly token: string
      readonly count: number
      readonly tickets: number
      readonly restMs: number
    }
  /** Sets the interval of every worker's heartbeats. */
  | { readonly do: 'beat'; readonly everyMs: number }

export interface LoadTiming {
  readonly ms: number
  /** Processor time of the load process itself. */
  readonly cpuMs: number
}

/** Also the time until the last run was confirmed. */
export interface EnqueueTiming extends LoadTiming {
  readonly enqueuedMs: number
}

/** Milliseconds from each request until the worker had the dispatch. */
export interface DispatchWaits {
  readonly waits: readonly number[]
}

export const EVENT_FRAME_BYTES = 300
/** The most frames that a worker keeps unacknowledged. */
export const WINDOW_FRAMES = 10_000
export const ACK_FRAMES = 512

const AT = '2026-01-31T12:00:00.000Z'
const FILLING =
  'compiling module after module, and saying so in a line as long as most lines of a log are; '.repeat(4)

/** A reporting frame of exactly the agreed length, whatever its number. */
export function eventFrame(leaseId: string, seq: number): string {
  const head = `{"type":"run-event","leaseId":"${leaseId}","seq":${seq},"event":{"at":"${AT}","type":"log","stream":"stdout","text":"`
  return `${head}${FILLING.slice(0, EVENT_FRAME_BYTES - head.length - 3)}"}}`
}

export function completeFrame(leaseId: string, seq: number): string {
  const frame: WorkerFrameOf<'run-complete'> = {
    type: 'run-complete',
    leaseId,
    seq,
    outcome: {
      status: 'completed',
      result: { branch: 'agent/eng-1', summary: 'Did what the ticket asks, with a test.', artifacts: [] },
      costs: [
        {
          label: 'agent',
          provider: 'agentA',
          inputTokens: 120_000,
          outputTokens: 4_000,
          cacheReadTokens: 90_000,
          cacheWriteTokens: 3_000,
          costUsd: 0.42,
          estimated: false,
        },
      ],
      prUrl: 'https://code.example.org/team/repo/pull/1',
      prState: 'open',
      sandbox: { id: 'box-1' },
    },
  }
  return JSON.stringify(frame)
}
