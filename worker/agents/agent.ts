/**
 * The interface between the worker and a coding agent: a command to run in a sandbox, and a parser of its output.
 *
 * Each agent implements `AgentDriver` in a folder of its own. Drivers are pure except for locating the program: they
 * start no process, read no clock, and read the agent's files only through `AgentFiles`.
 */
import type { PriceTable } from '../../core/run/price.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { CostEntry } from '../../protocol/cost.ts'
import type { JobAgent, RunCredentials, UsageSnapshot } from '../../protocol/frames.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import type { WorkerAgent } from '../../protocol/worker.ts'
import type { SandboxFile } from '../sandbox/driver.ts'

export interface AgentTask {
  /** Model, effort, instructions, memories, command override. */
  readonly agent: JobAgent
  /** The complete prompt, built by the caller from ticket, instructions and memories. */
  readonly prompt: string
  /** The credential, or a placeholder where the worker adds the credential outside. */
  readonly credential?: RunCredentials['agent']
  /** The address of the model's API inside the sandbox; absent: the agent contacts its vendor itself. */
  readonly modelApiUrl?: string
  /** Further secrets given to the agent, to redact from its output. */
  readonly secrets?: readonly string[]
  /** A new UUID, for agents whose caller chooses the session id. */
  readonly sessionId: string
  /** Id of the session to continue instead of starting a new one. */
  readonly resume?: string
  readonly maxTurns?: number
  /** The prices of this run, in place of the driver's. */
  readonly prices?: PriceTable
  readonly maxCostUsd?: number
  /** Environment variables for the egress proxy. */
  readonly environment: Readonly<Record<string, string>>
}

/** A session that a person continues at a terminal. */
export interface TerminalTask extends Pick<AgentTask, 'credential' | 'environment' | 'modelApiUrl'> {
  readonly agent: Pick<JobAgent, 'model' | 'effort' | 'command'>
  readonly resume: string
}

/** All paths are inside the sandbox: the checkout is /work, the home folder /home/agent. */
export interface AgentCommand {
  readonly command: readonly string[]
  /** Must hold no secrets. */
  readonly environment: Readonly<Record<string, string>>
  /** Files that exist only inside. Secrets lie under /run/cred with mode 0400; `command` moves them to their place. */
  readonly files: readonly SandboxFile[]
  /** Files the worker writes into the home folder before the start, replacing existing ones. Must hold no secrets. */
  readonly seeds: readonly { readonly path: string; readonly text: string }[]
  readonly stdin?: string
  /** Host paths to mount: where the program is installed. */
  readonly readOnlyPaths: readonly string[]
}

/** A result of parsing one line of the agent's output. */
export type AgentObservation =
  | { readonly is: 'event'; readonly event: ReportedEvent }
  /** The id by which the session can be resumed; only from agents that support resuming. */
  | { readonly is: 'session'; readonly id: string }
  /** The cost and turns so far, as far as the stream reports them; for budgets. */
  | { readonly is: 'spent'; readonly costUsd?: number; readonly turns: number }

export interface AgentExit {
  readonly code?: number
  readonly signal?: string
}

export interface AgentExitReport {
  readonly verdict: 'done' | 'failed' | 'limit' | 'interrupted'
  /** A sentence that explains the verdict; absent for `done`. */
  readonly reason?: string
  /** The vendor refused the agent's credential, or the agent has none. */
  readonly isCredentialRefused?: true
  /** The agent's final text, which becomes the run's summary. */
  readonly summary?: string
  /** The cost entry with label `run`, which the host replaces. Absent when no usage is known. */
  readonly cost?: CostEntry
  /** The cost is incomplete or lacks a model; prefer the cost from transcripts (`bestCost` in cost.ts). */
  readonly costIsPartial?: boolean
  /** Events to report after all observations of the lines, such as a `limit` event. */
  readonly events: readonly ReportedEvent[]
}

export interface AgentListener {
  /** Receives a line of standard output without its line end. The line may contain anything. */
  onOutputLine(text: string, at: string): readonly AgentObservation[]
  /** Receives a line of standard error. */
  onErrorLine(text: string, at: string): readonly AgentObservation[]
  onExit(exit: AgentExit, at: string): AgentExitReport
}

/** The agent's own files on the retained disk. Paths stay below home, links are not followed, sizes are bounded. */
export interface AgentFiles {
  /** When the files are read: wall-clock milliseconds of the machine that wrote them. Absent when unknown. */
  readonly readAt?: number
  /** Lists the names in a folder below home; [] when it does not exist. */
  list(folder: string): Promise<readonly string[]>
  /** Yields the lines of a file below home; none when it does not exist. Overlong lines are truncated. */
  lines(path: string): AsyncIterable<string>
}

/** Whether and where an agent is installed on this machine. */
export type LocatedAgent =
  | {
      readonly is: 'found'
      readonly program: string
      readonly readOnlyPaths: readonly string[]
      /** Folders that come first on the agent's PATH inside: where the program's interpreter lies. */
      readonly path?: readonly string[]
    }
  | { readonly is: 'missing'; readonly reason: string }

/** The files of an agent's home that a later session needs in order to continue an earlier one. */
export interface TranscriptFiles {
  /** A folder below home. */
  readonly folder: string
  /** Receives a path below that folder. */
  isTranscript(path: string): boolean
}

export interface AgentDriver {
  readonly provider: AgentProvider
  /** Absent when the agent cannot continue sessions. */
  readonly transcripts?: TranscriptFiles
  /** Locates the program on this machine. Not called when the job overrides the command. */
  locate(): Promise<LocatedAgent>
  /** Tells whether the machine can run the agent. Reads a few small files and starts no process. */
  probe(): Promise<WorkerAgent>
  buildCommand(task: AgentTask, found: LocatedAgent): AgentCommand
  /** Builds the command that continues a session at a terminal. Absent when the agent cannot continue sessions. */
  buildTerminalCommand?(task: TerminalTask, found: LocatedAgent): AgentCommand
  /** Finds the session that a returning person continues: the given one, or a later one that was started from it. */
  findLatestSession?(files: AgentFiles, sessionId: string): Promise<string>
  /** Creates the listener of one execution. */
  createListener(task: AgentTask): AgentListener
  /**
   * Reads usage snapshots (numbers and names only) from the session's transcripts; [] for agents that keep none.
   * `othersSince` is the instant when a person took over. Usage of other sessions from then on counts for this one,
   * because the person may have started them.
   */
  readUsage(files: AgentFiles, sessionId: string, othersSince?: string): Promise<readonly UsageSnapshot[]>
}
