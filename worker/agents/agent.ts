/**
 * What an agent is to the worker: a command line to run in a sandbox, and a dialect to listen to.
 *
 * Types only; each agent is a small file beside this one. A driver is pure but for finding its program: it never
 * starts anything, reads no clock, and sees the agent's files only through `AgentFiles`.
 */
import type { CostEntry } from '../../protocol/cost.ts'
import type { JobAgent, RunCredentials, UsageSnapshot } from '../../protocol/frames.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import type { SandboxFile } from '../sandbox/arguments.ts'

export interface AgentTask {
  /** Model, effort, instructions, memories, command override. */
  readonly agent: JobAgent
  /** The whole prompt: ticket, instructions and memories, put together by the caller. */
  readonly prompt: string
  readonly credential?: RunCredentials['agent']
  /** What else it was given that nobody may read in what it says. */
  readonly secrets?: readonly string[]
  /** A new UUID, for agents that let their caller choose the session's id. */
  readonly sessionId: string
  /** Continue this session instead of beginning one. */
  readonly resume?: string
  readonly maxTurns?: number
  readonly maxCostUsd?: number
  /** Environment for the way out (proxy variables), already decided. */
  readonly environment: Readonly<Record<string, string>>
}

/** A person goes on with a session, at a terminal. */
export interface TerminalTask extends Pick<AgentTask, 'credential' | 'environment'> {
  readonly agent: Pick<JobAgent, 'model' | 'effort' | 'command'>
  readonly resume: string
}

/** Everything is as seen from inside the sandbox: the checkout is /work, home is /home/agent. */
export interface AgentCommand {
  readonly command: readonly string[]
  /** Nothing secret. */
  readonly environment: Readonly<Record<string, string>>
  /** Seen inside only; secrets under /run/cred with mode 0400, put where the agent wants them by `command` itself. */
  readonly files: readonly SandboxFile[]
  /** Files the worker writes into the home folder before the start, replacing what is there. Nothing secret. */
  readonly seeds: readonly { readonly path: string; readonly text: string }[]
  readonly stdin?: string
  /** Host paths that must be shown: where the program is installed. */
  readonly readOnlyPaths: readonly string[]
}

/** What a line of the agent's standard output came to. */
export type AgentObservation =
  | { readonly is: 'event'; readonly event: ReportedEvent }
  /** The id under which the session can be resumed; only from agents that support it. */
  | { readonly is: 'session'; readonly id: string }
  /** What has been spent so far, as far as the stream says; for budgets. */
  | { readonly is: 'spent'; readonly costUsd?: number; readonly turns: number }

export interface AgentExit {
  readonly code?: number
  readonly signal?: string
}

export interface AgentExitReport {
  readonly verdict: 'done' | 'failed' | 'limit' | 'interrupted'
  /** One sentence, unless done. */
  readonly reason?: string
  /** The agent's last words: what becomes the run's summary. */
  readonly summary?: string
  /** label is `run`; the host relabels it. Absent when nothing at all is known. */
  readonly cost?: CostEntry
  /** What transcripts say (`bestCost` in cost.ts) is to be preferred: this is what was seen on the way, or lacks a model. */
  readonly costIsPartial?: boolean
  /** Reported at the end, after everything the lines gave (a `limit` event, if none was given yet, is among them). */
  readonly events: readonly ReportedEvent[]
}

export interface AgentListener {
  /** One line of standard output without its line end; may be anything at all. */
  onOutputLine(text: string, at: string): readonly AgentObservation[]
  /** One line of standard error. */
  onErrorLine(text: string, at: string): readonly AgentObservation[]
  onExit(exit: AgentExit, at: string): AgentExitReport
}

/** The agent's own files on the retained disk; no name leads out, links are not followed, sizes are bounded. */
export interface AgentFiles {
  /** Wall milliseconds by the clock that their writers have, too. Absent: nobody knows. */
  readonly readAt?: number
  /** Names of the entries of a folder below home, [] when there is none. */
  list(folder: string): Promise<readonly string[]>
  /** Lines of a file below home, one after the other; nothing when there is none. A line that is too long is left out. */
  lines(path: string): AsyncIterable<string>
}

/** What this machine has of an agent. */
export type LocatedAgent =
  | {
      readonly is: 'found'
      readonly program: string
      readonly readOnlyPaths: readonly string[]
      /** Folders inside that come first on the agent's PATH: where the interpreter is that the program is written for. */
      readonly path?: readonly string[]
    }
  | { readonly is: 'missing'; readonly reason: string }

export interface AgentDriver {
  readonly provider: 'agentA' | 'agentB' | 'agentC'
  /** Looked for on this machine; not asked when the job brings a command line of its own. */
  locate(): Promise<LocatedAgent>
  buildCommand(task: AgentTask, found: LocatedAgent): AgentCommand
  /** To be run on a terminal; absent: nobody can go on with a session of this agent's. */
  buildTerminalCommand?(task: TerminalTask, found: LocatedAgent): AgentCommand
  /** The session that a person goes on with: this one, or one that was begun in it and is where he was last. */
  findLatestSession?(files: AgentFiles, sessionId: string): Promise<string>
  /** For one execution. */
  createListener(task: AgentTask): AgentListener
  /**
   * Projections of the session's transcripts: numbers and names only. [] for agents that keep none. `andSince`: an
   * instant from which on a person was at it, who may have begun other sessions; what those have used counts as its own.
   */
  readUsage(files: AgentFiles, sessionId: string, othersSince?: string): Promise<readonly UsageSnapshot[]>
}
